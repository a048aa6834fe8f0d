package jobprobe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

const (
	startUnit    = "filetime_100ns"
	weakStart    = false // 100 ns, and the creation time never moves
	bootSource   = noBoot
	initialPIDNS = 0
	stepsWhole   = false
)

// The layout in wintable.go is that of x/sys: a wrong constant does not
// compile.
var (
	_ [tableNext]struct{}    = [unsafe.Offsetof(windows.SYSTEM_PROCESS_INFORMATION{}.NextEntryOffset)]struct{}{}
	_ [tableThreads]struct{} = [unsafe.Offsetof(windows.SYSTEM_PROCESS_INFORMATION{}.NumberOfThreads)]struct{}{}
	_ [tableCreated]struct{} = [unsafe.Offsetof(windows.SYSTEM_PROCESS_INFORMATION{}.CreateTime)]struct{}{}
	_ [tablePID]struct{}     = [unsafe.Offsetof(windows.SYSTEM_PROCESS_INFORMATION{}.UniqueProcessID)]struct{}{}
	_ [tableEntry]struct{}   = [unsafe.Sizeof(windows.SYSTEM_PROCESS_INFORMATION{})]struct{}{}

	_ [winAccessDenied]struct{}     = [windows.ERROR_ACCESS_DENIED]struct{}{}
	_ [winInvalidParameter]struct{} = [windows.ERROR_INVALID_PARAMETER]struct{}{}
	_ [winWaitObject0]struct{}      = [windows.WAIT_OBJECT_0]struct{}{}
	_ [winWaitTimeout]struct{}      = [windows.WAIT_TIMEOUT]struct{}{}
)

func usablePID(pid int64) bool { return usableWinPID(pid) }

// osScope is empty: creation times are absolute and need no boot id.
type osScope struct{}

func (osScope) uniqKind() string { return "" }

// complete holds the scope once the whole host id could be read.
var complete atomic.Pointer[scope]

// currentScope reads the host. It cannot fail a probe: a host that is only
// half known differs from every recorded one, and is read again next time.
func currentScope() (*scope, error) {
	if sc := complete.Load(); sc != nil {
		return sc, nil
	}
	host, whole := hostID()
	sc := &scope{host: host}
	if whole {
		complete.Store(sc)
	}
	return sc, nil
}

// observe opens the process and asks it, in this order, for its number, its
// creation time and whether it is signalled; where it cannot be opened, it
// looks it up in the process table.
func observe(id *Identity, _ *scope, _ relation, ev *Evidence) observation {
	l := winLook{pid: uint32(id.PID)}
	l.ask(ev)
	return l.observation()
}

// stamp fills in the creation time of whoever has the number.
func stamp(id *Identity, _ *scope) error {
	l := winLook{pid: uint32(id.PID)}
	l.ask(new(Evidence))
	seen := l.observation()
	switch {
	case seen.presence == absent:
		return ErrNoProcess
	case seen.start != 0:
		id.Start = seen.start
		return nil
	case l.open != 0:
		return fmt.Errorf("%w: %w", ErrUnidentified, syscall.Errno(l.open))
	}
	return ErrUnidentified
}

// ask makes the system calls. SYNCHRONIZE is for the wait, which fails
// without it; neither right lets the holder change the process.
func (l *winLook) ask(ev *Evidence) {
	const rights = windows.PROCESS_QUERY_LIMITED_INFORMATION | windows.SYNCHRONIZE
	h, err := windows.OpenProcess(rights, false, l.pid)
	l.open = errnoOf(err)
	ev.add(answer{to: askOpenProcess, errno: l.open})
	if l.open != 0 {
		if l.open == winAccessDenied {
			l.lookUp(ev)
		}
		return
	}
	defer windows.CloseHandle(h)
	l.askHandle(h, ev)
}

// askHandle asks a handle. It stops at an answer about another process.
func (l *winLook) askHandle(h windows.Handle, ev *Evidence) {
	number, err := windows.GetProcessId(h)
	ev.add(answer{to: askProcessID, errno: errnoOf(err), value: uint64(number)})
	if l.number = number; number != l.pid {
		return
	}
	var created, exit, kernel, user windows.Filetime
	err = windows.GetProcessTimes(h, &created, &exit, &kernel, &user)
	if err == nil {
		l.created = uint64(created.HighDateTime)<<32 | uint64(created.LowDateTime)
	}
	ev.add(answer{to: askTimes, errno: errnoOf(err), value: l.created})
	event, err := windows.WaitForSingleObject(h, 0)
	l.waited, l.wait = err == nil, event
	ev.add(answer{to: askWait, errno: errnoOf(err), value: uint64(event)})
}

