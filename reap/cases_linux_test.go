package reap

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// asks observes the job in every way, and returns what each was told: the
// conclusion and finding where it tells them, else the end.
func (k *pack) asks() map[string]string {
	k.t.Helper()
	ctx, said := context.Background(), map[string]string{}
	fate := func(terminal bool, outcome, reason *string, status string) string {
		return fmt.Sprintf("%t %s %s %s", terminal, status, deref(outcome), deref(reason))
	}
	kill := k.kill(KillOptions{})
	said["kill"] = fmt.Sprintf("%t %s", kill.Killed, kill.ReasonCode)
	sweep, err := k.Sweep(ctx, true)
	for _, s := range sweep.Ended {
		said["sweep"] = s.Reason
	}
	must(k.t, err)
	job, err := k.Status(ctx, runID)
	must(k.t, err)
	said["status"] = fate(job.Terminal, job.Outcome, job.ReasonCode, job.Status)
	said["finding"] = job.LivenessConclusion + "/" + job.Finding
	list, err := k.List(ctx, ListOptions{})
	must(k.t, err)
	row := list.Jobs[0]
	said["list"] = fate(row.Terminal, row.Outcome, row.ReasonCode, row.Status)
	w, err := k.Wait(ctx, []string{runID}, WaitOptions{})
	must(k.t, err)
	run := w.Runs[0]
	said["wait"] = fate(run.Terminal, run.Outcome, run.ReasonCode, run.Status)
	out, _, err := k.Output(ctx, runID, 0)
	must(k.t, err)
	said["output"] = fate(out.Terminal, out.Outcome, out.ReasonCode, out.Status)
	return said
}

