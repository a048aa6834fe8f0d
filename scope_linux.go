package jobprobe

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// initialPIDNS is the inode number of every host's first pid namespace
// (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const initialPIDNS = 0xEFFFFFFC

// initialUTSNS is that of every host's first UTS namespace
// (PROC_UTS_INIT_INO).
const initialUTSNS = 0xEFFFFFFE

// osScope is what the scope holds open and knows of the kernel.
type osScope struct {
	proc  int  // O_PATH descriptor of a verified /proc, held for good
	pidfs bool // pidfd inode numbers are unique for this boot
}

func (s osScope) uniqKind() string {
	if s.pidfs {
		return "pidfs"
	}
	return ""
}

// verified holds the scope once /proc could be verified. A failure is not
// kept: it may pass.
var verified atomic.Pointer[scope]

// currentScope verifies /proc and reads where this process stands. The
// descriptor keeps what was verified: later mounts over /proc do not matter.
// A boot id that could not be read, or not from the kernel, is read again.
func currentScope() (*scope, error) {
	sc := verified.Load()
	if sc == nil {
		made, err := newScope("/proc")
		if err != nil {
			return nil, err
		}
		if !verified.CompareAndSwap(nil, made) {
			unix.Close(made.os.proc)
		}
		sc = verified.Load()
	}
	if !sc.bootReal {
		again := *sc
		again.boot, again.bootReal = bootID(sc.os.proc)
		if again.bootReal {
			verified.Store(&again)
		}
		sc = &again
	}
	return sc, nil
}

// newScope opens a /proc and fails unless it is a procfs that shows this
// process: another namespace's /proc describes other processes by the same
// numbers.
func newScope(path string) (*scope, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	sc := &scope{os: osScope{proc: fd}}
	if err := sc.fill(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return sc, nil
}

func (sc *scope) fill() error {
	proc := sc.os.proc
	if !onProcfs(proc) {
		return errors.New("/proc is not a procfs")
	}
	var self [16]byte
	n, err := unix.Readlinkat(proc, "self", self[:])
	if err != nil {
		return fmt.Errorf("read /proc/self: %w", err)
	}
	if string(self[:n]) != strconv.Itoa(os.Getpid()) {
		return errors.New("/proc belongs to another pid namespace")
	}
	if !ownNamespace(sc) {
		return errors.New("/proc belongs to an outer pid namespace")
	}
	if sc.pidNS, err = nsInode(proc, "self/ns/pid"); err != nil {
		return fmt.Errorf("read pid namespace: %w", err)
	}
	// A first thread that has ended shows no time namespace any more.
	if sc.timeNS, err = nsInode(proc, "thread-self/ns/time"); err != nil {
		return fmt.Errorf("read time namespace: %w", err)
	}
	if sc.os.pidfs, err = hasPidfs(); err != nil {
		return fmt.Errorf("open own pidfd: %w", err)
	}
	sc.boot, sc.bootReal = bootID(proc)
	sc.host = hostID(proc)
	return nil
}

// ownNamespace tells a /proc of this process's pid namespace from an outer one
// in which the process happens to have the same number: NSpid lists a number
// for each namespace, from that of the mount inwards (proc_pid_status(5),
// Linux 4.1). An older kernel's status file has no such line.
func ownNamespace(sc *scope) bool {
	status, ok := readAllProc(sc, "self/status")
	_, rest, found := bytes.Cut(status, []byte("\nNSpid:\t"))
	numbers, _, _ := bytes.Cut(rest, []byte("\n"))
	return ok && (!found || !bytes.ContainsRune(numbers, '\t'))
}

func onProcfs(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && int64(fs.Type) == unix.PROC_SUPER_MAGIC
}

// nsInode returns a namespace's inode number, 0 on a kernel without that kind
// of namespace.
func nsInode(proc int, name string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstatat(proc, name, &st, 0)
	if err == unix.ENOENT {
		return 0, nil
	}
	return st.Ino, err
}

// bootID reads random_boot_id(5) and says whether the kernel itself gave it.
// Some containers mount a file over it (systemd-nspawn), which is then not of
// this procfs, or is one of its other files, and the only other one with a
// UUID changes at every read. That a mount is crossed proves nothing: most
// container runtimes mount /proc/sys over itself to make it read-only.
func bootID(proc int) (id string, bootReal bool) {
	first, ours := readBootID(proc)
	again, _ := readBootID(proc)
	if !isUUID(first) {
		return "", false
	}
	return first, ours && first == again
}

// readBootID returns what is at the place of the boot id, and whether it is a
// file of the verified /proc.
func readBootID(proc int) (text string, ours bool) {
	fd, err := unix.Openat(proc, "sys/kernel/random/boot_id", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	var root, file unix.Stat_t
	ours = onProcfs(fd) && unix.Fstat(proc, &root) == nil && unix.Fstat(fd, &file) == nil && root.Dev == file.Dev
	var buf [64]byte
	n, errno := readOnce(fd, buf[:])
	if errno != 0 {
		return "", false
	}
	return string(bytes.TrimSpace(buf[:n])), ours
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdef", rune(c)) {
			return false
		}
	}
	return true
}

// hasPidfs tries a pidfd of this process once: before Linux 6.9 all pidfds
// share one anonymous inode, and a 32-bit kernel cuts the number. A lack of
// descriptors or memory is an error, not an answer.
func hasPidfs() (bool, error) {
	fd, errno := pidfdOpen(os.Getpid())
	switch errno {
	case 0:
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM:
		return false, errno
	default:
		return false, nil
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return false, nil
	}
	return int64(fs.Type) == unix.PID_FS_MAGIC && kernel64(), nil
}

func kernel64() bool {
	var u unix.Utsname
	if strconv.IntSize == 64 {
		return true
	}
	if unix.Uname(&u) != nil {
		return false
	}
	machine := unix.ByteSliceToString(u.Machine[:])
	return strings.Contains(machine, "64") || machine == "s390x"
}

// hostID hashes the machine id with the host name: cloned machines share the
// one, and neither is shown. It decides only between different boots, where a
// wrong match would be a false death, so it is empty where it could be shared:
// in a container that has a host name of its own, or if the machine id could
// not be read for any reason but that there is none.
func hostID(proc int) string {
	uts, err := nsInode(proc, "self/ns/uts")
	if err != nil || uts != 0 && uts != initialUTSNS {
		return ""
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("jobprobe host\n" + string(bytes.TrimSpace(machine)) + "\n" + name))
	return hex.EncodeToString(sum[:16])
}

// bootTime returns when this boot began on the wall clock, as the clocks
// stand now, or the zero time.
func bootTime() time.Time {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(ts.Nano()))
}
