//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package reap

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/sidecar"
)

// apart starts a notifier as the leader of a session and process group
// (setsid(2)).
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// notifierGroup is a notifier and what it starts, unless that leaves the group.
type notifierGroup struct{ leader int }

func startNotifier(cmd *exec.Cmd) (notifierGroup, error) {
	if err := cmd.Start(); err != nil {
		return notifierGroup{}, err
	}
	return notifierGroup{cmd.Process.Pid}, nil
}

func (notifierGroup) release() {}

// watch waits until the leader has exited, and returns true. If ctx ends
// before, it kills the group and returns false. The leader is not collected:
// until it is, its number, which is the group's, cannot go to a stranger.
func (g notifierGroup) watch(ctx context.Context) bool {
	exited := make(chan struct{})
	go func() {
		if awaitExit(g.leader) {
			close(exited)
		}
	}()
	if closes(ctx, exited) {
		return true
	}
	_ = unix.Kill(-g.leader, unix.SIGKILL) // ESRCH and EPERM leave nothing to do
	return false
}

// exitNumber is the exit code, or the negative number of the signal that
// ended the notifier.
func exitNumber(state *os.ProcessState) int64 {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -int64(ws.Signal())
	}
	return int64(state.ExitCode())
}

// trusted says whether a record speaks for the caller: only the effective
// user and root can have written it. A directory that is a symbolic link is
// not trusted, because where it led when the record was read is not known.
func trusted(dir string, file sidecar.FileInfo) bool {
	uid := uint32(os.Geteuid())
	if !file.HasOwner || file.UID != uid || file.Mode&0o022 != 0 {
		return false
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == uid || st.Uid == 0)
}