func must(t testproc.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// all is the answers of asks that say one thing.
func all(fate, sweep, kill, finding string) map[string]string {
	said := map[string]string{"finding": finding, "kill": "false " + kill}
	for _, verb := range []string{"status", "list", "wait", "output"} {
		said[verb] = fate
	}
	if sweep != "" {
		said["sweep"] = sweep
	}
	return said
}

const (
	wasLost   = "true exited indeterminate process_gone_without_outcome"
	isRunning = "false running  "
)

func (k *pack) agrees(want map[string]string) {
	k.t.Helper()
	if diff := cmp.Diff(want, k.asks()); diff != "" {
		k.t.Fatalf("(-want +got):\n%s", diff)
	}
}

// G2: the process is absent where its number was issued. The first observer
// writes one durable end, later ones nothing.
func TestCaseG2(t *testing.T) {
	k := newPack(t)
	p := session(t, scriptIdle, runID).ready()
	k.record(stamped(t, whoIs(t, p.pid))...)
	p.end()
	seen := watchJob(t, filepath.Dir(k.path()))
	k.agrees(all(wasLost, "pid_absent", "group_gone", "process_gone/pid_absent"))
	if n := seen.count(); n != 1 {
		t.Errorf("%d publications", n)
	}
}

// G8: a process that has exited and is not collected is gone, whoever asks.
func TestCaseG8(t *testing.T) {
	k := newPack(t)
	c := testproc.Start(t, &syscall.SysProcAttr{Setsid: true}, "idle")
	k.record(stamped(t, whoIs(t, c.PID))...)
	c.Zombie(t)
	k.agrees(all(wasLost, "disappeared_during_probe", "group_gone", "process_gone/disappeared_during_probe"))
	evidence := mustObject(t, k.Store.Read(runID).Record, "terminal_evidence")
	if finding, _ := evidence.Text("finding"); finding != "disappeared_during_probe" {
		t.Errorf("evidence of %s", finding)
	}
}

// G9: the caller gives up in the middle of publishing an end. The end is there
// whole or not at all, and the next observer sees to the rest.
func TestCaseG9(t *testing.T) {
	ended := 0
	for range 20 {
		b := newBell(t, rings("exit 0"))
		ctx, cancel := context.WithCancel(t.Context())
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		must(t, err)
		_, err = unix.InotifyAddWatch(fd, b.dir, unix.IN_CREATE) // of the lock, then of the new record
		must(t, err)
		go func() {
			unix.Read(fd, make([]byte, 4096))
			unix.Read(fd, make([]byte, 4096))
			cancel()
		}()
		job, err := b.Status(ctx, runID)
		must(t, err)
		on := b.on(runID, "finished_at")
		if job.Terminal != (on != "null") || string(job.FinishedAt) != on {
			t.Errorf("told %v, %s; on record is %s", job.Terminal, job.FinishedAt, on)
		}
		if job.Terminal {
			ended++
		}
		if next := b.look(); !next.Terminal || job.Terminal && string(next.FinishedAt) != on {
			t.Errorf("the next observer is told %v, %s after %s", next.Terminal, next.FinishedAt, on)
		}
		b.want(okNotice, 1)
		if left, _ := filepath.Glob(filepath.Join(b.dir, ".job.json.*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		unix.Close(fd)
		cancel()
	}
	t.Logf("count: %d of 20 ends were published although the caller gave up", ended)
}

// G10: a job that is only being prepared is nobody's process, whatever number
// stands in its record, even that of a process that has come and gone.
func TestCaseG10(t *testing.T) {
	shim := exec.Command("true")
	must(t, shim.Run())
	for _, pid := range []string{"null", "-1", "0", fmt.Sprint(shim.Process.Pid), fmt.Sprint(absentPID)} {
		k := newPack(t)
		before := k.record(set("pid", pid), set("pgid", pid), set("pid_create_time", "1700000000.25"), set("spawn_state", `"preparing"`))
		for verb, said := range k.asks() {
			if strings.HasPrefix(said, "true") || verb == "sweep" {
				t.Errorf("pid %s: %s says %s", pid, verb, said)
			}
		}
		if string(k.read()) != string(before) {
			t.Errorf("pid %s: the record changed:\n%s", pid, k.read())
		}
	}
}

// G14: a process that executes another program is still that process.
func TestCaseG14(t *testing.T) {
	k := newPack(t)
	p := session(t, `echo ready; read go; exec cat`, runID).ready()
	k.record(stamped(t, whoIs(t, p.pid))...)
	name := func() string {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid))
		must(t, err)
		return strings.TrimSpace(string(data))
	}
	before := name()
	p.in.Write([]byte("go\nexecuted\n"))
	if line := p.line(); line != "executed" || name() != "cat" || before == "cat" {
		t.Fatalf("the process was %s, is %s, and says %q", before, name(), line)
	}
	job, err := k.Status(t.Context(), runID)
	must(t, err)
	if job.Terminal || job.LivenessConclusion != "alive" || job.Finding != "identity_confirmed" {
		t.Errorf("%s: %s/%s", job.Status, job.LivenessConclusion, job.Finding)
	}
}

// G15: what a live process has or has not written so far proves nothing, nor
// how long ago that was.
func TestCaseG15(t *testing.T) {
	for _, result := range []string{"", `{"ok": fal`, `{"ok": false}`, `{"status": "completed"}`} {
		k := newPack(t)
		id := whoIs(t, session(t, scriptIdle, runID).ready().pid)
		before := k.record(append(stamped(t, id), set("submitted_at", `"2001-01-01T00:00:00+00:00"`))...)
		for _, path := range []string{
			filepath.Join(filepath.Dir(k.path()), "terminal_cause.json"), filepath.Join(filepath.Dir(k.path()), "result.json"),
			filepath.Join(k.RunsDir, runID, "notify_outcome.json"), filepath.Join(k.RunsDir, runID, "run.json"),
		} {
			writeFile(t, path, result)
		}
		old := unix.NsecToTimespec(0)
		must(t, unix.UtimesNano(k.path(), []unix.Timespec{old, old}))
		job, err := k.Status(t.Context(), runID)
		must(t, err)
		sweep, err := k.Sweep(t.Context(), false)
		must(t, err)
		if job.Terminal || !job.Alive || job.Status != "running" || len(sweep.Ended)+len(sweep.Unresolved) > 0 {
			t.Errorf("beside %q: %s/%s, swept %+v", result, job.Status, job.Finding, sweep)
		}
		if string(k.read()) != string(before) {
			t.Errorf("the record changed:\n%s", k.read())
		}
	}
}

// G11 and G17: the number was given to a stranger. Everybody says so, a wait
// at its next look; the stranger lives on.
func TestCaseG17(t *testing.T) {
	want := []string{"pid_recycled", "process_gone/pid_recycled", wasLost, "wait: " + wasLost}
	if diff := cmp.Diff(want, killStage(t, testproc.PIDs, "recycled")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCaseG11(t *testing.T) { TestCaseG17(t) }

// recycledStage records a process whose number then is another's, once before
// anybody looks, and once while somebody waits.
func recycledStage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	k := newPack(s)
	second := testproc.Recycle(s, func(first *testproc.Child) { k.record(stamped(s, whoIs(s, first.PID))...) }, testproc.NextTick)
	stranger := whoIs(s, second.PID)
	said := k.asks()
	if diff := cmp.Diff(all(wasLost, "pid_recycled", "pid_recycled", said["finding"]), said); diff != "" {
		s.Fatalf("(-want +got):\n%s", diff)
	}
	mustLive(s, stranger)
	s.Say("%s\n%s\n%s", said["sweep"], said["finding"], said["status"])
	second.Kill()

	// A wait that has seen the first process alive looks again when its number
	// is the second's.
	k = newPack(s)
	var looked, recycled chan struct{}
	var answer chan string
	second = testproc.Recycle(s, func(first *testproc.Child) {
		k.record(stamped(s, whoIs(s, first.PID))...)
		looked, recycled, answer = make(chan struct{}), make(chan struct{}), make(chan string, 1)
		alive := make(chan struct{})
		go k.waitAcross(alive, looked, recycled, answer)
		<-alive
	}, func() { <-looked; testproc.NextTick() })
	stranger = whoIs(s, second.PID)
	close(recycled)
	s.Say("%s", <-answer)
	if finding, _ := mustObject(s, k.Store.Read(runID).Record, "terminal_evidence").Text("finding"); finding != "pid_recycled" {
		s.Fatalf("evidence of %s", finding)
	}
	mustLive(s, stranger)
}

// waitAcross waits for the job. It says when it has seen the process alive, and
// when it looks again, which it does not go on with before it is told to.
func (k *pack) waitAcross(alive, looked chan<- struct{}, recycled <-chan struct{}, answer chan<- string) {
	o, reads := k.Observer, 0
	o.step = func(now step) {
		if now == stepRead {
			reads++
		}
		switch {
		case reads == 1 && now == stepProbed:
			close(alive)
		case reads == 2 && now == stepRead:
			close(looked)
			<-recycled
		}
	}
	w, err := o.Wait(context.Background(), []string{runID}, WaitOptions{MaxWait: 60, Poll: 60})
	must(k.t, err)
	run := w.Runs[0]
	answer <- fmt.Sprintf("wait: %t %s %s %s", run.Terminal, run.Status, deref(run.Outcome), deref(run.ReasonCode))
}

func mustObject(t testproc.T, rec *sidecar.Record, name string) *sidecar.Record {
	t.Helper()
	obj, ok := rec.Object(name)
	if !ok {
		t.Fatalf("the record has no %s: %s", name, rec.Append(nil))
	}
	return obj
}
