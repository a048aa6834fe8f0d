package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

var (
	_ = register("reap", helpReap)
	_ = register("create", helpCreate)
)

// reaping is the transaction that gets interrupted.
var reaping = sidecar.Reaping{Finding: jobprobe.PIDAbsent, At: early}

// window runs a transaction between two calls of getpriority(2), which nothing
// else makes, on the process's first thread: strace(1) counts by thread.
func window(transact func()) {
	runtime.LockOSThread()
	unix.Getpriority(unix.PRIO_PROCESS, 0)
	transact()
	unix.Getpriority(unix.PRIO_PROCESS, 0)
}

// helpReap DIR reaps the run and prints the result and the reason of a refusal.
func helpReap(args []string) error {
	s := sidecar.Store{Dir: args[0], LockWait: 100 * time.Millisecond}
	var got sidecar.Transition
	var err error
	window(func() { got, err = s.Reap(context.Background(), runID, reaping) })
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
func points(t *testing.T, name, dir string) []point {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("needs strace(1) to interrupt system calls")
	}
	log := filepath.Join(t.TempDir(), "trace")
	if out, err := strace(t, name, dir, "-o", log).CombinedOutput(); err != nil {
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
func strace(t *testing.T, name, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := helper(t, name)
	cmd.Path, _ = exec.LookPath("strace")
	cmd.Args = append(append([]string{"strace", "-f", "-qq"}, args...), os.Args[0], dir)
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0", "GOGC=off")
	cmd.Stderr = nil
	return cmd
}

// inject runs a helper with something injected at one point, and returns what
// it printed; nothing, if it was killed.
func inject(t *testing.T, name, dir string, p point, what string) string {
	t.Helper()
	cmd := strace(t, name, dir, "-o", "/dev/null",
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

// reaped returns the bytes before and after the transaction.
func reaped(t *testing.T) (before, after string) {
	t.Helper()
	r := record(runID)
	before = string(r.Append(nil))
	if _, err := reaping.Apply(r); err != nil {
		t.Fatal(err)
	}
	return before, string(r.Append(nil))
}

// TestCrashAtEverySystemCall kills a transaction before each of its system
// calls. What is left is the old record or the new one, and a lock that the
// next observer gets, who completes it and removes what was left.
func TestCrashAtEverySystemCall(t *testing.T) {
	before, after := reaped(t)
	list := points(t, "reap", newStore(t, record(runID)).Dir)
	seen := map[string]int{}
	for _, p := range list {
		s := newStore(t, record(runID))
		if out := inject(t, "reap", s.Dir, p, "signal=KILL"); out != "" {
			t.Errorf("%v: not killed: %s", p, out)
		}
		left := bytesAt(t, s)
		if left != before && left != after {
			t.Errorf("%v left\n%s", p, left)
		}
		seen[left]++
		got, err := s.Reap(context.Background(), runID, reaping)
		if err != nil || got.Won != (left == before) {
			t.Errorf("%v: the next observer: %+v, %v", p, got, err)
		}
		wantBytes(t, s, after)
		if got.Won {
			wantFiles(t, s, "job.json", "job.lock")
		}
	}
	if seen[before] == 0 || seen[after] == 0 {
		t.Errorf("%d calls: %d left the old record, %d the new", len(list), seen[before], seen[after])
	}
	t.Logf("%d calls: %d left the old record, %d the new", len(list), seen[before], seen[after])
}

// TestErrorAtEverySystemCall fails each system call of a transaction. What is
// reported is true: nothing was written, or all was.
func TestErrorAtEverySystemCall(t *testing.T) {
	before, after := reaped(t)
	list := points(t, "reap", newStore(t, record(runID)).Dir)
	for _, fault := range []string{"EIO", "ENOSPC", "EINTR"} {
		seen := map[string]int{}
		for _, p := range list {
			s := newStore(t, record(runID))
			out := inject(t, "reap", s.Dir, p, "error="+fault)
			result, _, _ := strings.Cut(out, " ")
			seen[result]++
			want := before
			switch result {
			case "written", "written_unsynced":
				want = after
			case "not_done":
			default:
				t.Errorf("%s at %v: %q", fault, p, out)
			}
			if got := bytesAt(t, s); got != want {
				t.Errorf("%s at %v: %q, but the record is\n%s", fault, p, out, got)
			}
			if fault == "EINTR" && result != "written" && !forgivable(p) {
				t.Errorf("%s at %v: %q", fault, p, out)
			}
			if p.call == "fsync" && fault == "EIO" && result == "written" {
				t.Errorf("%s at %v: %q", fault, p, out)
			}
			if p.call != "unlinkat" {
				wantNoTemp(t, s, p)
			}
			if got, err := s.Reap(context.Background(), runID, reaping); err != nil || got.Won != (want == before) {
				t.Errorf("%s at %v: the next observer: %+v, %v", fault, p, got, err)
			}
		}
		t.Logf("%s: %v", fault, seen)
		if seen["not_done"] == 0 && fault != "EINTR" || seen["written"] == 0 {
			t.Errorf("%s: the faults did not reach the transaction: %v", fault, seen)
		}
	}
}

// forgivable lists the calls that no signal interrupts (signal(7)), so that
// nothing is lost when they are not repeated after EINTR.
func forgivable(p point) bool {
	switch p.call {
	case "fstat", "newfstatat", "stat", "lstat", "fchmod", "fchown", "renameat", "renameat2", "unlinkat":
		return true
	}
	return false
}

func wantNoTemp(t *testing.T, s sidecar.Store, p point) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Dir, runID))
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		if e.Name() != "job.json" && e.Name() != "job.lock" {
			t.Errorf("%v left %s", p, e.Name())
		}
	}
}

