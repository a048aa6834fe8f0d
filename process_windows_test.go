package jobprobe

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

// openWin pins a process until the end of the test.
func openWin(t *testing.T, id Identity) *Process {
	t.Helper()
	p, err := Open(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// soon is the bound after which a wait that should have ended has hung.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Several waits see one exit, and each its code; 259 too.
func TestWindowsProcessWait(t *testing.T) {
	for _, code := range []uint32{0, 7, 259} {
		c := startWinChild(t, code, "")
		p := openWin(t, c.identity(t))
		if v := p.Probe(); v.Finding != IdentityConfirmed || p.Exit().Known {
			t.Errorf("running: %v, exit %+v", v.Finding, p.Exit())
		}
		exits := make(chan Exit)
		for range 3 {
			go func() {
				e, err := p.Wait(soon(t))
				if err != nil {
					t.Error(err)
				}
				exits <- e
			}()
		}
		c.stdin.Close()
		for range 3 {
			if e, want := <-exits, (Exit{Known: true, Code: int(code)}); e != want {
				t.Errorf("got %+v, want %+v", e, want)
			}
		}
		if v := p.Probe(); v.Finding != DisappearedDuringProbe || v.Alive {
			t.Errorf("exited: %v", v.Finding)
		}
	}
}

func TestWindowsProcessWaitEnds(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	p := openWin(t, id)
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() { _, err := p.Wait(ctx); waits <- err }()
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	go func() { _, err := p.Wait(t.Context()); waits <- err }()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
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
	if err := p.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	wantFinding(t, id, IdentityConfirmed) // it was not touched
}

func TestWindowsProcessSignal(t *testing.T) {
	for _, sig := range []os.Signal{os.Kill, syscall.SIGTERM} {
		c := startWinChild(t, 0, "")
		p := openWin(t, c.identity(t))
		for _, other := range []os.Signal{os.Interrupt, syscall.SIGHUP, syscall.Signal(0)} {
			if err := p.Signal(other); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%v: %v", other, err)
			}
		}
		if v := p.Probe(); v.Finding != IdentityConfirmed {
			t.Errorf("before: %v", v.Finding)
		}
		if err := p.Signal(sig); err != nil {
			t.Errorf("%v: %v", sig, err)
		}
		if e, err := p.Wait(soon(t)); err != nil || !e.Known || e.Code != 1 {
			t.Errorf("%v: ended with %+v, %v", sig, e, err)
		}
		if err := p.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%v to a process that has exited: %v", sig, err)
		}
	}
}

// Nothing but a confirmed identity is pinned, and a pinned one keeps its
// number although everybody else has let go.
func TestWindowsOpen(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	other := id
	other.Start++
	for name, tt := range map[string]struct {
		id   Identity
		want error
	}{
		"recycled":         {other, ErrNoProcess},
		"absent":           {Identity{PID: neverIssued}, ErrNoProcess},
		"nothing recorded": {Identity{PID: id.PID}, ErrUnidentified},
		"beside":           {Identity{PID: id.PID + 1, Start: id.Start, StartUnit: startUnit}, ErrUnidentified},
		"foreign host":     {Identity{PID: id.PID, Start: id.Start, StartUnit: startUnit, Host: "x"}, ErrUnidentified},
	} {
		p, err := Open(tt.id)
		if p != nil || !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
	}
	p := openWin(t, id)
	c.end(t)
	c.collect()
	wantFinding(t, id, DisappearedDuringProbe)
	if v := p.Probe(); v.Finding != DisappearedDuringProbe {
		t.Errorf("pinned: %v", v.Finding)
	}
	if _, err := Open(id); !errors.Is(err, ErrNoProcess) {
		t.Errorf("exited: %v", err)
	}
}

// What the process table confirms cannot be pinned without the right to.
func TestWindowsOpenDenied(t *testing.T) {
	c := startWinChild(t, 0, "D:")
	p, err := Open(c.identity(t))
	if p != nil || !errors.Is(err, ErrUnidentified) || !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		t.Errorf("got %v, %v", p, err)
	}
}
