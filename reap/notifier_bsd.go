//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package reap

import "golang.org/x/sys/unix"

// awaitExit waits until a child has exited and leaves it to be collected
// (kqueue(2), NOTE_EXIT; on macOS waitid(2) also returns for a child that was
// only stopped). It says whether the child has: ESRCH means that it had exited
// before the call. Without a descriptor for the queue it cannot tell.
func awaitExit(pid int) bool {
	kq, err := unix.Kqueue()
	if err != nil {
		return false
	}
	defer unix.Close(kq)
	unix.CloseOnExec(kq)
	change := make([]unix.Kevent_t, 1)
	unix.SetKevent(&change[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	change[0].Fflags = unix.NOTE_EXIT
	event := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(kq, change, event, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err == unix.ESRCH
		case n > 0 && event[0].Flags&unix.EV_ERROR != 0:
			return event[0].Data == int64(unix.ESRCH)
		case n > 0:
			return true
		}
	}
}
