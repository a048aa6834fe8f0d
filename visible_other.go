//go:build !linux && !darwin && !windows && !freebsd

package jobprobe

import "runtime"

// seesAllProcesses says whether kill(2) answers ESRCH for free numbers only.
// OpenBSD and NetBSD say EPERM for every process that may not be signalled.
// Of other systems it is not known: zones and jails hide processes.
func seesAllProcesses() bool {
	return runtime.GOOS == "openbsd" || runtime.GOOS == "netbsd"
}
