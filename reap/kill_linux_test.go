package reap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// patient leaves time enough on a slow machine; nothing waits that long.
var patient = KillOptions{Grace: 20 * time.Second, Verify: 20 * time.Second}

// hasty escalates at once.
var hasty = KillOptions{Grace: time.Millisecond, Verify: 20 * time.Second}

// want compares the parts of a reply that do not depend on numbers.
func want(t *testing.T, got KillReply, code string, cleanup sidecar.Cleanup, remains sidecar.Remains, escalated bool) {
	t.Helper()
	text := func(code string, c sidecar.Cleanup, r sidecar.Remains, e bool) string {
		return fmt.Sprintf("%s, cleanup %s, descendants %s, escalated %t", code, c, r, e)
	}
	if diff := cmp.Diff(text(code, cleanup, remains, escalated),
		text(got.ReasonCode, got.Cleanup, got.Descendants, got.Escalated)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A leader and a member end by SIGTERM, and the record says so.
func TestPoint14KillIsRecorded(t *testing.T) {
	for _, fields := range []func(*pack, jobprobe.Identity) []byte{
		func(k *pack, id jobprobe.Identity) []byte { return k.record(stamped(k.t, id)...) },
		func(k *pack, id jobprobe.Identity) []byte { return k.record(plainly(k.t, id)...) },
	} {
		k := newPack(t)
		p := session(t, scriptPair, runID)
		ids := []jobprobe.Identity{whoIs(t, p.pid), whoIs(t, p.member())}
		p.ready()
		fields(k, ids[0])
		before := k.Store.Read(runID).Record
		reply := k.kill(patient)
		want(t, reply, "signalled", sidecar.CleanupCompleted, sidecar.RemainsNone, false)
		if !reply.Killed || !reply.Recorded || deref(reply.Signal) != "SIGTERM" || reply.Refused != nil {
			t.Errorf("reply is %+v", reply)
		}
		if n := fmt.Sprint(p.pid); string(reply.PID) != n || string(reply.PGID) != n {
			t.Errorf("pid %s, pgid %s, want %s", reply.PID, reply.PGID, n)
		}
		mustBeGone(t, ids...)
		after := k.Store.Read(runID).Record
		at, _ := after.Text("finished_at")
		wantRec := before.Clone()
		for name, text := range map[string]string{"status": "killed", "finished_at": at} {
			wantRec.Set(name, sidecar.Text(text))
		}
		for _, f := range []sidecar.Field{set("outcome", `"cancelled"`),
			set("finished_at_precision", `"observed"`), set("terminal_source", `"mcp_kill"`)} {
			wantRec.Set(f.Name, f.Value)
		}
		if diff := cmp.Diff(string(wantRec.Append(nil)), string(after.Append(nil))); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
		k.refuses("group_gone")
	}
}

// No grace is the peer's behaviour: one signal, and no look afterwards. What
// ignores it lives, although the record ends.
func TestKillWithoutGrace(t *testing.T) {
	k := newPack(t)
	p := session(t, scriptDeaf, runID)
	member := whoIs(t, p.member())
	leader := whoIs(t, p.ready().pid)
	k.record(stamped(t, leader)...)
	want(t, k.kill(KillOptions{}), "signalled", sidecar.CleanupNotRequested, sidecar.RemainsUnknown, false)
	mustLive(t, leader, member)
	// The end is on record, and a kill is still possible. It changes nothing
	// of the end.
	before := k.Store.Read(runID).Record
	want(t, k.kill(hasty), "signalled", sidecar.CleanupCompleted, sidecar.RemainsNone, true)
	mustBeGone(t, leader, member)
	after := k.Store.Read(runID).Record
	if after.Null("group_reaped_at") {
		t.Error("group_reaped_at is not set")
	}
	at, _ := after.Raw("group_reaped_at")
	before.Set("group_reaped_at", at)
	if diff := cmp.Diff(string(before.Append(nil)), string(after.Append(nil))); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// G6: the parent has gone first, and what is left ignores SIGTERM.
func TestCaseG6(t *testing.T) {
	k := newPack(t)
	p := session(t, `trap "" TERM; read go; `+scriptOrphan, runID)
	k.record(stamped(t, whoIs(t, p.pid))...)
	p.in.Write([]byte("go\n"))
	member := whoIs(t, p.member())
	p.collect()
	want(t, k.kill(hasty), "signalled", sidecar.CleanupCompleted, sidecar.RemainsNone, true)
	mustBeGone(t, member)
	if status, _ := k.Store.Read(runID).Record.Text("status"); status != "killed" {
		t.Errorf("status %q", status)
	}
}

// A leader that has exited and is not collected leads nobody.
func TestKillZombieLeader(t *testing.T) {
	k := newPack(t)
	p := session(t, `read go; `+scriptOrphan, runID)
	k.record(stamped(t, whoIs(t, p.pid))...)
	p.in.Write([]byte("go\n"))
	member := whoIs(t, p.member())
	if err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	want(t, k.kill(patient), "signalled", sidecar.CleanupCompleted, sidecar.RemainsNone, false)
	mustBeGone(t, member)
	k.refuses("group_gone") // the zombie is still there
}

// G3: a process of the run in a session of its own is told of, and left alone.
func TestCaseG3(t *testing.T) {
	k := newPack(t)
	p := session(t, `exec 3<&0; setsid cat <&3 >/dev/null & echo $!; echo ready; cat >/dev/null`, runID)
	outside := whoIs(t, p.member())
	p.ready()
	for groupOf(t, int(outside.PID)) == p.pid { // until setsid has run
	}
	k.record(stamped(t, whoIs(t, p.pid))...)
	want(t, k.kill(patient), "signalled", sidecar.CleanupCompleted, sidecar.RemainsSome, false)
	mustLive(t, outside)
	k.refuses("group_gone", outside)
}

func groupOf(t *testing.T, pid int) int {
	t.Helper()
	pgid, err := unix.Getpgid(pid)
	if err != nil {
		t.Fatal(err)
	}
	return pgid
}

// The lock's holder does not keep a job alive, and the reply says that the
// record could not be changed.
func TestPoint14KillNotRecorded(t *testing.T) {
	k := newPack(t)
	k.Store.LockWait = 20 * time.Millisecond
	p := session(t, scriptIdle, runID).ready()
	id := whoIs(t, p.pid)
	before := k.record(stamped(t, id)...)
	unlock := holdLock(t, filepath.Join(filepath.Dir(k.path()), "job.lock"))
	reply := k.kill(patient)
	want(t, reply, "kill_not_recorded", sidecar.CleanupCompleted, sidecar.RemainsNone, false)
	if !reply.Killed || reply.Recorded || deref(reply.Refused) != "lock_unavailable" || reply.Undecided() {
		t.Errorf("reply is %+v", reply)
	}
	mustBeGone(t, id)
	if got := k.read(); string(got) != string(before) {
		t.Errorf("the record changed:\n%s", got)
	}
	unlock()
	p.reap()
	if job, err := k.Status(context.Background(), runID); err != nil || deref(job.Outcome) != sidecar.Indeterminate {
		t.Errorf("the next observer says %v %v, %v", job.Status, deref(job.Outcome), err)
	}
}

func holdLock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// Nothing happens for a caller who has given up, even at the lock.
func TestKillCancelled(t *testing.T) {
	k := newPack(t)
	id := whoIs(t, session(t, scriptIdle, runID).ready().pid)
	before := k.record(stamped(t, id)...)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := k.Kill(gone, runID, KillOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	defer holdLock(t, filepath.Join(filepath.Dir(k.path()), "job.lock"))()
	waiting, cancel := context.WithCancel(context.Background())
	k.at(stepProved, cancel)
	if _, err := k.Kill(waiting, runID, KillOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error at the lock is %v", err)
	}
	mustLive(t, id)
	if got := k.read(); string(got) != string(before) {
		t.Errorf("the record changed:\n%s", got)
	}
}

// Signals that end nothing are not sent.
func TestKillSignal(t *testing.T) {
	k := newPack(t)
	p := session(t, `trap "echo usr1" USR1; echo ready; while ! read x; do :; done`, runID).ready()
	id := whoIs(t, p.pid)
	k.record(stamped(t, id)...)
	for _, sig := range []syscall.Signal{-1, 65, 255, unix.SIGSTOP, unix.SIGTSTP, unix.SIGCONT, unix.SIGCHLD, unix.SIGWINCH, unix.SIGURG} {
		if _, err := k.Kill(context.Background(), runID, KillOptions{Signal: sig}); !errors.Is(err, ErrSignal) {
			t.Errorf("signal %d: %v", sig, err)
		}
	}
	mustLive(t, id)
	reply := k.kill(KillOptions{Signal: unix.SIGUSR1})
	if deref(reply.Signal) != "SIGUSR1" || !strings.Contains(reply.Reason, "SIGUSR1") {
		t.Errorf("reply is %+v", reply)
	}
	if got := p.line(); got != "usr1" {
		t.Errorf("the job says %q", got)
	}
}

// Many kills and observers at once: one end, which says killed, and nobody
// claims to have written another one.
func TestKillConcurrent(t *testing.T) {
	for range 5 {
		k := newPack(t)
		p := session(t, scriptPair, runID)
		p.member()
		id := whoIs(t, p.ready().pid)
		k.record(stamped(t, id)...)
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				if i%3 == 0 {
					k.Status(context.Background(), runID)
					return
				}
				reply := k.kill(KillOptions{Grace: 20 * time.Second})
				if reply.Killed != (reply.ReasonCode == KillSignalled) || reply.Killed != reply.Recorded {
					t.Errorf("reply is %+v", reply)
				}
			})
		}
		all.Wait()
		mustBeGone(t, id)
		rec := k.Store.Read(runID).Record
		source, _ := rec.Text("terminal_source")
		status, _ := rec.Text("status")
		if source != sidecar.SourceKill || status != "killed" {
			t.Errorf("ended by %s with status %s", source, status)
		}
	}
}
