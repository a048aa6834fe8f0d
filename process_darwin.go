package jobprobe

import (
	"context"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pin holds no handle: macOS has none that names a process. A start time in
// microseconds together with a number that is not reused before 99,900 others
// is confirmed anew for each use.
type pin struct {
	id    Identity
	open  context.Context // done once the pin is closed
	ended context.CancelFunc
}

func openPin(id Identity) (*pin, Liveness, error) {
	p := &pin{id: id}
	p.open, p.ended = context.WithCancel(context.Background())
	return p, Probe(id), nil
}

func (p *pin) probe(ev *Evidence) Finding {
	if p.open.Err() != nil {
		return NotProbed
	}
	live := Probe(p.id)
	*ev = live.Evidence
	return live.Finding
}

// wait blocks a thread in kevent(2) until NOTE_EXIT, or until the waiter is
// done, which a pipe tells. The process is confirmed after the event has been
// asked for: from then on the event is that of the confirmed process.
func (p *pin) wait(ctx context.Context) error {
	kq, err := unix.Kqueue()
	if err != nil {
		return err
	}
	defer unix.Close(kq)
	unix.CloseOnExec(kq)
	stopped, stop, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stopped.Close()
	defer stop.Close()
	interrupt := func() { stop.Write([]byte{0}) }
	defer context.AfterFunc(ctx, interrupt)()
	defer context.AfterFunc(p.open, interrupt)()

	var ask [2]unix.Kevent_t
	unix.SetKevent(&ask[0], int(stopped.Fd()), unix.EVFILT_READ, unix.EV_ADD)
	unix.SetKevent(&ask[1], int(p.id.PID), unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	ask[1].Fflags = unix.NOTE_EXIT
	for asked := ask[:]; ; {
		// An exited process cannot be asked for (ESRCH); the probe tells.
		_, err := unix.Kevent(kq, asked, nil, &unix.Timespec{})
		if Probe(p.id).Conclusion == ProcessGone {
			return nil
		}
		if err != nil && err != unix.EINTR {
			return err
		}
		asked = nil
		var got [2]unix.Kevent_t
		if _, err := unix.Kevent(kq, nil, got[:], nil); err != nil && err != unix.EINTR {
			return err
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case p.open.Err() != nil:
			return os.ErrClosed
		}
		if Probe(p.id).Conclusion == ProcessGone {
			return nil
		}
		asked = ask[1:] // the exit was told before the process was a zombie
	}
}

// exit is never known: macOS tells it to the parent only, by collecting.
func (p *pin) exit() Exit { return Exit{} }

func (p *pin) signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return errNoSignal
	}
	if p.open.Err() != nil {
		return os.ErrClosed
	}
	switch live := Probe(p.id); {
	case live.Conclusion == ProcessGone:
		return os.ErrProcessDone
	case live.Finding != IdentityConfirmed:
		return &OpenError{Liveness: live}
	}
	err := unix.Kill(int(p.id.PID), n)
	if err == unix.ESRCH {
		return os.ErrProcessDone
	}
	return err
}

func (p *pin) close() error {
	if p.open.Err() != nil {
		return os.ErrClosed
	}
	p.ended()
	return nil
}
