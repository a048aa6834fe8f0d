package reap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Where no other process has the job's number, its absence proves nothing for
// a record of another pid namespace (peer fault 2).
func TestPeerFault2OtherNamespace(t *testing.T) {
	k := newPack(t)
	id := whoIs(t, session(t, scriptIdle, runID).ready().pid)
	before := k.record(stamped(t, id)...)
	want := []string{"unknown/foreign_pid_namespace", isRunning, "false foreign_pid_namespace"}
	if diff := cmp.Diff(want, killStage(t, testproc.PIDs, "outsider", k.Store.Dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if string(k.read()) != string(before) {
		t.Errorf("the record changed:\n%s", k.read())
	}
	mustLive(t, id)
}

// outsiderStage observes the store of another namespace.
func outsiderStage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	k := &pack{New(s.Args[0]), s}
	said := k.asks()
	k.agrees(all(isRunning, "", "foreign_pid_namespace", said["finding"]))
	s.Say("%s\n%s\n%s", said["finding"], said["status"], said["kill"])
}

// A process whose first thread has ended while others run lives, and is killed
// (peer fault 3).
func TestPeerFault3DeadLeaderThread(t *testing.T) {
	k := newPack(t)
	c := testproc.Start(t, &syscall.SysProcAttr{Setsid: true}, "dead-leader")
	id := whoIs(t, c.PID)
	for _, fields := range [][]sidecar.Field{stamped(t, id), plainly(t, id)} {
		k.record(fields...)
		job, err := k.Status(t.Context(), runID)
		must(t, err)
		if job.Terminal || job.Finding != "identity_confirmed" {
			t.Errorf("%s (%s)", job.Status, job.Finding)
		}
	}
	k.record(stamped(t, id)...)
	want(t, k.kill(patient), "signalled", sidecar.CleanupCompleted, sidecar.RemainsNone, false)
	mustBeGone(t, id)
}

// A start time that is text is no start time, for status and kill alike (peer
// fault 3).
func TestPeerFault3NumericString(t *testing.T) {
	k := newPack(t)
	id := whoIs(t, session(t, scriptIdle).ready().pid)
	before := k.record(append(plainly(t, id), set("pid_create_time", `"1700000000.25"`))...)
	k.agrees(all(isRunning, "", "recorded_identity_unusable", "alive/identity_unusable"))
	if string(k.read()) != string(before) {
		t.Errorf("the record changed:\n%s", k.read())
	}
	mustLive(t, id)
}

// An attachment that cannot get the lock is an error, leaves the job in
// preparation, and can be made afterwards (peer fault 5).
func TestPeerFault5RefusedAttach(t *testing.T) {
	w := newWorld(t)
	aged(w, runID, 0)
	before := w.bytes(runID)
	w.Store.LockWait = time.Millisecond
	unlock := w.lockJob(runID)
	who := sidecar.Attachment{PID: childPID}
	got, err := w.Store.Attach(t.Context(), runID, who)
	refused, ok := errors.AsType[*sidecar.RefusedError](err)
	if !ok || refused.Reason != sidecar.LockUnavailable || got.Won {
		t.Errorf("attached %v: %v", got.Won, err)
	}
	if job := w.status(runID); job.Terminal || string(job.SpawnState) != `"preparing"` || string(w.bytes(runID)) != string(before) {
		t.Errorf("%s, spawn_state %s", job.Status, job.SpawnState)
	}
	unlock()
	if got, err := w.Store.Attach(t.Context(), runID, who); err != nil || !got.Won {
		t.Errorf("attached %v: %v", got.Won, err)
	}
	if got := w.onDisk(runID, "spawn_state"); got != `"started"` {
		t.Errorf("spawn_state %s", got)
	}
}

// What is published is on the disk before it has its name, and the name before
// anybody is answered (peer fault 6).
func TestPeerFault6Durable(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	b := newBell(t, rings("exit 0"))
	trace := filepath.Join(t.TempDir(), "trace")
	b.strace(nil, "-o", trace, "-e", "signal=none", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2,exit_group")
	b.want(okNotice, 1)
	text, err := os.ReadFile(trace)
	must(t, err)
	var calls []string
	main, _, _ := strings.Cut(string(text), " ")
	for line := range strings.Lines(string(text)) {
		thread, call, _ := strings.Cut(line, " ")
		name, _, isCall := strings.Cut(strings.TrimSpace(call), "(")
		if thread == main && isCall {
			calls = append(calls, strings.TrimRight(name, "at2"))
		}
	}
	// The end, the claim of the notice, its result.
	once := []string{"fsync", "rename", "fsync"}
	if diff := cmp.Diff(slices.Concat(once, once, once, []string{"exit_group"}), calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A refused lock is told by everybody who asks (peer fault 7).
func TestPeerFault7RefusalIsTold(t *testing.T) { TestPoint13LockHeld(t) }

// A kill, an operator's word and a lifecycle store's answer are told of too
// (peer fault 10).
func TestPeerFault10KillCloseAndLifecycleAreTold(t *testing.T) {
	for name, end := range map[string]func(*bell){
		"kill": func(b *bell) {
			p := session(t, scriptIdle, runID).ready()
			b.rewrite(append(stamped(t, whoIs(t, p.pid)), rings("exit 0"))...)
			reply, err := b.Kill(t.Context(), runID, patient)
			must(t, err)
			want(t, reply, "signalled", sidecar.CleanupCompleted, sidecar.RemainsNone, false)
		},
		"close": func(b *bell) {
			b.rewrite(set("pid", "-5"), rings("exit 0"))
			_, err := b.Close(t.Context(), runID, "the host was scrapped")
			must(t, err)
		},
		"lifecycle": func(b *bell) {
			b.Lifecycle = lifecycleScript(t, envelope(`{"terminal":true,"status":"completed"}`))
			_, err := b.Status(t.Context(), runID)
			must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBell(t, rings("exit 0"))
			end(b)
			must(t, b.Flush(t.Context()))
			sources := map[string]string{"kill": sidecar.SourceKill, "close": sidecar.SourceOperator, "lifecycle": sidecar.SourceLifecycle}
			if got := b.on(runID, "terminal_source"); got != `"`+sources[name]+`"` {
				t.Errorf("ended by %s", got)
			}
			b.want(okNotice, 1)
			b.look()
			b.want(okNotice, 1)
		})
	}
}

// stoppedHolder starts a process that has the lock of the bell's job, and
// stops it (SIGSTOP). resume lets it end.
func (b *bell) stoppedHolder() (resume func()) {
	b.t.Helper()
	lock, err := os.OpenFile(filepath.Join(b.dir, "job.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	defer lock.Close() // the lock belongs to the open file, which the holder has too
	cmd := exec.Command("sleep", "1000")
	cmd.ExtraFiles = []*os.File{lock}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		b.t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		b.t.Fatalf("not stopped: %v, %v", status, err)
	}
	ended := false
	resume = func() {
		if !ended {
			ended = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	b.t.Cleanup(resume)
	return resume
}

// A wait keeps its window although the lock's holder is stopped, a notifier
// hangs, or a lifecycle command does not answer (peer fault 15). Each of these
// would take longer than this test may: what shows that nobody waited for it
// is that what comes afterwards has not come.
func TestPeerFault15WindowHolds(t *testing.T) {
	window := WaitOptions{MaxWait: 0.2, Poll: 0.05}
	t.Run("lock", func(t *testing.T) {
		b := newBell(t, rings("exit 0"))
		b.Store.LockWait = 24 * time.Hour
		resume := b.stoppedHolder()
		w, err := b.Wait(t.Context(), []string{runID}, window)
		if err != nil || w.AllTerminal || len(w.Pending) != 1 {
			t.Errorf("%+v, %v", w, err)
		}
		b.want("absent", 0)
		resume()
		b.look()
		b.want(okNotice, 1)
	})
	t.Run("lifecycle", func(t *testing.T) {
		b := newBell(t, rings("exit 0"))
		b.Lifecycle = lifecycleScript(t, "exec sleep 1000")
		w, err := b.Wait(t.Context(), []string{runID}, window)
		if err != nil || w.AllTerminal || len(w.Pending) != 1 {
			t.Errorf("%+v, %v", w, err)
		}
		b.want("absent", 0)
		b.Lifecycle = Lifecycle{}
		b.look()
		b.want(okNotice, 1)
	})
	t.Run("notifier", func(t *testing.T) {
		gate := fifo(t)
		b := newBell(t, rings(`read x < "$1"`, gate))
		for range 2 {
			w, err := b.Wait(t.Context(), []string{runID}, WaitOptions{MaxWait: 600, Poll: 60})
			if err != nil || !w.AllTerminal {
				t.Errorf("%+v, %v", w, err)
			}
			if got := b.on(runID, "notify_delivery"); got != pendingNotice && got != unknownNotice {
				t.Errorf("notify_delivery %s", got)
			}
		}
		writeFile(t, gate, "on\n")
		must(t, b.Flush(t.Context()))
		b.want(okNotice, 1)
	})
}

// However many jobs are waited for, few lifecycle commands run at a time.
func TestLifecycleCommandsAreFew(t *testing.T) {
	const jobs = 4 * maxNotifiers
	b := newBell(t)
	running := filepath.Join(testproc.TempDir(t), "running")
	must(t, os.Mkdir(running, 0o700))
	b.Lifecycle = lifecycleScript(t, fmt.Sprintf(`: > %[1]s/$2; ls %[1]s | wc -l >> %[2]s; rm %[1]s/$2; %[3]s`,
		running, b.calls, envelope(`{"terminal":true,"status":"completed"}`)))
	ids := []string{runID}
	for i := range jobs - 1 {
		id := fmt.Sprintf("job-%02d", i)
		b.add(id)
		ids = append(ids, id)
	}
	w, err := b.Wait(t.Context(), ids, WaitOptions{MaxWait: 600, Poll: 60})
	if err != nil || !w.AllTerminal || string(w.Runs[jobs-1].TerminalSource) != `"lifecycle_cache"` {
		t.Errorf("all terminal %t, %v", w.AllTerminal, err)
	}
	text, err := os.ReadFile(b.calls)
	must(t, err)
	most := 0
	for _, word := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(word)
		must(t, err)
		most = max(most, n)
	}
	if b.rung() != jobs || most > maxNotifiers {
		t.Errorf("%d commands ran, up to %d at a time", b.rung(), most)
	}
	t.Logf("count: %d lifecycle commands, up to %d at a time", jobs, most)
}

// A run's own file that is none holds nobody up.
func TestRunFileIsAPipe(t *testing.T) {
	b := newBell(t)
	for _, name := range []string{"run.json", "notify_outcome.json"} {
		path := filepath.Join(b.RunsDir, runID, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, unix.Mkfifo(path, 0o600))
	}
	if job := b.look(); !job.Terminal || string(job.Run) != "null" || str(job.ReasonCode) != sidecar.ReasonGone {
		t.Errorf("terminal %t, run %s, reason %s", job.Terminal, job.Run, str(job.ReasonCode))
	}
}

// The time of an end that a lifecycle store only guesses is an upper bound
// (peer fault 20).
func TestPeerFault20ApproximateEnd(t *testing.T) {
	for guessed, precision := range map[bool]string{true: `"upper_bound"`, false: `"observed"`} {
		b := newBell(t)
		b.Lifecycle = lifecycleScript(t, envelope(fmt.Sprintf(
			`{"terminal":true,"status":"completed","ended_at":1785542400.5,"ended_at_is_approximate":%t}`, guessed)))
		job, err := b.Status(context.Background(), runID)
		must(t, err)
		if got := b.on(runID, "finished_at_precision"); got != precision || string(job.FinishedAtPrecision) != precision {
			t.Errorf("guessed %t: precision %s, told %s", guessed, got, job.FinishedAtPrecision)
		}
		if got := b.on(runID, "finished_at"); got != `"2026-08-01T00:00:00.500000+00:00"` {
			t.Errorf("finished_at %s", got)
		}
	}
}
