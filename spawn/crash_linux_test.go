package spawn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// The crash tests kill a process of a job before each of its system calls (in a
// normal run before some), and look at what is left. strace(1) counts the calls
// of one name by one thread: whichever comes to its nth first takes its process
// with it.

// init keeps the spawner and the supervisor on one thread, so that counting
// their calls reaches them all.
func init() {
	if os.Getenv(oneThreadEnv) != "" {
		runtime.LockOSThread()
	}
}

const oneThreadEnv = "JOBPROBE_TEST_ONE_THREAD"

// crashes counts what the crashes of one test have left.
type crashes struct {
	points                                 int
	nothing, closed, ended, reaped, killed int
}

// point is the nth call of its name by a thread. The zero point is none.
type point struct {
	call string
	n    int
}

// crashPoints lets crash run once with nothing injected, to learn the calls, and
// then for each of them, and prints what was left. A normal run leaves most out.
func crashPoints(t *testing.T, step int, crash func(t *testing.T, p point, trace string, c *crashes)) {
	t.Helper()
	crashPointsOf(t, step, nil, crash)
}

// crashPointsOf does that for the calls of these names, nil for all.
func crashPointsOf(t *testing.T, step int, names []string, crash func(t *testing.T, p point, trace string, c *crashes)) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("needs strace(1) to interrupt system calls")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	crash(t, point{}, trace, &crashes{})
	if t.Failed() {
		return
	}
	list := traced(t, trace)
	list = slices.DeleteFunc(list, func(p point) bool {
		changes := slices.Contains(mutating, p.call)
		// Signal 0, which only asks, is sent as often as it takes, and a scan
		// of all processes looks at as many as there are.
		asks := p.n > 12 && (p.call == "kill" || p.call == "pidfd_send_signal") || p.n > 120 && !changes
		return asks || names != nil && !slices.Contains(names, p.call)
	})
	var c crashes
	for i := 0; i < len(list) && !t.Failed(); i += step {
		crash(t, list[i], trace, &c)
		data, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		if c.points++; strings.Contains(string(data), "+++ killed by SIGKILL +++") {
			c.killed++
		}
	}
	t.Logf("%d calls: %+v", len(list), c)
	if c.killed < 3 || c.killed*2 < c.points {
		t.Errorf("only %d of %d runs were interrupted", c.killed, c.points)
	}
}

// traced lists the calls of a trace, in the order in which they are first made.
func traced(t *testing.T, trace string) (list []point) {
	t.Helper()
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	counts, seen := map[string]int{}, map[point]bool{}
	for line := range strings.Lines(string(data)) {
		thread, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		call, _, ok := strings.Cut(strings.TrimSpace(call), "(")
		if !ok || strings.HasPrefix(call, "<") || strings.HasPrefix(call, "-") || strings.HasPrefix(call, "+") {
			continue
		}
		counts[thread+call]++
		switch call {
		case "futex", "nanosleep", "epoll_pwait", "tgkill", "rt_sigreturn", "sched_yield", "getpid",
			"mmap", "munmap", "madvise", "sigaltstack", "gettid", "rt_sigprocmask", "exit", "exit_group":
			continue // the runtime's own, which differ from run to run; and the end, which is one
		}
		if p := (point{call, counts[thread+call]}); !seen[p] {
			seen[p] = true
			list = append(list, p)
		}
	}
	if len(list) < 10 {
		t.Fatalf("calls %v in\n%s", list, data)
	}
	return list
}

// tracer is the command that kills at a point, or traces into a file.
func tracer(p point, trace string, args ...string) *exec.Cmd {
	what := []string{"-f", "-q", "-o", trace}
	if p.n > 0 {
		what = append(what, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", p.call, p.n))
	}
	return exec.Command("strace", append(what, args...)...)
}

// tracedToEnd runs a tracer until all that it traces has ended.
func tracedToEnd(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var trouble strings.Builder
	cmd.Stderr = &trouble
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	} else if ok && strings.Contains(trouble.String(), "strace: ") {
		t.Skipf("strace cannot trace here: %v: %s", exit, trouble.String())
	}
}

