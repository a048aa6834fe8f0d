package reap

import (
	"errors"
	"syscall"

	"github.com/jobprobe/jobprobe/internal/winjob"
)

// groups is false: a record names one process, and no group of it.
const groups = false

func ownGroup(int64) bool { return false }
func privileged() bool    { return false }

// endsProcess accepts what Windows can be asked for, in the words of Unix.
func endsProcess(sig syscall.Signal) bool {
	return sig == syscall.SIGTERM || sig == syscall.SIGKILL
}

func signalName(sig syscall.Signal) string {
	if sig == syscall.SIGKILL {
		return "SIGKILL"
	}
	return "SIGTERM"
}

// signalOne ends a pinned process, and with it the run's job object, if it is
// in one: all that the job has started.
func (t *target) signalOne(m mark, sig syscall.Signal) error {
	if winjob.End(t.runID, uint32(m.id.PID)) == nil {
		return nil
	}
	return m.pin.Signal(sig)
}

func killNumber(int64, syscall.Signal) error      { return errors.ErrUnsupported }
func killGroupNumber(int64, syscall.Signal) error { return errors.ErrUnsupported }

func emptyGroup(int64) bool { return false }
