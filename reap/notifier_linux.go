package reap

import "golang.org/x/sys/unix"

// awaitExit waits until a child has exited and leaves it to be collected
// (waitid(2) with WNOWAIT). It says whether the child has: ECHILD too means
// that there is none that runs.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil || err == unix.ECHILD
		}
	}
}
