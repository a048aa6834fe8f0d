//go:build unix

package reap

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// groups says that a record must name the process group of its run.
const groups = true

// ownGroup says whether the group is that of this process, or that of the
// leader of its session.
func ownGroup(pgid int64) bool {
	session, err := unix.Getsid(0)
	return err != nil || pgid == int64(unix.Getpgrp()) || pgid == int64(session)
}

// privileged says that the system shows this process everything.
func privileged() bool { return unix.Geteuid() == 0 }

// endsProcess says whether the default action of the signal is to end the
// process (signal(7)).
func endsProcess(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGCHLD, unix.SIGCONT, unix.SIGSTOP, unix.SIGTSTP,
		unix.SIGTTIN, unix.SIGTTOU, unix.SIGURG, unix.SIGWINCH:
		return false
	}
	// SIGINFO is ignored by default where there is one.
	return sig >= 1 && sig <= maxSignal && sig != unix.SignalNum("SIGINFO")
}

// maxSignal is the largest number of a real-time signal anywhere.
const maxSignal = 64

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return sig.String()
}

// signalOne signals a pinned process.
func (t *target) signalOne(m mark, sig syscall.Signal) error { return m.pin.Signal(sig) }

// killNumber signals a process by its number, where it cannot be pinned.
func killNumber(pid int64, sig syscall.Signal) error {
	return unix.Kill(int(pid), sig)
}

// killGroupNumber signals a group by its number, where nothing can be pinned.
func killGroupNumber(pgid int64, sig syscall.Signal) error {
	return unix.Kill(-int(pgid), sig)
}

// emptyGroup says that no process is in a group, not even one that was not
// collected: kill(2) looks at all of it at once, as no list can.
func emptyGroup(pgid int64) bool {
	return pgid > 1 && unix.Kill(-int(pgid), 0) == unix.ESRCH
}