// lookUp finds the process in the table of all processes, which needs no
// right to it. The call allocates the table.
func (l *winLook) lookUp(ev *Evidence) {
	table, err := processTable()
	l.row, l.listed = findProcess(table, l.pid)
	ev.add(answer{
		to: askTable, errno: errnoOf(err),
		value: l.row.created, threads: int32(min(l.row.threads, 1<<31-1)),
	})
}

// processTable returns the answer of NtQuerySystemInformation for
// SystemProcessInformation. The table grows while it is being asked for, so
// the size it names is only a hint for the next try.
func processTable() ([]byte, error) {
	const tries, slack, most = 8, 64 << 10, 64 << 20
	size := uint32(256 << 10)
	for range tries {
		table := make([]byte, size)
		var need uint32
		err := windows.NtQuerySystemInformation(windows.SystemProcessInformation, unsafe.Pointer(&table[0]), size, &need)
		if err == nil {
			return table, nil
		}
		if err != windows.STATUS_INFO_LENGTH_MISMATCH || max(need, size) > most {
			return nil, err
		}
		size = max(need, size) + slack
	}
	return nil, windows.STATUS_INFO_LENGTH_MISMATCH
}

// hostID hashes the machine's GUID with the computer name: images are cloned
// with the one, and containers of a host, which do not see each other's
// numbers, differ in the other. whole says that both could be read.
func hostID() (id string, whole bool) {
	guid, guidErr := machineGUID()
	name, nameErr := windows.ComputerName()
	if guid == "" && name == "" {
		return "", false
	}
	sum := sha256.Sum256([]byte("jobprobe host\n" + guid + "\n" + name))
	return hex.EncodeToString(sum[:16]), guidErr == nil && nameErr == nil
}

// machineGUID reads the GUID that Windows gives each installation, in the
// 64-bit view of the registry.
func machineGUID() (string, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Cryptography`,
		registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return "", err
	}
	defer key.Close()
	guid, _, err := key.GetStringValue("MachineGuid")
	return guid, err
}

// bootTime returns when this boot began, as the wall clock stands now.
func bootTime() time.Time { return time.Now().Add(-windows.DurationSinceBoot()) }

// createdAt returns a stamp in epoch seconds; 1970 began 116444736000000000
// stamps after 1601.
func createdAt(_ *scope, start uint64) (seconds float64, ok bool) {
	const epoch = 116444736000000000
	return float64(int64(start)-epoch) / 1e7, start > epoch
}

// marked is false: the environment of another process cannot be read without
// reading its memory.
func marked(*scope, int64, string) bool { return false }

// errnoOf returns the code in an error of x/sys, 0 for none. Where a call
// failed and left no code, x/sys reports EINVAL, which is no Windows code.
func errnoOf(err error) uint32 {
	switch err := err.(type) {
	case nil:
		return 0
	case windows.NTStatus:
		return uint32(err)
	case syscall.Errno:
		return uint32(err)
	}
	return uint32(syscall.EINVAL)
}

func errnoName(code uint32) string {
	switch syscall.Errno(code) {
	case windows.ERROR_ACCESS_DENIED:
		return "ERROR_ACCESS_DENIED"
	case windows.ERROR_INVALID_HANDLE:
		return "ERROR_INVALID_HANDLE"
	case windows.ERROR_INVALID_PARAMETER:
		return "ERROR_INVALID_PARAMETER"
	case windows.ERROR_NOT_ENOUGH_MEMORY:
		return "ERROR_NOT_ENOUGH_MEMORY"
	case windows.ERROR_NO_SYSTEM_RESOURCES:
		return "ERROR_NO_SYSTEM_RESOURCES"
	case syscall.EINVAL:
		return "no error code"
	}
	if code >= 1<<30 {
		return "NTSTATUS 0x" + strconv.FormatUint(uint64(code), 16)
	}
	return "error " + strconv.Itoa(int(code))
}
