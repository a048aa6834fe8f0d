package jobprobe

import (
	"context"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/windows"
)

// pin is a process handle. As long as it is open, Windows gives the number to
// nobody else.
type pin struct {
	number uint32
	open   context.Context // done once the pin is closed
	ended  context.CancelFunc

	mu     sync.RWMutex // held for reading while the handle is in use
	handle windows.Handle
}

func openPin(id Identity) (*pin, Liveness, error) {
	if !askable(&id) {
		return nil, Probe(id), nil
	}
	const rights = windows.PROCESS_QUERY_LIMITED_INFORMATION | windows.SYNCHRONIZE
	h, err := windows.OpenProcess(rights, false, uint32(id.PID))
	// The handle was held before the probe: what that confirms by number is
	// what the handle pins.
	live := Probe(id)
	if err != nil {
		if live.Finding != IdentityConfirmed {
			err = nil // the finding says it better
		}
		return nil, live, err
	}
	p := &pin{number: uint32(id.PID), handle: h}
	p.open, p.ended = context.WithCancel(context.Background())
	return p, live, nil
}

// use runs f with the handle, which stays open meanwhile.
func (p *pin) use(f func(windows.Handle)) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.handle == 0 {
		return os.ErrClosed
	}
	f(p.handle)
	return nil
}

// probe asks whether the process is signalled. Its identity needs no second
// look: the handle is that of the process that was confirmed.
func (p *pin) probe(ev *Evidence) Finding {
	f := NotProbed
	p.use(func(h windows.Handle) {
		event, err := windows.WaitForSingleObject(h, 0)
		ev.add(answer{to: askWait, errno: errnoOf(err), value: uint64(event)})
		switch {
		case err != nil:
			f = AccessDenied
		case event == winWaitTimeout:
			f = IdentityConfirmed
		case event == winWaitObject0:
			f, ev.ExitedUnreaped = DisappearedDuringProbe, true
		default:
			f = IdentityUnreadable
		}
	})
	return f
}

// wait blocks a thread until the process or the waiter is done.
func (p *pin) wait(ctx context.Context) error {
	stop, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(stop)
	var signalling sync.WaitGroup
	defer signalling.Wait() // the event is not closed under a signal
	signal := func() { windows.SetEvent(stop); signalling.Done() }
	for _, c := range [...]context.Context{ctx, p.open} {
		signalling.Add(1)
		cancel := context.AfterFunc(c, signal)
		defer func() {
			if cancel() {
				signalling.Done()
			}
		}()
	}
	var waited error
	closed := p.use(func(h windows.Handle) {
		_, waited = windows.WaitForMultipleObjects([]windows.Handle{h, stop}, false, windows.INFINITE)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case closed != nil, p.open.Err() != nil:
		return os.ErrClosed
	}
	return waited
}

// exit returns the exit code once the process is signalled: 259, the code of
// a process that runs, is also one that a process may exit with.
func (p *pin) exit() (e Exit) {
	p.use(func(h windows.Handle) {
		if event, err := windows.WaitForSingleObject(h, 0); err != nil || event != winWaitObject0 {
			return
		}
		var code uint32
		if windows.GetExitCodeProcess(h, &code) == nil {
			e = Exit{Known: true, Code: int(code)}
		}
	})
	return e
}

// signal terminates the process with exit code 1. The right to do so is asked
// for only now; the pinned handle keeps the number from passing on meanwhile.
func (p *pin) signal(sig os.Signal) error {
	if sig != os.Kill && sig != syscall.SIGTERM {
		return errNoSignal
	}
	var ended error
	closed := p.use(func(h windows.Handle) {
		if event, err := windows.WaitForSingleObject(h, 0); err == nil && event == winWaitObject0 {
			ended = os.ErrProcessDone
			return
		}
		t, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, p.number)
		if err != nil {
			ended = err
			return
		}
		defer windows.CloseHandle(t)
		ended = windows.TerminateProcess(t, 1)
	})
	if closed != nil {
		return closed
	}
	return ended
}

func (p *pin) close() error {
	p.ended()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handle == 0 {
		return os.ErrClosed
	}
	err := windows.CloseHandle(p.handle)
	p.handle = 0
	return err
}