// settled judges what a crash has left of a job whose work writes a byte to
// ran: it ran at most once; if it ran, a record names it; if not, the record
// says so, or can be closed.
func (c *crashes) settled(t *testing.T, n point, store sidecar.Store, ran string) {
	t.Helper()
	ids, err := store.IDs()
	if err != nil || len(ids) > 1 {
		t.Fatalf("%v: jobs %v, %v", n, ids, err)
	}
	if len(ids) == 0 {
		c.nothing++
		if data, _ := os.ReadFile(ran); len(data) > 0 {
			t.Errorf("%v: the work ran and nothing names it", n)
		}
		return
	}
	job := finished(t, store, ids[0])
	data, _ := os.ReadFile(ran) // the end is on record: nothing runs any more
	source := string(job.TerminalSource)
	switch source {
	case `"spawn_failure"`:
		c.closed++
	case `"supervisor_exit"`:
		c.ended++
	case `"mcp_orphan_reaper"`:
		c.reaped++
	default:
		t.Errorf("%v: ended by %s", n, source)
	}
	phases := map[string]string{
		`"spawn_failure"`: "failed", `"mcp_orphan_reaper"`: "recovery_needed",
		`"supervisor_exit"`: map[string]string{"succeeded": "completed", "failed": "failed"}[text(job.Outcome)],
	}
	if got := life(t, store, ids[0]); !strings.HasPrefix(got, phases[source]+" ") {
		t.Errorf("%v: ended by %s, and its history says %s", n, source, got)
	}
	started := string(job.SpawnState) == `"started"`
	switch {
	case len(data) > 1:
		t.Errorf("%v: the work ran %d times", n, len(data))
	case len(data) == 1 && !started:
		t.Errorf("%v: the work ran, and its record says %s", n, job.SpawnState)
	case len(data) == 0 && text(job.Outcome) == "succeeded":
		t.Errorf("%v: the work did not run, and succeeded", n)
	}
}

// A spawner is killed at each call. A claim that it has taken can be taken over.
func TestCrashOfSpawner(t *testing.T)       { crashOfSpawner(t, 17) }
func TestStressCrashOfSpawner(t *testing.T) { onlyStress(t); crashOfSpawner(t, 1) }

// onlyStress skips what make stress asks for.
func onlyStress(t *testing.T) {
	t.Helper()
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
}

func crashOfSpawner(t *testing.T, step int) {
	crashPoints(t, step, func(t *testing.T, p point, trace string, c *crashes) {
		store := newStore(t)
		ran := filepath.Join(t.TempDir(), "ran")
		// The supervisor is let go at its execve(2): this is about the spawner.
		cmd := tracer(p, trace, "-b", "execve", self(t), "sh", "-c", `echo >>"$1"`, "sh", ran)
		cmd.Env = append(os.Environ(), spawnerEnv+"="+store.Dir, claimEnv+"="+key, oneThreadEnv+"=1")
		tracedToEnd(t, cmd)
		c.settled(t, p, store, ran)
		h, err := claimed(t, store, key, "true")
		if err != nil {
			t.Errorf("%v: the claim cannot be had: %v", p, err)
			return
		}
		finished(t, store, h.RunID)
	})
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// orphanGate is a gate whose spawner is gone, so that its record can be closed
// if its supervisor is lost too. Its work stays on one thread as far as it is
// this program.
func orphanGate(t *testing.T) *gate {
	t.Helper()
	g := newGate(t)
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone, err := jobprobe.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	_, err = g.store.Update(t.Context(), gateRun, func(r *sidecar.Record) error {
		r.Set("spawner", identityValue(gone))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	g.task.Env = append(g.task.Env, oneThreadEnv+"=1")
	return g
}

// The supervisor, the holder that becomes the work, and the work are killed at
// each call, whichever comes to it first.
func TestCrashOfSupervisor(t *testing.T)       { crashOfSupervisor(t, 29) }
func TestStressCrashOfSupervisor(t *testing.T) { onlyStress(t); crashOfSupervisor(t, 1) }

func crashOfSupervisor(t *testing.T, step int) {
	crashPoints(t, step, func(t *testing.T, p point, trace string, c *crashes) {
		g := orphanGate(t)
		sup := g.supervisor()
		cmd := tracer(p, trace, self(t), gateRun)
		cmd.Stdin, cmd.Dir = sup.Stdin, sup.Dir
		cmd.Env = append(os.Environ(), roleEnv+"="+superviseName, oneThreadEnv+"=1")
		tracedToEnd(t, cmd)
		c.settled(t, p, g.store, g.ran)
	})
}

// attach runs a tracer on a process that waits, and returns once it has all of
// its threads.
func attach(t *testing.T, p point, trace string, pid int) *exec.Cmd {
	t.Helper()
	cmd := tracer(p, trace, "-p", strconv.Itoa(pid))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the tracer is attached", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		for _, path := range threads {
			if data, _ := os.ReadFile(path); strings.Contains(string(data), "TracerPid:\t0\n") {
				return false
			}
		}
		return true
	})
	return cmd
}

