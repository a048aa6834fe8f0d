package testproc

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// A Child is a stage that runs beside the test until it is ended. It ends by
// itself when the test's process does, because its standard input closes.
type Child struct {
	PID int
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	// collected says that the number has been given back.
	collected bool
}

// Start starts a stage and returns once it has said "ready". It is killed and
// collected at the end of the test. Stages of this package, on every system:
//
//	idle [SETUP]  prepares itself (see [Prepare]) and waits for End
//
// and on Linux:
//
//	dead-leader   as idle, after its first thread has ended
//	exec-storm    a thread that is not the first one executes the binary again,
//	              without end, and says "again" each time; with argument
//	              "dead" the first one ends before
func Start(t T, attr *syscall.SysProcAttr, name string, args ...string) *Child {
	t.Helper()
	c := Spawn(t, attr, name, args...)
	line, err := c.out.ReadString('\n')
	if line == "ready\n" {
		return c
	}
	if err != nil && c.Wait() == skipCode {
		t.Skipf("%s %q could not be set up; it says why above", name, args)
	}
	t.Fatalf("%s said %q instead of ready: %v", name, line, err)
	return nil
}

// Spawn is Start without the wait: the child exists and has not begun yet.
func Spawn(t T, attr *syscall.SysProcAttr, name string, args ...string) *Child {
	t.Helper()
	c, err := start(Command(t, attr, name, args...))
	if err != nil && isolated(attr) {
		t.Skipf("no new namespaces here: %v", err)
	}
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(c.Kill)
	return c
}

func start(cmd *exec.Cmd) (*Child, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Child{PID: cmd.Process.Pid, cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// Line returns the next line the child says.
func (c *Child) Line(t T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("child says nothing: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// Tell writes one line for the child to read.
func (c *Child) Tell(t T, line string) {
	t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Fatalf("child does not listen: %v", err)
	}
}

// End asks the child to exit and does not collect it: see [Child.Zombie].
func (c *Child) End() { c.in.Close() }

// Kill kills the child and collects it, so that its number is free. A child
// that may not be killed from here any more ends by itself, as after End.
func (c *Child) Kill() {
	if c.collected {
		return
	}
	c.collected = true
	c.End()
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// Drain kills the child and returns what it has said since, unread. It must
// fit into a pipe, or the child would have waited: 64 KiB on Linux.
func (c *Child) Drain() []byte {
	c.cmd.Process.Kill()
	said, _ := io.ReadAll(c.out)
	c.Kill()
	return said
}

// Wait waits for the child to exit by itself, collects it, and returns its
// exit code.
func (c *Child) Wait() int {
	c.collected = true
	c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

// builtin are the stages that need no registration.
var builtin = map[string]func(*Stage){
	"idle": func(s *Stage) {
		if len(s.Args) > 0 {
			Prepare(s, s.Args[0])
		}
		s.Say("ready")
		io.Copy(io.Discard, os.Stdin)
	},
	"dead-leader": deadLeader,
	"exec-storm":  func(s *Stage) { s.Fatalf("exec-storm needs Linux") },
}
