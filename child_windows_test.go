package jobprobe

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// winChildMode is the variable that makes the test binary a child:
// "exit N" waits for the end of its input and exits with N,
// "identify P" prints the identity of process P.
const winChildMode = "JOBPROBE_TEST_WINDOWS_CHILD"

// TestWindowsChild is no test: it is what a child of the others runs.
func TestWindowsChild(t *testing.T) {
	mode, arg, _ := strings.Cut(os.Getenv(winChildMode), " ")
	number, err := strconv.Atoi(arg)
	switch mode {
	case "":
		return
	case "exit":
		io.Copy(io.Discard, os.Stdin)
		os.Exit(number)
	case "identify":
		id, ierr := Identify(number)
		text, jerr := id.MarshalJSON()
		if err != nil || ierr != nil || jerr != nil {
			fmt.Println(err, ierr, jerr)
			os.Exit(2)
		}
		fmt.Println(string(text))
		os.Exit(0)
	}
	os.Exit(3)
}

// winChild is a process that lives until it is told to exit.
type winChild struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	pid   int
}

// startWinChild starts a child that will exit with the given code. sddl, if
// not empty, is its security descriptor.
func startWinChild(t *testing.T, code uint32, sddl string) *winChild {
	t.Helper()
	c := &winChild{cmd: exec.Command(os.Args[0], "-test.run=^TestWindowsChild$")}
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=exit %d", winChildMode, code))
	c.cmd.Stderr = os.Stderr
	if sddl != "" {
		sd, err := windows.SecurityDescriptorFromString(sddl)
		if err != nil {
			t.Fatal(err)
		}
		c.cmd.SysProcAttr = &syscall.SysProcAttr{ProcessAttributes: &syscall.SecurityAttributes{
			Length:             uint32(unsafe.Sizeof(syscall.SecurityAttributes{})),
			SecurityDescriptor: uintptr(unsafe.Pointer(sd)),
		}}
	}
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.pid = c.cmd.Process.Pid
	t.Cleanup(func() {
		c.stdin.Close()
		c.cmd.Wait()
	})
	return c
}

// end lets the child exit and waits until it has. Its handle stays open, and
// so its number taken, until collect.
func (c *winChild) end(t *testing.T) {
	t.Helper()
	c.stdin.Close()
	if err := c.cmd.Process.WithHandle(func(h uintptr) {
		if _, err := windows.WaitForSingleObject(windows.Handle(h), windows.INFINITE); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// collect closes the last handle of a child that has exited.
func (c *winChild) collect() { c.cmd.Wait() }

// identity records the child.
func (c *winChild) identity(t *testing.T) Identity {
	t.Helper()
	id, err := Identify(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// identifyIn returns the identity of a process as another process, with
// additions to its environment, writes it down.
func identifyIn(t *testing.T, pid int, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWindowsChild$")
	cmd.Env = append(append(os.Environ(), env...), fmt.Sprintf("%s=identify %d", winChildMode, pid))
	out, err := cmd.Output()
	line, _, _ := bufio.ScanLines(out, true)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out[:line]))
}

// wantFinding checks a verdict and shows the receipt of a wrong one.
func wantFinding(t *testing.T, id Identity, want Finding) Liveness {
	t.Helper()
	got := Probe(id)
	if got.Finding != want {
		t.Errorf("got %v, want %v: %s", got.Finding, want, receipt(t, got))
	}
	return got
}

func receipt(t *testing.T, v Liveness) []byte {
	t.Helper()
	text, err := v.Evidence.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// wantCall checks what one call answered.
func wantCall(t *testing.T, v Liveness, name string, errno uint32) {
	t.Helper()
	for _, c := range v.Evidence.Calls() {
		if c.Name == name && c.Errno == errno {
			return
		}
	}
	t.Errorf("no %s with code %d: %s", name, errno, receipt(t, v))
}
