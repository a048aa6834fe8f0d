package reap

import (
	"errors"
	"os"
	"syscall"

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
