package spawn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

func init() {
	programs[drainEnv], programs[lookEnv] = drainMain, lookMain
}

// drainEnv makes this binary a program that drains a store and prints what that
// came to.
const drainEnv = "JOBPROBE_TEST_DRAIN"

func drainMain(dir string) int {
	d, err := observer(sidecar.Store{Dir: dir}).Drain(context.Background(), reap.DrainOptions{Timeout: drainTime})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(d); err != nil {
		return 2
	}
	return 0
}

// drainTime is a budget that jobs which end do not use up.
const drainTime = 20 * time.Second

func drain(t *testing.T, store sidecar.Store, opt reap.DrainOptions) reap.Drained {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = drainTime
	}
	opt.Details = 1000
	d, err := observer(store).Drain(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// life is how a job stands, in words.
func life(t *testing.T, store sidecar.Store, id string) string {
	t.Helper()
	h, err := observer(store).History(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(text(h.State), " ", h.Cleanup, " ", h.Ownership, " ", text(h.Reason))
}

// becomes waits until a job is told to stand so. A look at a busy machine may
// have to leave open whether something is left.
func becomes(t *testing.T, store sidecar.Store, id, want string) {
	t.Helper()
	var got string
	until(t, "a job stands as "+want, func() bool {
		got = life(t, store, id)
		return got == want || !strings.Contains(got, " unknown ")
	})
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// newest returns run ids in the order of answers.
func newest(ids ...string) []string {
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	return ids
}

const stoppedClean = "interrupted completed cleanup_confirmed shutdown"

// apart is work with a child that has left its group, and says so.
const apart = `setsid sh -c 'echo; exec sleep 600' & wait`

// endMarked kills what carries the marks of these jobs.
func endMarked(t *testing.T, ids ...string) {
	t.Helper()
	found, _ := jobprobe.MarkedAny()
	for _, m := range found {
		if m.Marker == jobprobe.MarkerFound && slices.Contains(ids, m.RunID) {
			endProcess(t, m.Identity)
		}
	}
}

// A store of 200 jobs: a tenth is deaf to SIGTERM, a tenth has children in
// sessions of their own, and the record of one cannot be written.
func TestDrainOf200(t *testing.T) {
	if !testproc.InMounts(t) {
		return
	}
	store := newStore(t)
	all := make([]string, 200)
	argv := func(i int) []string {
		switch i % 10 {
		case 0:
			return shell(deaf)
		case 1:
			return shell(apart)
		}
		return shell("echo; exec sleep 600")
	}
	var starts sync.WaitGroup
	next := make(chan int)
	for range 8 {
		starts.Go(func() {
			for i := range next {
				h, err := Start(context.Background(), store, Request{Argv: argv(i)})
				if err != nil {
					t.Error(err)
				}
				all[i] = h.RunID
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	starts.Wait()
	if t.Failed() {
		return
	}
	for _, id := range all {
		until(t, "the job has begun", func() bool { return console(t, store, id) != "" })
	}
	var left []string
	for i, id := range all {
		if i%10 == 1 {
			left = append(left, id)
		}
	}
	t.Cleanup(func() { endMarked(t, left...) })
	stuck := filepath.Join(store.Dir, all[5])
	if err := unix.Mount(stuck, stuck, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", stuck, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}

	const window = 12 * time.Second // which those with children use up
	begun, settled := time.Now(), time.Duration(0)
	d := drain(t, store, reap.DrainOptions{Timeout: window, Progress: func(n, all int) {
		if n == all {
			settled = time.Since(begun)
		}
	}})
	want := reap.Drained{
		Outcome: reap.DrainUnrecorded, Admission: "closed",
		Interrupted: newest(slices.Clone(all)...), Remaining: newest(slices.Clone(left)...), NotRecorded: []string{all[5]},
		Elsewhere: []string{}, Reasons: map[string]string{all[5]: "read_only"}, DurationMS: d.DurationMS,
	}
	for _, id := range left {
		want.Reasons[id] = "descendants_remain"
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if d.DurationMS > window.Milliseconds() {
		t.Errorf("the drain took %d ms, its window is %v", d.DurationMS, window)
	}
	t.Logf("count: 200 jobs settled in %v, and those that remain were waited for until %d ms", settled.Round(time.Millisecond), d.DurationMS)
	if err := unix.Unmount(stuck, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	for i, id := range all {
		want := stoppedClean
		switch {
		case i%10 == 1:
			want = "interrupted timed_out cleanup_pending shutdown"
		case i == 5: // the signal came from somewhere: nothing said from where
			finished(t, store, id)
			want = "failed not_requested cleanup_confirmed provider_failure"
		}
		becomes(t, store, id, want)
	}

	endMarked(t, left...)
	d = drain(t, store, reap.DrainOptions{})
	if d.Outcome != reap.DrainClean || len(d.Interrupted)+len(d.Remaining)+len(d.NotRecorded) > 0 {
		t.Errorf("the second drain: %+v", d)
	}
	for _, id := range left {
		becomes(t, store, id, stoppedClean)
	}
}

// The precedence of the outcomes, and that each is counted.
func TestDrainOutcomes(t *testing.T) {
	store := newStore(t)
	if d := drain(t, store, reap.DrainOptions{}); d.Outcome != reap.DrainClean || d.Admission != "closed" {
		t.Errorf("an empty store: %+v", d)
	}
	reopen(t, store)
	slow := began(t, store, Request{Argv: shell(deaf)})
	d := drain(t, store, reap.DrainOptions{Timeout: 3 * time.Second, Grace: time.Minute})
	if d.Outcome != reap.DrainDeadline || !slices.Equal(d.Remaining, []string{slow.RunID}) || len(d.NotRecorded) > 0 ||
		d.Reasons[slow.RunID] != "timed_out" {
		t.Errorf("a grace longer than the budget: %+v", d)
	}
	if got := life(t, store, slow.RunID); got != "interrupted timed_out cleanup_pending shutdown" {
		t.Errorf("it lives on: %s", got)
	}
	// Its end is on record, and it lives on: it is interrupted again.
	if d := drain(t, store, reap.DrainOptions{}); d.Outcome != reap.DrainClean || !slices.Equal(d.Interrupted, []string{slow.RunID}) {
		t.Errorf("again: %+v", d)
	}
	becomes(t, store, slow.RunID, stoppedClean)

	reopen(t, store)
	a, b := began(t, store, Request{Argv: shell(deaf)}), began(t, store, Request{Argv: shell(deaf)})
	g := gate{t: t, store: store}
	release := g.lock(b.RunID)
	d = drain(t, store, reap.DrainOptions{Timeout: 3 * time.Second, Grace: time.Minute})
	release()
	if d.Outcome != reap.DrainUnrecorded || !slices.Equal(d.NotRecorded, []string{b.RunID}) ||
		!slices.Equal(d.Remaining, newest(a.RunID, b.RunID)) || d.Reasons[b.RunID] != "lock_unavailable" {
		t.Errorf("both: %+v", d)
	}
	m, err := observer(store).Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"clean": 2, "deadline_exceeded": 1, "persistence_failed": 1}, m.Drains); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if m.PersistenceFailures != 1 {
		t.Errorf("%d persistence failures", m.PersistenceFailures)
	}
}

func reopen(t *testing.T, store sidecar.Store) {
	t.Helper()
	if err := observer(store).Reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A drain is not clean while anything runs that can be seen, whatever is on
// record, and however short its time was.
func TestDrainIsNotCleanWhile(t *testing.T) {
	remain := func(t *testing.T, store sidecar.Store, opt reap.DrainOptions, outcome reap.DrainOutcome, ids ...string) {
		t.Helper()
		if d := drain(t, store, opt); d.Outcome != outcome || !slices.Equal(d.Remaining, ids) {
			t.Errorf("%+v", d)
		}
	}
	t.Run("its time is over at once", func(t *testing.T) {
		store := newStore(t)
		h := start(t, store, "sleep", "600")
		for _, short := range []time.Duration{1, time.Millisecond, 3 * time.Millisecond} {
			d := drain(t, store, reap.DrainOptions{Timeout: short, Grace: time.Hour})
			if d.Outcome == reap.DrainClean && jobprobe.Probe(h.Identity).Conclusion == jobprobe.Alive {
				t.Errorf("%v: %+v", short, d)
			}
		}
	})
	t.Run("a lock is held", func(t *testing.T) {
		store := newStore(t)
		h := start(t, store, "sleep", "600")
		g := gate{t: t, store: store}
		defer g.lock(h.RunID)()
		d := drain(t, store, reap.DrainOptions{Timeout: 400 * time.Millisecond})
		if d.Outcome != reap.DrainUnrecorded || !slices.Equal(d.NotRecorded, []string{h.RunID}) {
			t.Errorf("%+v", d)
		}
	})
	t.Run("a child lives apart", func(t *testing.T) {
		store := newStore(t)
		h := began(t, store, Request{Argv: shell(apart)})
		t.Cleanup(func() { endMarked(t, h.RunID) })
		for range 2 {
			remain(t, store, reap.DrainOptions{Timeout: 3 * time.Second}, reap.DrainDeadline, h.RunID)
		}
		endMarked(t, h.RunID)
		remain(t, store, reap.DrainOptions{}, reap.DrainClean)
	})
	t.Run("the store is reopened", func(t *testing.T) {
		store := newStore(t)
		h := began(t, store, Request{Argv: shell(deaf)})
		drained := make(chan reap.Drained)
		go func() { drained <- drain(t, store, reap.DrainOptions{Grace: 2 * time.Second}) }()
		until(t, "the job is signalled", func() bool { return store.Read(h.RunID).Record.Ended() })
		reopen(t, store)
		if d := <-drained; d.Outcome != reap.DrainDeadline || d.Admission != "open" || text(d.Refused) != "reopened" {
			t.Errorf("%+v", d)
		}
	})
}

// What is left in the group of a job that has ended is interrupted too: a child
// of a leader that ended by itself, or that was lost with its supervisor.
func TestDrainOfTheRest(t *testing.T) {
	for name, lose := range map[string]bool{"completed": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			h := began(t, store, Request{Argv: shell(map[bool]string{
				false: `sleep 600 & echo`, true: `sleep 600 & echo; wait`}[lose])})
			if lose {
				kill(t, h.Supervisor)
				kill(t, h.Identity)
			} else {
				finished(t, store, h.RunID)
			}
			d := drain(t, store, reap.DrainOptions{})
			if d.Outcome != reap.DrainClean || !slices.Equal(d.Interrupted, []string{h.RunID}) {
				t.Errorf("%+v", d)
			}
			if left, _ := jobprobe.Marked(h.RunID); len(left) > 0 {
				t.Errorf("left %+v", left)
			}
		})
	}
}

// A lifecycle command that does not answer holds up no drain, and no end is
// written in its place.
func TestDrainDoesNotWaitForAnAnswer(t *testing.T) {
	store := newStore(t)
	h := start(t, store, "sleep", "600")
	kill(t, h.Supervisor)
	kill(t, h.Identity)
	o := observer(store)
	o.Lifecycle.Command = shell("exec sleep 600")
	d, err := o.Drain(t.Context(), reap.DrainOptions{Timeout: 500 * time.Millisecond})
	if err != nil || d.Outcome != reap.DrainUnrecorded || !slices.Equal(d.NotRecorded, []string{h.RunID}) {
		t.Errorf("%+v, %v", d, err)
	}
	if rec := store.Read(h.RunID).Record; rec.Ended() {
		t.Error("an end was written without the answer")
	}
}

// Admission that cannot be closed is no clean drain; the jobs are interrupted
// all the same.
func TestDrainOfAStoreThatCannotBeClosed(t *testing.T) {
	store := newStore(t)
	h := start(t, store, "sleep", "600")
	if err := os.WriteFile(filepath.Join(store.Dir, ".lifecycle"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := drain(t, store, reap.DrainOptions{})
	if d.Outcome != reap.DrainUnrecorded || d.Admission != "open" || d.Refused == nil || !slices.Equal(d.Interrupted, []string{h.RunID}) {
		t.Errorf("%+v", d)
	}
	becomes(t, store, h.RunID, stoppedClean)
}

// A job that is being started when its store is drained never runs.
func TestDrainOfAStart(t *testing.T) {
	g := newGate(t)
	d := drain(t, g.store, reap.DrainOptions{})
	if d.Outcome != reap.DrainClean || !slices.Equal(d.Interrupted, []string{gateRun}) {
		t.Errorf("%+v", d)
	}
	_ = g.supervisor().Run()
	if g.runs() != 0 {
		t.Error("the work ran")
	}
	if got := life(t, g.store, gateRun); got != "interrupted not_requested cleanup_confirmed shutdown" {
		t.Errorf("%s", got)
	}
	job := status(t, g.store, gateRun)
	if text(job.ReasonCode) != sidecar.ReasonDraining || text(job.Outcome) != sidecar.Failed {
		t.Errorf("%+v", job.Brief)
	}
}

// A drain that leaves the jobs alone waits for them.
func TestDrainThatLeaves(t *testing.T) {
	store := newStore(t)
	fifo := filepath.Join(t.TempDir(), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	h := began(t, store, Request{Argv: append(shell(`echo; read line <"$1"; exit 3`), "sh", fifo)})
	drained := make(chan reap.Drained)
	go func() { drained <- drain(t, store, reap.DrainOptions{Leave: true}) }()
	until(t, "the store is closed", func() bool { closed, _ := observer(store).Draining(); return closed })
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if d := <-drained; d.Outcome != reap.DrainClean || len(d.Interrupted) > 0 {
		t.Errorf("%+v", d)
	}
	if job := finished(t, store, h.RunID); string(job.ExitCode) != "3" {
		t.Errorf("exit code %s", job.ExitCode)
	}
}

// Programs start jobs as fast as they can while the store is drained: when the
// drain has said that it was clean, nothing runs, and nothing starts.
func TestDrainAmongStarts(t *testing.T) {
	refused, interrupted, closed := 0, 0, 0
	for round := range 10 {
		store := newStore(t)
		var callers sync.WaitGroup
		var mu sync.Mutex
		for range 4 {
			callers.Go(func() {
				for {
					cmd := spawner(store.Dir, "sleep", "600")
					out, err := cmd.CombinedOutput()
					if err == nil {
						continue
					}
					mu.Lock()
					refused++
					mu.Unlock()
					if !strings.Contains(string(out), "draining") {
						t.Errorf("a start said %v: %s", err, out)
					}
					return
				}
			})
		}
		until(t, "jobs run", func() bool { ids, _ := store.IDs(); return len(ids) > round })
		d := drain(t, store, reap.DrainOptions{})
		ids, err := store.IDs()
		if err != nil {
			t.Fatal(err)
		}
		if d.Outcome != reap.DrainClean {
			t.Errorf("%+v", d)
		}
		for _, id := range ids {
			rec := store.Read(id).Record
			if rec == nil {
				t.Errorf("%s cannot be read", id)
				continue
			}
			h := sidecar.HistoryOf(rec)
			// One that was recorded after the drain had looked is being closed
			// by its own caller: it never starts.
			if started, _ := rec.Text("spawn_state"); started == "started" && !rec.Ended() {
				t.Errorf("%s runs after a clean drain", id)
			} else if rec.Ended() && h.Cause != sidecar.CauseShutdown {
				t.Errorf("%s: %+v", id, h.Turn)
			}
		}
		callers.Wait()
		after, _ := store.IDs()
		for _, id := range after {
			job := status(t, store, id)
			switch source := string(job.TerminalSource); {
			case source == `"spawn_failure"` && text(job.ReasonCode) == sidecar.ReasonDraining:
				closed++
			case source == `"mcp_kill"`:
				interrupted++
			default:
				t.Errorf("%s: %+v %s", id, job.Brief, source)
			}
		}
	}
	t.Logf("count: %d starts refused, %d jobs closed before they started, %d interrupted", refused, closed, interrupted)
	if refused != 40 || interrupted == 0 {
		t.Errorf("%d refused, %d interrupted", refused, interrupted)
	}
}

// A drainer is killed at each of its calls. What is told afterwards is true, and
// the next drain completes it.
func TestCrashOfDrainer(t *testing.T)       { crashOfDrainer(t, 2) }
func TestStressCrashOfDrainer(t *testing.T) { onlyStress(t); crashOfDrainer(t, 1) }

// mutating are the calls by which a drainer changes anything. Before a call that
// changes nothing the world is as it is before the next that does.
var mutating = []string{
	"mkdirat", "flock", "write", "fsync", "fchmod", "fchown", "renameat", "unlinkat",
	"kill", "pidfd_send_signal",
}

func crashOfDrainer(t *testing.T, step int) {
	states := map[string]int{}
	crashPointsOf(t, step, mutating, func(t *testing.T, p point, trace string, _ *crashes) {
		store := newStore(t)
		plain, hard := began(t, store, Request{Argv: shell("echo; exec sleep 600")}), began(t, store, Request{Argv: shell(deaf)})
		cmd := tracer(p, trace, self(t))
		cmd.Env = append(os.Environ(), drainEnv+"="+store.Dir, oneThreadEnv+"=1")
		tracedToEnd(t, cmd)
		for _, h := range []Handle{plain, hard} {
			who := jobprobe.Probe(h.Identity)
			rec := store.Read(h.RunID).Record
			if rec == nil {
				t.Fatalf("%v: no record", p)
			}
			now := sidecar.HistoryOf(rec)
			states[now.Phase.String()]++
			switch {
			case now.Damaged != 0 || !now.Kept:
				t.Errorf("%v: %+v", p, now)
			case now.Phase == sidecar.PhaseRunning && who.Conclusion != jobprobe.Alive:
				t.Errorf("%v: told as running, and it is %v", p, who.Conclusion)
			case now.Ownership == sidecar.CleanupConfirmed && who.Conclusion != jobprobe.ProcessGone:
				t.Errorf("%v: told as gone, and it is %v", p, who.Conclusion)
			case now.Phase == sidecar.PhaseRecoveryNeeded, now.Phase == sidecar.PhaseFailed:
				t.Errorf("%v: %+v", p, now.Turn)
			}
		}
		_ = drain(t, store, reap.DrainOptions{})
		for _, h := range []Handle{plain, hard} {
			becomes(t, store, h.RunID, stoppedClean)
		}
		if _, err := Start(t.Context(), store, Request{Argv: []string{"true"}}); !errors.Is(err, reap.ErrDraining) {
			t.Errorf("%v: a start says %v", p, err)
		}
	})
	t.Logf("count: killed drainers left jobs %v", states)
}

// A supervisor that was told to stop says so before it signals. If it is lost
// then, nobody takes the job for ended while it lives, and whoever finds it gone
// says that it needs recovery.
func TestInterruptRequested(t *testing.T) {
	store := newStore(t)
	h := began(t, store, Request{Argv: shell(deaf), Grace: time.Hour})
	send(t, pin(t, h.Supervisor), syscall.SIGTERM)
	const asked = "interrupt_requested requested cleanup_pending user_interrupt"
	until(t, "the request is on record", func() bool { return life(t, store, h.RunID) == asked })
	kill(t, h.Supervisor)
	before, err := os.ReadFile(filepath.Join(store.Dir, h.RunID, "job.json"))
	if err != nil {
		t.Fatal(err)
	}
	var observers []*exec.Cmd
	for range 8 { // programs that were started after the job look at it
		cmd := exec.Command(self(t))
		cmd.Env = append(os.Environ(), lookEnv+"="+store.Dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		observers = append(observers, cmd)
	}
	for _, cmd := range observers {
		if err := cmd.Wait(); err != nil {
			t.Errorf("an observer: %v", err)
		}
	}
	after, err := os.ReadFile(filepath.Join(store.Dir, h.RunID, "job.json"))
	if err != nil || string(after) != string(before) {
		t.Errorf("a live job was relabelled: %v\n%s", err, cmp.Diff(string(before), string(after)))
	}
	kill(t, h.Identity)
	endMarked(t, h.RunID)
	becomes(t, store, h.RunID, "recovery_needed completed cleanup_confirmed runtime_restart")
	if job := status(t, store, h.RunID); !slices.Contains(job.Warnings, reap.WarnRecovery) {
		t.Errorf("warnings %q", job.Warnings)
	}
}

// lookEnv makes this binary a program that looks at every job of a store in
// every way.
const lookEnv = "JOBPROBE_TEST_LOOK"

func lookMain(dir string) int {
	o, ctx := observer(sidecar.Store{Dir: dir}), context.Background()
	listing, err := o.List(ctx, reap.ListOptions{})
	if err != nil || len(listing.Jobs) == 0 {
		return 1
	}
	for range 20 {
		for _, row := range listing.Jobs {
			_, one := o.Status(ctx, row.RunID)
			_, two := o.History(ctx, row.RunID)
			_, three := o.Sweep(ctx, false)
			if errors.Join(one, two, three) != nil {
				return 2
			}
		}
	}
	return 0
}

// A leader that has finished is no proof that its job has: a child of it in its
// group, or in a session of its own, is seen until it is gone.
func TestCleanupOfTheRest(t *testing.T) {
	for name, script := range map[string]string{
		"in the group": `sleep 600 & echo`,
		"apart":        `setsid sleep 600 & echo`,
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			h := start(t, store, shell(script)...)
			t.Cleanup(func() { endMarked(t, h.RunID) })
			finished(t, store, h.RunID)
			if got := life(t, store, h.RunID); got != "completed not_requested cleanup_pending null" {
				t.Errorf("its child lives: %s", got)
			}
			endMarked(t, h.RunID)
			becomes(t, store, h.RunID, "completed not_requested cleanup_confirmed null")
		})
	}
}
