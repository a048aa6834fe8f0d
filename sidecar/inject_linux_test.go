package sidecar_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/sidecar"
)

var (
	_ = register("write", helpWrite)
	_ = register("create", helpCreate)
)

// faults are the errors that system calls are made to fail with.
var faults = []string{"EIO", "ENOSPC", "EROFS", "EDQUOT", "EMFILE", "EINTR", "EACCES"}

// init keeps the main goroutine of a helper on the process's first thread, where
// it is until main begins: strace(1) counts by thread.
func init() {
	if os.Getenv(helperEnv) != "" {
		runtime.LockOSThread()
	}
}

// window runs a transaction between two calls of getpriority(2), which nothing
// else makes.
func window(transact func()) {
	unix.Getpriority(unix.PRIO_PROCESS, 0)
	transact()
	unix.Getpriority(unix.PRIO_PROCESS, 0)
}

// helpWrite DIR WRITER makes a change, and prints its result and the reason of
// a refusal.
func helpWrite(args []string) error {
	s := sidecar.Store{Dir: args[0], LockWait: 100 * time.Millisecond}
	var got sidecar.Transition
	var err error
	window(func() { got, err = writers[args[1]].write(s) })
	fmt.Println(got.Result, got.Won, reason(err))
	return nil
}

// helpCreate DIR creates the run and prints what became of it.
func helpCreate(args []string) error {
	s := sidecar.Store{Dir: args[0]}
	var err error
	window(func() { err = s.Create(runID, record(runID)) })
	switch {
	case err == nil:
		fmt.Println("created")
	case errors.Is(err, sidecar.ErrUnsynced):
		fmt.Println("unsynced")
	default:
		fmt.Println("refused", reason(err))
	}
	return nil
}

func reason(err error) string {
	var refused *sidecar.RefusedError
	switch {
	case err == nil:
		return "-"
	case errors.As(err, &refused):
		return refused.Reason.String()
	}
	return err.Error()
}

// point is one system call of the transaction: the nth of its name.
type point struct {
	call string
	n    int
}

// points runs a helper under strace and returns its window's system calls.
func points(t *testing.T, name string, args ...string) []point {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("needs strace(1) to interrupt system calls")
	}
	log := filepath.Join(tempDir(t), "trace")
	if out, err := strace(t, name, args, "-o", log).CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %v: %s", err, out)
	}
	trace, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var list []point
	thread, marks := "", 0
	counts := map[string]int{}
	for line := range strings.Lines(string(trace)) {
		id, call, _ := strings.Cut(line, " ")
		call, _, ok := strings.Cut(strings.TrimSpace(call), "(")
		if thread == "" {
			thread = id
		}
		if id != thread || !ok || strings.HasPrefix(call, "<") {
			continue
		}
		if call == "getpriority" {
			marks++
			continue
		}
		counts[call]++
		switch call {
		case "futex", "madvise", "mmap", "munmap", "nanosleep", "rt_sigreturn", "tgkill", "getpid",
			"rt_sigprocmask", "sched_yield", "clone", "clone3", "gettid", "rt_sigaction", "sigaltstack",
			"epoll_create1", "eventfd2", "epoll_ctl", "epoll_pwait":
			continue // the runtime's own: they differ from run to run, and it dies of their errors
		}
		if marks == 1 {
			list = append(list, point{call, counts[call]})
		}
	}
	if marks != 2 || len(list) < 10 {
		t.Fatalf("%d marks and calls %v in\n%s", marks, list, trace)
	}
	return list
}

// strace returns a command that runs a helper under strace(1).
func strace(t *testing.T, name string, args []string, options ...string) *exec.Cmd {
	t.Helper()
	cmd := helper(t, name)
	cmd.Path, _ = exec.LookPath("strace")
	cmd.Args = append(append([]string{"strace", "-f", "-qq"}, options...), os.Args[0])
	cmd.Args = append(cmd.Args, args...)
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0", "GOGC=off")
	cmd.Stderr = nil
	return cmd
}

// inject runs a helper with something injected at one point, and returns what
// it printed; nothing, if it was killed.
func inject(t *testing.T, name string, args []string, p point, what string) string {
	t.Helper()
	// Tracing this call alone lets the others run faster.
	cmd := strace(t, name, args, "-o", "/dev/null", "-e", "trace="+p.call,
		"-e", fmt.Sprintf("inject=%s:%s:when=%d", p.call, what, p.n))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// bytesAt returns the record on disk, or "" if there is none.
func bytesAt(t *testing.T, s sidecar.Store) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, runID, "job.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// wantLockFree checks that nobody holds the run's lock, if there is one.
func wantLockFree(t *testing.T, s sidecar.Store, what any) {
	t.Helper()
	fd, err := unix.Open(filepath.Join(s.Dir, runID, "job.lock"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return
	}
	if err == nil {
		defer unix.Close(fd)
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		t.Errorf("%v: the lock: %v", what, err)
	}
}
