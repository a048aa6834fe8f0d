//go:build linux || darwin

package jobprobe

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errGroupLost is returned where a group can be reached only through its
// leader's number, and the leader is gone.
var errGroupLost = fmt.Errorf("signalling a group whose leader is gone: %w", errors.ErrUnsupported)

// groupOf returns the process group of whoever has the number: ErrNoProcess if
// nobody has it, 0 for a group that has no number here (pid_namespaces(7)).
// getpgid(2) needs no permission and no /proc.
func groupOf(pid int64) (pgid int64, err error) {
	n, err := unix.Getpgid(int(pid))
	if err == unix.ESRCH {
		err = ErrNoProcess
	}
	if err != nil {
		return 0, err
	}
	return int64(n), nil
}

// sessionOf returns the session of whoever has the number (getsid(2)), 0 if
// that was not told.
func sessionOf(pid int64) int64 {
	n, err := unix.Getsid(int(pid))
	if err != nil {
		return 0
	}
	return int64(n)
}

// signalGroupByNumber uses the leader's number, which is the group's as long
// as the leader is there. Between the look and kill(2) the leader can end, be
// collected, and its number pass on: two system calls apart, and after every
// other number was used.
func (p *Process) signalGroupByNumber(sig syscall.Signal) error {
	switch live := p.Probe(); {
	case live.Conclusion == ProcessGone:
		return errGroupLost
	case live.Finding != IdentityConfirmed:
		return &OpenError{Liveness: live}
	}
	if pgid, err := groupOf(p.id.PID); err != nil || pgid != p.id.PID {
		return os.ErrProcessDone
	}
	err := unix.Kill(-int(p.id.PID), sig)
	if err == unix.ESRCH {
		return os.ErrProcessDone
	}
	return err
}
