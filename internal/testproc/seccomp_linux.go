package testproc

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deniable are the system calls that a stage may be refused, by name.
var deniable = map[string]uint32{
	"kill":              unix.SYS_KILL,
	"openat":            unix.SYS_OPENAT,
	"pidfd_open":        unix.SYS_PIDFD_OPEN,
	"pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL,
	"ppoll":             unix.SYS_PPOLL,
	"read":              unix.SYS_READ,
}

var errnos = map[string]unix.Errno{
	"EACCES": unix.EACCES, "EINVAL": unix.EINVAL, "EIO": unix.EIO,
	"EMFILE": unix.EMFILE, "ENFILE": unix.ENFILE, "ENODEV": unix.ENODEV,
	"ENOENT": unix.ENOENT, "ENOMEM": unix.ENOMEM, "ENOSYS": unix.ENOSYS,
	"EPERM": unix.EPERM, "ESRCH": unix.ESRCH,
}

// Values of seccomp(2), from include/uapi/linux/seccomp.h.
const (
	setModeFilter = 1
	flagTSync     = 1
	retErrno      = 0x00050000
	retAllow      = 0x7fff0000
)

// deny makes one system call fail with errno in every thread of this process,
// now and later (seccomp(2)). It needs no privilege: no_new_privs is set.
func deny(nr uint32, errno unix.Errno) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr},
		{Code: unix.BPF_RET | unix.BPF_K, K: retErrno | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: retAllow},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	r, _, e := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, flagTSync, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	if r != 0 {
		return fmt.Errorf("seccomp: thread %d did not take the filter", r)
	}
	return nil
}
