//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package reap

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/jobprobe/jobprobe/sidecar"
)

// notifierGroup is a notifier that is never started: this system is not supported,
// and the notice says OSError.
type notifierGroup struct{}

func startNotifier(*exec.Cmd) (notifierGroup, error) { return notifierGroup{}, errors.ErrUnsupported }

func (notifierGroup) release()                   {}
func (notifierGroup) watch(context.Context) bool { return false }

func apart() *syscall.SysProcAttr { return nil }

func exitNumber(state *os.ProcessState) int64 { return int64(state.ExitCode()) }

func trusted(string, sidecar.FileInfo) bool { return false }
