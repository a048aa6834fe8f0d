package reap

import (
	"errors"
	"syscall"
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

func killNumber(int64, syscall.Signal) error      { return errors.ErrUnsupported }
func killGroupNumber(int64, syscall.Signal) error { return errors.ErrUnsupported }
