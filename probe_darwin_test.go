package jobprobe

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// macChildMode makes the test binary a child that exits with its input.
const macChildMode = "JOBPROBE_TEST_DARWIN_CHILD"

// TestDarwinChild is no test: it is what a child of the others runs.
func TestDarwinChild(t *testing.T) {
	if os.Getenv(macChildMode) == "" {
		return
	}
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// startMacChild starts a child and returns how to end it without collecting
// it.
func startMacChild(t *testing.T) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestDarwinChild$")
	cmd.Env = append(os.Environ(), macChildMode+"=1", "JOBPROBE_RUN_ID=run-of-the-child")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	return cmd, func() {
		t.Helper()
		stdin.Close()
		if err := waitExited(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
}

// waitExited is waitid(2) with WNOWAIT: it waits and collects nothing.
func waitExited(pid int) error {
	const (
		pPID    = 1
		wExited = 0x04
		wNoWait = 0x20
	)
	var info [128]byte // siginfo_t is 104 bytes
	for {
		//lint:ignore SA1019 no wrapper of x/sys reaches it
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, pPID, uintptr(pid),
			uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// TestDarwinConformance checks on a real kernel what kinfo_test.go assumes.
func TestDarwinConformance(t *testing.T) {
	cmd, end := startMacChild(t)
	pid := cmd.Process.Pid
	id, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if id.OS != "darwin" || id.Start == 0 || id.StartUnit != "unix_us" || !isUUID36(id.Boot) || id.Host == "" {
		t.Errorf("identity %+v", id)
	}
	check := func(when string, id Identity, want Finding) {
		t.Helper()
		got := Probe(id)
		text, _ := got.Evidence.MarshalJSON()
		if got.Finding != want {
			t.Errorf("%s: got %v, want %v: %s", when, got.Finding, want, text)
		}
	}
	check("running", id, IdentityConfirmed)
	other := id
	other.Start++
	check("another start", other, PIDRecycled)
	check("nothing recorded", Identity{PID: id.PID}, IdentityNotRecorded)
	other = id
	other.Boot = "00000000-0000-4000-8000-000000000000"
	check("another boot of this host", other, PIDRecycled)
	other.Host = "0123456789abcdef0123456789abcdef"
	check("another host", other, ForeignHost)

	seen := observe(&id, nil, relation{start: true}, new(Evidence))
	if seen.session != id.PID {
		t.Errorf("session %d of the session leader %d", seen.session, id.PID)
	}
	if !marked(nil, id.PID, "run-of-the-child") || marked(nil, id.PID, "another-run") {
		t.Error("the child's marker is not read right")
	}

	end()
	check("zombie", id, DisappearedDuringProbe)
	if again, err := Identify(pid); err != nil || again != id {
		t.Errorf("zombie: identified as %+v, %v", again, err)
	}
	cmd.Wait()
	if v := Probe(id); v.Conclusion != ProcessGone {
		t.Errorf("collected: %v", v.Finding)
	}
}

func TestDarwinSelfAndInit(t *testing.T) {
	for _, pid := range []int{os.Getpid(), 1} {
		id, err := Identify(pid)
		if err != nil {
			t.Errorf("%d: %v", pid, err)
			continue
		}
		if v := Probe(id); v.Finding != IdentityConfirmed {
			t.Errorf("%d: %v", pid, v.Finding)
		}
		id.Start++
		if v := Probe(id); v.Finding != PIDRecycled {
			t.Errorf("%d with another start: %v", pid, v.Finding)
		}
	}
}

// PID_MAX is 99999, so that nobody has a larger number.
func TestDarwinAbsent(t *testing.T) {
	for _, pid := range []int64{100000, 1<<31 - 1} {
		v := Probe(Identity{PID: pid, Start: 1, StartUnit: startUnit})
		if v.Finding != PIDAbsent {
			t.Errorf("%d: %v", pid, v.Finding)
		}
		for _, c := range v.Evidence.Calls() {
			if c.Name == "kill 0" {
				t.Errorf("%d: the process table did not decide: errno %d", pid, c.Errno)
			}
		}
		if _, err := Identify(int(pid)); !errors.Is(err, ErrNoProcess) {
			t.Errorf("Identify(%d): %v", pid, err)
		}
	}
}

func TestDarwinBootTime(t *testing.T) {
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	booted := bootTime()
	started, ok := createdAt(nil, self.Start)
	if booted.IsZero() || !ok || float64(booted.Unix()) > started {
		t.Errorf("booted %v, this process started %v %v", booted, started, ok)
	}
}
