package testproc

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxTurns bounds how often a recipe is tried when another thread of the
// process takes the number that a child was to get.
const maxTurns = 200

// Recycle runs a recipe in which a number changes hands. first is started and
// shown to record; it is then killed and collected, between is called, and its
// successor under the same number is returned. Nobody waits for either to
// begin, so that both can fall into one tick. The stage must be number 1 of
// its own namespace (see [PIDs]) with its own /proc.
func Recycle(s *Stage, record func(*Child), between func()) *Child {
	for range maxTurns {
		first := Spawn(s, nil, "idle")
		record(first)
		first.Kill()
		between()
		if err := NextPID(first.PID); err != nil {
			s.Skipf("%v", err)
		}
		second := Spawn(s, nil, "idle")
		if second.PID == first.PID {
			return second
		}
		second.Kill()
	}
	s.Fatalf("no number could be recycled in %d turns", maxTurns)
	return nil
}

// NextPID makes pid the number that the kernel tries first for the next
// process or thread of this namespace (proc(5), ns_last_pid).
func NextPID(pid int) error {
	return os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0)
}

// NextTick returns when the boot clock shows a later hundredth of a second.
func NextTick() {
	for first := tick(); tick() == first; {
		runtime.Gosched()
	}
}

func tick() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano()) / (10 * time.Millisecond)
}

// ThreadNumbered makes a thread of this process with the given id, and says
// whether it got it. The threads it needs stay until the process ends.
func ThreadNumbered(pid int) bool {
	for range 20 {
		if NextPID(pid) != nil {
			return false
		}
		tid := make(chan int)
		go func() {
			runtime.LockOSThread()
			tid <- unix.Gettid()
			select {}
		}()
		if <-tid == pid {
			return true
		}
	}
	return false
}