// TestOrderOfPublishing checks that contents are durable before a name leads to
// them, and the name after that.
func TestOrderOfPublishing(t *testing.T) {
	var order []string
	for _, p := range points(t, "reap", newStore(t, record(runID)).Dir) {
		switch p.call {
		case "write", "fchmod", "fsync", "renameat", "renameat2", "unlinkat":
			order = append(order, strings.TrimSuffix(p.call, "2"))
		}
	}
	want := []string{"fchmod", "write", "fsync", "renameat", "fsync"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
}

// TestDirectorySyncFails fails the second sync, which comes after the rename.
func TestDirectorySyncFails(t *testing.T) {
	list := points(t, "reap", newStore(t, record(runID)).Dir)
	var syncs []point
	for _, p := range list {
		if p.call == "fsync" {
			syncs = append(syncs, p)
		}
	}
	if len(syncs) != 2 {
		t.Fatalf("syncs %v in %v", syncs, list)
	}
	for _, fault := range []string{"EIO", "EINVAL", "EOPNOTSUPP"} {
		s := newStore(t, record(runID))
		if out := inject(t, "reap", s.Dir, syncs[1], "error="+fault); out != "written_unsynced true -" {
			t.Errorf("%s: %q", fault, out)
		}
		_, after := reaped(t)
		wantBytes(t, s, after)
	}
	s := newStore(t, record(runID))
	if out := inject(t, "reap", s.Dir, point{"fsync", 1}, "error=EINTR"); out != "written true -" {
		t.Errorf("one interrupt: %q", out)
	}
	cmd := strace(t, "reap", newStore(t, record(runID)).Dir, "-o", "/dev/null", "-e", "inject=fsync:error=EINTR")
	if out, err := cmd.Output(); err != nil || string(out) != "not_done false io_error\n" {
		t.Errorf("interrupts without end: %q, %v", out, err)
	}
}

// TestLockFaults fails the lock's creation and its acquisition.
func TestLockFaults(t *testing.T) {
	before, _ := reaped(t)
	points(t, "reap", newStore(t, record(runID)).Dir) // skips where strace cannot work
	for fault, want := range map[string]string{
		"flock:error=ENOLCK":       "not_done false lock_unavailable",
		"flock:error=EOPNOTSUPP":   "not_done false lock_unavailable",
		"flock:error=ENOSYS":       "not_done false lock_unavailable",
		"flock:error=EBADF":        "not_done false lock_unavailable",
		"flock:error=EINTR":        "not_done false lock_unavailable",
		"flock:error=EINTR:when=1": "written true -",
	} {
		s := newStore(t, record(runID))
		cmd := strace(t, "reap", s.Dir, "-o", "/dev/null", "-e", "inject="+fault)
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v", fault, out, err)
		}
		if strings.HasPrefix(want, "not_done") {
			wantBytes(t, s, before)
		}
	}
	for fault, want := range map[string]string{
		"EACCES": "lock_unavailable", "EMFILE": "lock_unavailable", "EROFS": "read_only",
		"ENOSPC": "no_space", "EDQUOT": "no_space",
	} {
		s := newStore(t, record(runID))
		cmd := strace(t, "reap", s.Dir, "-o", "/dev/null",
			"-P", filepath.Join(s.Dir, runID, "job.lock"), "-e", "inject=openat:error="+fault)
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "not_done false "+want {
			t.Errorf("opening the lock, %s: %q, %v", fault, out, err)
		}
		wantBytes(t, s, before)
		wantFiles(t, s, "job.json")
	}
}

// TestCreateFaults kills and fails the creation of a run at each system call.
func TestCreateFaults(t *testing.T) {
	store := func() sidecar.Store { return sidecar.Store{Dir: filepath.Join(t.TempDir(), "jobs")} }
	want := string(record(runID).Append(nil))
	for _, p := range points(t, "create", store().Dir) {
		s := store()
		if out := inject(t, "create", s.Dir, p, "signal=KILL"); out != "" {
			t.Errorf("%v: not killed: %s", p, out)
		}
		if got := bytesAt(t, s); got != "" && got != want {
			t.Errorf("%v left\n%s", p, got)
		}
		s = store()
		out := inject(t, "create", s.Dir, p, "error=EIO")
		state := s.Read(runID).State
		switch {
		case out == "created" || out == "unsynced":
			if state != sidecar.OK {
				t.Errorf("%v: %q, and the record is %v", p, out, state)
			}
			if p.call == "fsync" && out == "created" && bytesAt(t, s) != want {
				t.Errorf("%v: %q", p, out)
			}
		case out == "refused io_error":
			if _, err := os.Lstat(filepath.Join(s.Dir, runID)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%v: %q, and a trace is left: %v", p, out, err)
			}
		default:
			t.Errorf("%v: %q", p, out)
		}
	}
}
