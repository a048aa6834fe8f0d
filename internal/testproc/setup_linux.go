package testproc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Namespaces of a stage, for its SysProcAttr.
var (
	// Mounts gives a stage its own mounts.
	Mounts = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	// PIDs gives a stage its own mounts and numbers; it is number 1. Its
	// /proc is still the outer one.
	PIDs = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}
)

func isolated(attr *syscall.SysProcAttr) bool { return attr != nil && attr.Cloneflags != 0 }

// nobody is a user without privilege.
const nobody = 65534

// setups change the world of the calling process. A value follows the name
// after '='.
var setups = map[string]func(value string) error{
	"umount-proc": func(string) error { return unix.Unmount("/proc", unix.MNT_DETACH) },
	"tmpfs-proc":  func(string) error { return unix.Mount("none", "/proc", "tmpfs", 0, "") },
	"proc":        func(opts string) error { return unix.Mount("proc", "/proc", "proc", 0, opts) },
	// boot puts a file with this text over the boot id. The file lives on in
	// the mount alone.
	"boot": func(id string) error {
		f, err := os.CreateTemp("", "boot_id")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		defer f.Close()
		if _, err := f.WriteString(id + "\n"); err != nil {
			return err
		}
		return bind(f.Name(), bootFile)
	},
	// boot-from puts a file of a second procfs over the boot id.
	"boot-from": func(name string) error {
		dir, err := os.MkdirTemp("", "proc")
		if err != nil {
			return err
		}
		defer os.Remove(dir)
		if err := unix.Mount("proc", dir, "proc", 0, ""); err != nil {
			return err
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		return bind(filepath.Join(dir, "sys/kernel/random", name), bootFile)
	},
	// boot-own puts another file of this procfs over the boot id.
	"boot-own": func(name string) error {
		return bind(filepath.Join("/proc/sys/kernel/random", name), bootFile)
	},
	// read-only mounts a directory over itself and takes away the right to
	// write, as container runtimes do with /proc/sys.
	"read-only": func(dir string) error {
		if err := bind(dir, dir); err != nil {
			return err
		}
		return unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	},
	// empty puts an empty file over another.
	"empty": func(name string) error { return bind("/dev/null", name) },
	"drop": func(string) error {
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setgid(nobody); err != nil {
			return err
		}
		return syscall.Setuid(nobody)
	},
	// dumpable decides, with 0 or 1, whether other processes of the same user
	// may look inside; a change of user clears it (prctl(2)).
	"dumpable": func(flag string) error {
		return unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(flag[0]-'0'), 0, 0, 0)
	},
	// name sets the command name, given in hexadecimal.
	"name": func(digits string) error {
		name, err := hex.DecodeString(digits)
		if err != nil {
			return err
		}
		p, err := unix.BytePtrFromString(string(name))
		if err != nil {
			return err
		}
		return unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(p)), 0, 0, 0)
	},
	// nofile lets no further descriptor be opened from number n on.
	"nofile": func(n string) error {
		limit, err := strconv.ParseUint(n, 10, 31)
		if err != nil {
			return err
		}
		return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit})
	},
	// deny makes a system call fail: name:ERRNO.
	"deny": func(rule string) error {
		name, errno, _ := strings.Cut(rule, ":")
		nr, known := deniable[name]
		number, ok := errnos[errno]
		if !known || !ok {
			return fmt.Errorf("unknown rule %q", rule)
		}
		return deny(nr, number)
	},
	"session": func(string) error { _, err := unix.Setsid(); return err },
	"group":   func(string) error { return unix.Setpgid(0, 0) },
	"timens":  enterTimeNS,
}

const bootFile = "/proc/sys/kernel/random/boot_id"

// Prepare applies a comma-separated list of setups to this stage, in order,
// and skips the test, naming the cause, if the system does not allow one.
func Prepare(s *Stage, list string) {
	if list == "" {
		return
	}
	// A new mount namespace still shares what is mounted later.
	unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	for setup := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(setup, "=")
		apply := setups[name]
		if apply == nil {
			s.Fatalf("unknown setup %q", setup)
		}
		if err := apply(value); err != nil {
			s.Skipf("setup %s: %v", setup, err)
		}
	}
}

func bind(from, to string) error { return unix.Mount(from, to, "", unix.MS_BIND, "") }

// enterTimeNS moves this process into a new time namespace whose boot clock
// is ahead by seconds[.nanoseconds]. The kernel lets only a process that
// executes a program enter (time_namespaces(7)), so it executes itself.
func enterTimeNS(ahead string) error {
	const entered = "JOBPROBE_TESTPROC_TIMENS"
	now, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		return err
	}
	if outer := os.Getenv(entered); outer != "" {
		if now == outer {
			return fmt.Errorf("execve does not enter a time namespace on this kernel")
		}
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return err
	}
	sec, nsec, _ := strings.Cut(ahead, ".")
	offset := "boottime " + sec + " " + (nsec + "000000000")[:9]
	if err := os.WriteFile("/proc/self/timens_offsets", []byte(offset), 0); err != nil {
		return err
	}
	return syscall.Exec(self(), os.Args, append(os.Environ(), entered+"="+now))
}

// mountsEnv says that this process has mounts of its own.
const mountsEnv = "JOBPROBE_TEST_MOUNTS"

// InMounts runs the rest of a test where it may mount what it likes: in a child
// with mounts of its own, in which it returns true.
func InMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(mountsEnv) != "" {
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mountsEnv+"=1")
	// The runtime also makes every mount private (clone(2), CLONE_NEWNS).
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("no new namespaces here: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("with mounts of its own: %v\n%s", err, out)
	}
	return false
}
