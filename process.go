package jobprobe

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Process pins one process: what it does is done to that process or to none,
// however often its number is reused. It holds one operating system handle (a
// pidfd on Linux, a HANDLE on Windows) until Close; macOS has none, and there
// every use confirms the process anew.
//
// Pinning does not keep the number from being reused, and needs no relation
// to the process: it need not be a child. Its methods may be called from
// several goroutines at once.
type Process struct {
	id  Identity
	pin *pin
}

// Exit is how a process ended, as far as the operating system tells.
type Exit struct {
	// Known says that the other fields hold the real exit status.
	Known bool
	// Code is the exit code; on Unix it is -1 after a death by signal.
	Code int
	// Signal is the number of the signal that ended it, 0 if none did.
	Signal int
	// Core says that a core was dumped.
	Core bool
}

// An OpenError says that an identity could not be pinned. It matches
// ErrNoProcess if the process is conclusively gone and ErrUnidentified if the
// number's holder could not be confirmed as the recorded process.
type OpenError struct {
	Liveness Liveness
	Err      error // the operating system's error, if one stood in the way
}

func (e *OpenError) Error() string {
	text := "jobprobe: cannot open process: " + e.Liveness.Finding.String()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is matches the two sentinels described above.
func (e *OpenError) Is(target error) bool {
	if e.Liveness.Conclusion == ProcessGone {
		return target == ErrNoProcess
	}
	return target == ErrUnidentified
}

func (e *OpenError) Unwrap() error { return e.Err }

// Open pins the identified process. It succeeds only on the finding
// IdentityConfirmed, reached while the handle was already held. The error is
// an *OpenError; it wraps errors.ErrUnsupported where the operating system
// has no handle (Linux before 5.3, or a filter on pidfd_open).
func Open(id Identity) (*Process, error) {
	p, live, err := openPin(id)
	if err != nil || live.Finding != IdentityConfirmed {
		if p != nil {
			p.close()
		}
		return nil, &OpenError{Liveness: live, Err: err}
	}
	return &Process{id: id, pin: p}, nil
}

// Identity returns the identity that was opened.
func (p *Process) Identity() Identity { return p.id }

// Probe answers as the function of that name, from the handle: in one system
// call while the process runs. It allocates nothing. After Close it is
// Unknown.
func (p *Process) Probe() Liveness {
	var v Liveness
	v.conclude(p.pin.probe(&v.Evidence))
	return v
}

// Wait returns once the process has exited, without polling, and with its
// exit status if the operating system tells it: on Windows always, on Linux
// to the parent always and to others (6.15 and later) once the parent has
// collected it, on macOS never. Ask Exit again where it was not known yet.
// Wait collects nothing: a parent still has to.
//
// On Linux a wait blocks no thread, elsewhere one. The error is the context's,
// os.ErrClosed after Close, or the operating system's.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	if err := p.pin.wait(ctx); err != nil {
		return Exit{}, err
	}
	return p.pin.exit(), nil
}

// Exit returns the exit status of a process that has exited, as far as the
// operating system tells it now.
func (p *Process) Exit() Exit { return p.pin.exit() }

// Signal sends a signal to the process and never to another. It refuses
// number 1. The error is os.ErrProcessDone if the process has exited (on Linux:
// and has been collected), errors.ErrUnsupported for a signal that the system
// does not have: Windows has os.Kill and SIGTERM, which both terminate.
//
// On macOS, which has no handle to signal through, the process is confirmed
// by its start time just before: a reuse of the number in between, which
// takes the whole range of numbers, would be missed.
func (p *Process) Signal(sig os.Signal) error {
	if p.id.PID <= 1 {
		return fmt.Errorf("%w: %d is never signalled", ErrUnusablePID, p.id.PID)
	}
	return p.pin.signal(sig)
}

// Close releases the handle and ends every Wait. The process is not touched.
func (p *Process) Close() error { return p.pin.close() }

// errNoSignal is returned for a signal that the system does not have.
var errNoSignal = fmt.Errorf("sending this signal: %w", errors.ErrUnsupported)