// The holder is killed at each call from the gate to the end of the work.
func TestCrashOfHolder(t *testing.T)       { crashOfHolder(t, 11) }
func TestStressCrashOfHolder(t *testing.T) { onlyStress(t); crashOfHolder(t, 1) }

func crashOfHolder(t *testing.T, step int) {
	crashPoints(t, step, func(t *testing.T, p point, trace string, c *crashes) {
		g := orphanGate(t)
		release := g.hold()
		sup := g.supervisor()
		if err := sup.Start(); err != nil {
			t.Fatal(err)
		}
		holder := int(g.holder(sup.Process.Pid).Identity().PID)
		until(t, "the holder waits at its gate", func() bool {
			threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", holder))
			return slices.ContainsFunc(threads, func(path string) bool {
				data, _ := os.ReadFile(path)
				return strings.HasPrefix(string(data), fmt.Sprintf("%d 0x%x ", syscall.SYS_READ, gateFD))
			})
		})
		cmd := attach(t, p, trace, holder)
		release()
		_ = sup.Wait() // it tells the end, whatever becomes of the holder
		_ = cmd.Wait()
		c.settled(t, p, g.store, g.ran)
	})
}

// The supervisor is killed at each call from the exit of the work to its own.
func TestCrashAtTheEnd(t *testing.T)       { crashAtTheEnd(t, 11) }
func TestStressCrashAtTheEnd(t *testing.T) { onlyStress(t); crashAtTheEnd(t, 1) }

func crashAtTheEnd(t *testing.T, step int) {
	crashPoints(t, step, func(t *testing.T, p point, trace string, c *crashes) {
		store := newStore(t)
		dir := t.TempDir()
		ran, fifo := filepath.Join(dir, "ran"), filepath.Join(dir, "go")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		h := start(t, store, "sh", "-c", `echo >>"$1"; read line <"$2"; exit 3`, "sh", ran, fifo)
		cmd := attach(t, p, trace, int(h.Supervisor.PID))
		if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		c.settled(t, p, store, ran)
		if data, _ := os.ReadFile(ran); len(data) != 1 {
			t.Errorf("%v: the work ran %d times", p, len(data))
		}
	})
}

// Neither the start of a job nor its first record can be made durable: the work
// never runs, its caller learns so, and the record, if there is one, says so as
// soon as it can be written.
func TestNotDurable(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("needs strace(1) to interrupt system calls")
	}
	failing := func(n int, args ...string) *exec.Cmd {
		cmd := exec.Command("strace", append([]string{"-f", "-q", "-o", filepath.Join(t.TempDir(), "trace"), "-b", "execve",
			"-e", fmt.Sprintf("inject=fsync:error=EIO:when=%d", n), self(t)}, args...)...)
		cmd.Env = append(os.Environ(), oneThreadEnv+"=1")
		return cmd
	}
	judge := func(what string, store sidecar.Store, ran string) {
		t.Helper()
		if data, _ := os.ReadFile(ran); len(data) != 0 {
			t.Errorf("%s is not synced, and the work ran", what)
		}
		ids, err := store.IDs()
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			job := finished(t, store, id)
			if string(job.SpawnState) != `"failed"` || string(job.TerminalSource) != `"spawn_failure"` {
				t.Errorf("%s is not synced: %s, %s", what, job.SpawnState, job.TerminalSource)
			}
		}
	}
	for n, what := range []string{"the first record", "its directory", "the store"} {
		store, ran := newStore(t), filepath.Join(t.TempDir(), "ran")
		if err := os.Mkdir(store.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := failing(n+1, "sh", "-c", `echo >>"$1"`, "sh", ran)
		cmd.Env = append(cmd.Env, spawnerEnv+"="+store.Dir)
		tracedToEnd(t, cmd)
		if cmd.ProcessState.Success() {
			t.Errorf("%s is not synced, and the caller is not told", what)
		}
		judge(what, store, ran)
	}
	for n, what := range []string{"the start", "the directory of the start"} {
		g := orphanGate(t)
		sup := g.supervisor()
		cmd := failing(n+1, gateRun)
		cmd.Stdin, cmd.Dir = sup.Stdin, sup.Dir
		cmd.Env = append(cmd.Env, roleEnv+"="+superviseName)
		tracedToEnd(t, cmd)
		judge(what, g.store, g.ran)
	}
}
