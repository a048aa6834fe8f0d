package jobprobe

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper starts a child of this test that lives until it is killed.
func sleeper(t *testing.T) (*exec.Cmd, Identity) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, id
}

// stranger starts a process that is no child of this test.
func stranger(t *testing.T) Identity {
	t.Helper()
	out, err := exec.Command("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	id, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, id)
	t.Cleanup(func() { p.Signal(os.Kill) })
	return id
}

func open(t *testing.T, id Identity) *Process {
	t.Helper()
	p, err := Open(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// within is the bound after which a wait that should have ended has hung.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestProcessWaitForNonChild(t *testing.T) {
	p := open(t, stranger(t))
	if v := p.Probe(); v.Finding != IdentityConfirmed {
		t.Fatalf("before: %v", v.Finding)
	}
	waits := make(chan error)
	for range 3 {
		go func() {
			_, err := p.Wait(within(t))
			waits <- err
		}()
	}
	if err := p.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-waits; err != nil {
			t.Fatal(err)
		}
	}
	if v := p.Probe(); v.Conclusion != ProcessGone {
		t.Errorf("after: %v", v.Finding)
	}
}

// TestProcessExitOfNonChild makes this test the parent of the stranger, as a
// container's init is, so that it knows when the stranger is collected.
func TestProcessExitOfNonChild(t *testing.T) {
	if os.Getenv("JOBPROBE_SUBREAPER") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProcessExitOfNonChild$", "-test.v")
		cmd.Env = append(os.Environ(), "JOBPROBE_SUBREAPER=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	p := open(t, stranger(t))
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	want := Exit{Known: true, Code: -1, Signal: int(unix.SIGKILL)}
	if got := p.Exit(); got != want { // uncollected: by waitid, as its parent
		t.Errorf("uncollected: got %+v, want %+v", got, want)
	}
	if _, err := unix.Wait4(int(p.Identity().PID), nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	if got := p.Exit(); got != want && got.Known { // Linux 6.15 knows, older ones say so
		t.Errorf("collected: got %+v, want %+v", got, want)
	}
	if err := p.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to a collected process: %v", err)
	}
}

func TestProcessExitOfChild(t *testing.T) {
	for _, test := range []struct {
		script string
		want   Exit
	}{
		{"exit 0", Exit{Known: true}},
		{"exit 7", Exit{Known: true, Code: 7}},
		{"kill -TERM $$", Exit{Known: true, Code: -1, Signal: 15}},
	} {
		cmd := exec.Command("sh", "-c", "read _; "+test.script)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		id, err := Identify(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		p := open(t, id)
		if got := p.Exit(); got.Known {
			t.Errorf("%s: known before the end: %+v", test.script, got)
		}
		in.Close()
		got, err := p.Wait(within(t))
		if err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v, want %+v", test.script, got, err, test.want)
		}
		cmd.Wait()
		if cmd.ProcessState == nil {
			t.Errorf("%s: the wait has collected the child", test.script)
		}
	}
}

func TestProcessWaitEnds(t *testing.T) {
	_, id := sleeper(t)
	p := open(t, id)
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 2)
	go func() { _, err := p.Wait(ctx); waits <- err }()
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	go func() { _, err := p.Wait(t.Context()); waits <- err }()
	p.Close()
	if err := <-waits; !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := p.Wait(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("wait after close: %v", err)
	}
	if err := p.Signal(os.Kill); !errors.Is(err, os.ErrClosed) {
		t.Errorf("signal after close: %v", err)
	}
	if v := p.Probe(); v.Conclusion != Unknown {
		t.Errorf("probe after close: %v", v.Conclusion)
	}
	if v := Probe(id); v.Finding != IdentityConfirmed {
		t.Errorf("the process was touched: %v", v.Finding)
	}
}

// TestOpenRefuses: nothing but a confirmed identity is pinned.
func TestOpenRefuses(t *testing.T) {
	cmd, id := sleeper(t)
	other := id
	other.Uniq++
	ticks := id
	ticks.Uniq, ticks.Start = 0, ticks.Start+1
	for name, test := range map[string]struct {
		id   Identity
		want error
	}{
		"recycled by inode": {other, ErrNoProcess},
		"recycled by ticks": {ticks, ErrNoProcess},
		"nothing recorded":  {Identity{PID: id.PID}, ErrUnidentified},
		"pid 0":             {Identity{}, ErrUnidentified},
		"foreign boot":      {Identity{PID: id.PID, Boot: "x", Start: 1, StartUnit: startUnit}, ErrUnidentified},
	} {
		p, err := Open(test.id)
		if p != nil || !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := Open(id); !errors.Is(err, ErrNoProcess) {
		t.Errorf("collected: %v", err)
	}
	self, err := Identify(1)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, self)
	if err := p.Signal(syscall.Signal(0)); !errors.Is(err, ErrUnusablePID) {
		t.Errorf("number 1 was signalled: %v", err)
	}
}

// TestProcessLeaksNoDescriptor counts what is open before and after.
func TestProcessLeaksNoDescriptor(t *testing.T) {
	_, id := sleeper(t)
	wrong := id
	wrong.Uniq, wrong.Start = 0, wrong.Start+1
	round := func() {
		p, err := Open(id)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { p.Wait(ctx) })
		}
		p.Probe()
		p.Exit()
		cancel()
		wg.Wait()
		p.Close()
		Open(wrong)
		Open(Identity{PID: 1<<31 - 1})
	}
	round() // what is opened once and kept is open now
	before := openDescriptors(t)
	for range 50 {
		round()
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestProcessProbeAllocatesNothing(t *testing.T) {
	_, id := sleeper(t)
	p := open(t, id)
	if n := testing.AllocsPerRun(100, func() { p.Probe() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
