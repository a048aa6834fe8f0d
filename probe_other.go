//go:build !linux && !darwin && !windows

package jobprobe

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// No start stamp is read here, as none is known to stay put: the kernels of
// this kind shift theirs with the clock. Nothing can be identified, and a
// process is only ever found to be absent.
const (
	startUnit    = ""
	weakStart    = true
	bootSource   = noBoot
	initialPIDNS = 0
	stepsWhole   = false
)

// usablePID accepts the numbers that pid_t can carry. Zero and negative
// numbers name groups to kill(2), and wider ones are cut to 32 bits by it.
func usablePID(pid int64) bool { return pid >= 1 && pid <= 1<<31-1 }

type osScope struct{}

func (osScope) uniqKind() string { return "" }

// currentScope is empty: no identity is made here, so none can be from here.
func currentScope() (*scope, error) { return new(scope), nil }

// observe asks kill(2). ESRCH is absence where nothing hides processes from
// this one; success and EPERM say that somebody has the number, not who.
func observe(id *Identity, _ *scope, _ relation, ev *Evidence) observation {
	errno := errnoOf(unix.Kill(int(id.PID), 0))
	ev.add(answer{to: askKillZero, errno: errno})
	if errno == uint32(unix.ESRCH) && seesAllProcesses() {
		return observation{presence: absent}
	}
	return observation{obstacle: UnsupportedPlatform}
}

// stamp reports errors.ErrUnsupported.
func stamp(*Identity, *scope) error {
	return fmt.Errorf("%w: %w", ErrUnidentified, errors.ErrUnsupported)
}

// bootTime is not known.
func bootTime() time.Time { return time.Time{} }

func createdAt(*scope, uint64) (seconds float64, ok bool) { return 0, false }

func marked(*scope, int64, string) bool { return false }
