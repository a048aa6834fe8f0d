package spawn

import "os"

// pipes are a pipe to a child and a pipe from it. All ends close on exec; the
// child is given its own by os/exec.
type pipes struct {
	to, from          *os.File
	childIn, childOut *os.File
}

func newPipes() (*pipes, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		in.Close()
		to.Close()
		return nil, err
	}
	return &pipes{to: to, from: from, childIn: in, childOut: out}, nil
}

// handOver closes the child's ends, which the child has by now, or never will.
func (p *pipes) handOver() {
	p.childIn.Close()
	p.childOut.Close()
}

// close closes our ends. It may be called again, and at any time.
func (p *pipes) close() {
	p.to.Close()
	p.from.Close()
}
