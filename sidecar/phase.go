package sidecar

import "github.com/jobprobe/jobprobe/internal/enum"

// Phase is where a run stands in its life. The first that [Phase.Ended] stays.
type Phase uint8

const (
	// PhaseNone is the zero value: the run has not started, or nothing says so.
	PhaseNone Phase = iota
	// PhaseRunning: the run has started, and no end is on record.
	PhaseRunning
	// PhaseInterruptRequested: it runs, and somebody has asked it to stop.
	PhaseInterruptRequested
	// PhaseCompleted: it reported success.
	PhaseCompleted
	// PhaseFailed: it reported a failure, or never started.
	PhaseFailed
	// PhaseInterrupted: it was stopped, by request or because its time was up.
	PhaseInterrupted
	// PhaseRecoveryNeeded: it is over and nobody reported how it came out.
	// It may have done its work: look before it is tried again.
	PhaseRecoveryNeeded
)

var phaseNames = [...]string{
	"none", "running", "interrupt_requested", "completed", "failed", "interrupted", "recovery_needed",
}

// Ended says whether the run is over in this phase.
func (p Phase) Ended() bool { return p >= PhaseCompleted }

// Cleanup is the proof that stopping a run left nothing of it.
type Cleanup uint8

const (
	// CleanupUnknown is the zero value: not everything could be seen.
	CleanupUnknown Cleanup = iota
	// CleanupNotRequested: nobody asked, so nobody looked.
	CleanupNotRequested
	// CleanupRequested: a signal is being sent, and nobody has looked since.
	CleanupRequested
	// CleanupCompleted: no live process is left.
	CleanupCompleted
	// CleanupTimedOut: live processes were left when the time was over.
	CleanupTimedOut
)

var cleanupNames = [...]string{"unknown", "not_requested", "requested", "completed", "timed_out"}

// Remains says whether processes of a run live.
type Remains uint8

const (
	// RemainsUnknown is the zero value: not everything could be seen.
	RemainsUnknown Remains = iota
	// RemainsNone: nothing that is known to be of the run lives. A process that
	// has left the group and dropped the marker is not seen.
	RemainsNone
	// RemainsSome: at least one process of the run lives.
	RemainsSome
)

var remainsNames = [...]string{"unknown", "none", "remain"}

// Ownership is how much is proved of the processes of a run.
type Ownership uint8

const (
	// OwnsTask is the zero value: at most the recorded process is accounted
	// for, which says nothing of those that it started.
	OwnsTask Ownership = iota
	// CleanupPending: processes of the run were seen alive after it was over
	// or asked to stop, or nobody has looked since.
	CleanupPending
	// CleanupConfirmed: every process of the run was seen gone: its group, and
	// whatever carries its marker. That stays so.
	CleanupConfirmed
)

var ownershipNames = [...]string{"runtime_task_only", "cleanup_pending", "cleanup_confirmed"}

// Cause is why a run is in its phase.
type Cause uint8

const (
	// CauseNone is the zero value, null in records: there is nothing to tell.
	CauseNone Cause = iota
	// CauseUserInterrupt: somebody stopped it.
	CauseUserInterrupt
	// CauseShutdown: the store was drained.
	CauseShutdown
	// CauseDeadline: its time was up.
	CauseDeadline
	// CauseProvider: its own command failed.
	CauseProvider
	// CauseRestart: whoever watched over it was lost, and it was found gone.
	CauseRestart
	// CauseRuntime: it could not be started.
	CauseRuntime
)

var causeNames = [...]string{
	"none", "user_interrupt", "shutdown", "deadline_exceeded", "provider_failure", "runtime_restart", "runtime_failure",
}

// String returns the word used in records, for example "interrupt_requested".
func (p Phase) String() string { return enum.Name(phaseNames[:], uint8(p), "Phase") }

// String returns the word used in records, for example "timed_out".
func (c Cleanup) String() string { return enum.Name(cleanupNames[:], uint8(c), "Cleanup") }

// String returns the word used in replies, for example "remain".
func (r Remains) String() string { return enum.Name(remainsNames[:], uint8(r), "Remains") }

// String returns the word used in records, for example "cleanup_pending".
func (o Ownership) String() string { return enum.Name(ownershipNames[:], uint8(o), "Ownership") }

// String returns the word used in records, for example "shutdown".
func (c Cause) String() string { return enum.Name(causeNames[:], uint8(c), "Cause") }

// MarshalText returns the word of [Phase.String]. It fails for a value outside
// the enumeration.
func (p Phase) MarshalText() ([]byte, error) { return enum.Text(phaseNames[:], uint8(p), "phase") }

// MarshalText returns the word of [Cleanup.String]. It fails for a value
// outside the enumeration.
func (c Cleanup) MarshalText() ([]byte, error) {
	return enum.Text(cleanupNames[:], uint8(c), "cleanup")
}

// MarshalText returns the word of [Remains.String]. It fails for a value
// outside the enumeration.
func (r Remains) MarshalText() ([]byte, error) {
	return enum.Text(remainsNames[:], uint8(r), "remains")
}

// MarshalText returns the word of [Ownership.String]. It fails for a value
// outside the enumeration.
func (o Ownership) MarshalText() ([]byte, error) {
	return enum.Text(ownershipNames[:], uint8(o), "ownership")
}

// MarshalText returns the word of [Cause.String]. It fails for a value outside
// the enumeration.
func (c Cause) MarshalText() ([]byte, error) { return enum.Text(causeNames[:], uint8(c), "cause") }

// UnmarshalText accepts exactly the words that [Phase.MarshalText] makes.
func (p *Phase) UnmarshalText(text []byte) error {
	n, err := enum.Value(phaseNames[:], text, "phase")
	if err == nil {
		*p = Phase(n)
	}
	return err
}

// UnmarshalText accepts exactly the words that [Cleanup.MarshalText] makes.
func (c *Cleanup) UnmarshalText(text []byte) error {
	n, err := enum.Value(cleanupNames[:], text, "cleanup")
	if err == nil {
		*c = Cleanup(n)
	}
	return err
}

// UnmarshalText accepts exactly the words that [Remains.MarshalText] makes.
func (r *Remains) UnmarshalText(text []byte) error {
	n, err := enum.Value(remainsNames[:], text, "remains")
	if err == nil {
		*r = Remains(n)
	}
	return err
}

// UnmarshalText accepts exactly the words that [Ownership.MarshalText] makes.
func (o *Ownership) UnmarshalText(text []byte) error {
	n, err := enum.Value(ownershipNames[:], text, "ownership")
	if err == nil {
		*o = Ownership(n)
	}
	return err
}

// UnmarshalText accepts exactly the words that [Cause.MarshalText] makes.
func (c *Cause) UnmarshalText(text []byte) error {
	n, err := enum.Value(causeNames[:], text, "cause")
	if err == nil {
		*c = Cause(n)
	}
	return err
}
