package spawn

import "golang.org/x/sys/unix"

// unblockSignals empties this thread's signal mask (sigprocmask(2)).
func unblockSignals() {
	var none unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil)
}
