package reap

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/jobprobe/jobprobe"
)

// fire sends the signal to what was aimed at, after a last look at each
// process. The error is errChanged, os.ErrProcessDone, or the system's.
func (t *target) fire(sig syscall.Signal) error {
	switch {
	case !t.whole:
		return t.fireMarks(sig)
	case t.head == nil:
		m, err := jobprobe.Describe(t.pid)
		if err != nil || m.Identity != t.live || m.PGID != t.pgid {
			return errChanged
		}
		return killGroupNumber(t.pgid, sig)
	case t.head.Probe().Finding != jobprobe.IdentityConfirmed:
		return errChanged
	}
	return t.head.SignalGroup(sig)
}

// fireMarks succeeds if one signal was sent.
func (t *target) fireMarks(sig syscall.Signal) error {
	result := os.ErrProcessDone
	sent := false
	for _, m := range t.marks {
		var err error
		switch {
		case m.pin != nil && m.pin.Probe().Finding == jobprobe.IdentityConfirmed:
			err = t.signalOne(m, sig)
		case m.pin == nil && jobprobe.Probe(m.id).Finding == jobprobe.IdentityConfirmed:
			err = killNumber(m.id.PID, sig)
		default:
			continue
		}
		if sent = sent || err == nil; !sent && !errors.Is(err, os.ErrProcessDone) {
			result = err
		}
	}
	if sent {
		return nil
	}
	return result
}

// descendants says whether processes of the run live outside its group. An
// environment that cannot be read leaves that open only for a process that
// the run can have started as its own user.
func (t *target) descendants(done Cleanup) Remains {
	if t.pgid == 0 {
		return RemainsUnknown
	}
	found, complete := jobprobe.Marked(t.runID)
	for i := range found {
		m := &found[i]
		if m.Marker == jobprobe.MarkerUnreadable && !t.foreign(m) && !t.before(m.Identity) {
			complete = complete && lookAgain(m) // one that stays so is enough
		}
		if m.Marker == jobprobe.MarkerFound && m.RunID == t.runID && (done == CleanupCompleted || m.PGID != t.pgid) {
			return RemainsSome
		}
	}
	if complete && done == CleanupCompleted {
		return RemainsNone
	}
	return RemainsUnknown
}

// lookAgain looks again at a process that could not be looked into, and says
// whether that is settled: most were met in the middle of an execve, or of
// their exit.
func lookAgain(m *jobprobe.Member) (settled bool) {
	for range secondLooks {
		again, err := jobprobe.Describe(m.Identity.PID)
		switch {
		case errors.Is(err, jobprobe.ErrNoProcess):
			return true
		case err == nil && again.Marker != jobprobe.MarkerUnreadable:
			*m = again
			return true
		}
		time.Sleep(finishPause)
	}
	return false
}

// before says whether a process is known to be older than the leader.
func (t *target) before(id jobprobe.Identity) bool {
	if t.live.Start != 0 && id.Start != 0 {
		return id.Start < t.live.Start
	}
	return t.predates(id)
}
