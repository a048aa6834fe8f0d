package jobprobe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	startUnit    = "unix_us"
	weakStart    = false // microseconds, and numbers wrap only after 99999
	bootSource   = ""
	initialPIDNS = 0
	stepsWhole   = false
)

// The layout in kinfo.go is that of both ports: a wrong constant does not
// compile.
var (
	_ [kinfoSize]struct{}    = [unsafe.Sizeof(unix.KinfoProc{})]struct{}{}
	_ [kinfoSec]struct{}     = [unsafe.Offsetof(unix.KinfoProc{}.Proc.P_starttime) + unsafe.Offsetof(unix.KinfoProc{}.Proc.P_starttime.Sec)]struct{}{}
	_ [kinfoUsec]struct{}    = [unsafe.Offsetof(unix.KinfoProc{}.Proc.P_starttime) + unsafe.Offsetof(unix.KinfoProc{}.Proc.P_starttime.Usec)]struct{}{}
	_ [kinfoStat]struct{}    = [unsafe.Offsetof(unix.KinfoProc{}.Proc.P_stat)]struct{}{}
	_ [kinfoPID]struct{}     = [unsafe.Offsetof(unix.KinfoProc{}.Proc.P_pid)]struct{}{}
	_ [kinfoPgid]struct{}    = [unsafe.Offsetof(unix.KinfoProc{}.Eproc) + unsafe.Offsetof(unix.KinfoProc{}.Eproc.Pgid)]struct{}{}
	_ [kinfoEflag]struct{}   = [unsafe.Offsetof(unix.KinfoProc{}.Eproc) + unsafe.Offsetof(unix.KinfoProc{}.Eproc.Flag)]struct{}{}
	_ [darwinEPERM]struct{}  = [unix.EPERM]struct{}{}
	_ [darwinESRCH]struct{}  = [unix.ESRCH]struct{}{}
	_ [darwinEACCES]struct{} = [unix.EACCES]struct{}{}
)

// usablePID accepts the numbers that pid_t can carry: KERN_PROC_PID cuts
// wider ones to 32 bits, and kill(2) takes zero and less for groups.
func usablePID(pid int64) bool { return pid >= 1 && pid <= 1<<31-1 }

// osScope is empty: the optional p_uniqueid needs a private system call.
type osScope struct{}

func (osScope) uniqKind() string { return "" }

// complete holds the scope once every part of it could be read.
var complete atomic.Pointer[scope]

// currentScope reads the boot session and the host. Neither can fail a probe:
// what could not be read compares with nothing, and is read again next time.
func currentScope() (*scope, error) {
	if sc := complete.Load(); sc != nil {
		return sc, nil
	}
	sc := &scope{host: hostID()}
	// kern.bootsessionuuid is random for each boot and outlives sleep.
	// kern.boottime would not do: it moves with the wall clock.
	if id, err := unix.Sysctl("kern.bootsessionuuid"); err == nil && isUUID36(id) {
		sc.boot, sc.bootReal = id, true
	}
	if sc.bootReal && sc.host != "" {
		complete.Store(sc)
	}
	return sc, nil
}

// observe asks for one struct kinfo_proc, whose start time is readable for
// the processes of every user, and kill(2) only where that met an obstacle.
func observe(id *Identity, _ *scope, _ relation, ev *Evidence) observation {
	raw, errno := sysctlKinfo(int(id.PID))
	call := answer{to: askSysctl, errno: errno, value: uint64(len(raw))}
	if k, ok := parseKinfo(raw); ok {
		call.value, call.state = k.start, k.letter()
	}
	ev.add(call)
	seen, askKill := kinfoSeen(id.PID, raw, errno)
	if !askKill {
		return seen
	}
	errno = errnoOf(unix.Kill(int(id.PID), 0))
	ev.add(answer{to: askKillZero, errno: errno})
	return killSeen(seen, errno)
}

// stamp fills in the start time of whoever has the number.
func stamp(id *Identity, sc *scope) error {
	raw, errno := sysctlKinfo(int(id.PID))
	seen, _ := kinfoSeen(id.PID, raw, errno)
	switch {
	case seen.presence == absent:
		return ErrNoProcess
	case seen.start != 0:
		id.Start = seen.start
		return nil
	case errno != 0:
		return fmt.Errorf("%w: %w", ErrUnidentified, syscall.Errno(errno))
	}
	return ErrUnidentified
}

// sysctlKinfo returns the raw answer of sysctl kern.proc.pid (sysctl(3)).
// unix.SysctlKinfoProc would not do: it reports EIO both for a number that
// nobody has and for an unknown layout. The size query before it allows for
// new processes, so it is never zero.
func sysctlKinfo(pid int) (raw []byte, errno uint32) {
	raw, err := unix.SysctlRaw("kern.proc.pid", pid)
	if err != nil {
		return nil, errnoOf(err)
	}
	return raw, 0
}

// hostID hashes the platform UUID of gethostuuid(3), which x/sys does not
// wrap. A host name changes with the network and is shared by many Macs, so
// it is no substitute: without a UUID the host is not known.
func hostID() string {
	var uuid [16]byte
	wait := unix.Timespec{Sec: 1}
	//lint:ignore SA1019 no wrapper of x/sys reaches it
	_, _, errno := unix.Syscall(unix.SYS_GETHOSTUUID, uintptr(unsafe.Pointer(&uuid)), uintptr(unsafe.Pointer(&wait)), 0)
	if errno != 0 || uuid == [16]byte{} {
		return ""
	}
	sum := sha256.Sum256(append([]byte("jobprobe host\n"), uuid[:]...))
	return hex.EncodeToString(sum[:16])
}

// bootTime returns when this boot began, as the wall clock stands now, or the
// zero time. It bounds how old a record of this boot can be and identifies
// nothing.
func bootTime() time.Time {
	tv, err := unix.SysctlTimeval("kern.boottime")
	if err != nil || tv.Sec <= 0 {
		return time.Time{}
	}
	return time.Unix(tv.Sec, int64(tv.Usec)*1000)
}

// createdAt returns a stamp in epoch seconds.
func createdAt(_ *scope, start uint64) (seconds float64, ok bool) {
	return float64(start) / 1e6, start != 0
}

// marked says whether the process was started with the run's marker. The
// kernel shows an environment to its owner and to root only, and without that
// there is no marker.
func marked(_ *scope, pid int64, runID string) bool {
	raw, err := unix.SysctlRaw("kern.procargs2", int(pid))
	return err == nil && markedProcargs(raw, runID)
}
