package reap

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// orphanGroup is a group whose leader is gone: one member for each list of
// markers. It returns the identity that the leader had, and the members. They
// are of the test's session, so that each can be started on its own.
func orphanGroup(t testproc.T, members ...[]string) (leader jobprobe.Identity, left []jobprobe.Identity) {
	t.Helper()
	p := hunt(t, &syscall.SysProcAttr{Setpgid: true}, `echo ready; read go`)
	leader = whoIs(t, p.ready().pid)
	for _, marks := range members {
		m := hunt(t, &syscall.SysProcAttr{Setpgid: true, Pgid: p.pid}, scriptIdle, marks...)
		left = append(left, whoIs(t, m.ready().pid))
	}
	p.in.Write([]byte("go\n"))
	p.collect()
	return leader, left
}

// What the members of a group without its leader prove.
func TestKillOrphanedGroup(t *testing.T) {
	own, other, third, none := []string{runID}, []string{"other"}, []string{"third"}, []string(nil)
	for _, c := range []struct {
		code    string
		members [][]string
	}{
		{"group_gone", nil},
		{"group_ownership_unproven", [][]string{none}},
		{"group_belongs_to_another_run", [][]string{other, none}},
		{"group_markers_conflict", [][]string{own, other}},
		{"group_markers_conflict", [][]string{third, other, none}},
		{"signalled", [][]string{own}},
		{"signalled", [][]string{none, own}},
	} {
		for _, fields := range []func(testproc.T, jobprobe.Identity) []sidecar.Field{stamped, plainly} {
			t.Run(c.code, func(t *testing.T) {
				k := newPack(t)
				leader, left := orphanGroup(t, c.members...)
				k.record(fields(t, leader)...)
				if c.code != "signalled" {
					k.refuses(c.code, left...)
					return
				}
				want(t, k.kill(patient), c.code, sidecar.CleanupCompleted, sidecar.RemainsNone, false)
				mustBeGone(t, left...)
			})
		}
	}
}

// A member that is older than the run was never started by it.
func TestKillPredates(t *testing.T) {
	leader, left := orphanGroup(t, nil)
	k := newPack(t)
	k.record(append(stamped(t, leader), changed(t, leader, map[string]string{"start": fmt.Sprint(left[0].Start + 1)}))...)
	k.refuses("group_predates_run", left...)
	created, _ := left[0].CreateTime()
	k.record(append(plainly(t, leader), sidecar.Field{Name: "pid_create_time", Value: sidecar.Float(created + 0.2)})...)
	k.refuses("group_predates_run", left...)
	k.record(append(plainly(t, leader), sidecar.Field{Name: "pid_create_time", Value: sidecar.Float(created + 0.05)})...)
	k.refuses("group_ownership_unproven", left...)
}

// The leader is there, and its group or its marker is not the record's.
func TestKillLeaderElsewhere(t *testing.T) {
	k := newPack(t)
	p := session(t, scriptIdle, "other").ready()
	id := whoIs(t, p.pid)
	k.record(stamped(t, id)...)
	k.refuses("group_belongs_to_another_run", id)
	k.record(append(stamped(t, id), set("pgid", "12345"))...)
	k.refuses("leader_group_mismatch", id)
	// A clock step of whole seconds explains the difference as well as another
	// process does.
	created, _ := id.CreateTime()
	k.record(append(plainly(t, id), sidecar.Field{Name: "pid_create_time", Value: sidecar.Float(created - 3)})...)
	if reply := k.refuses("leader_identity_unreadable", id); !reply.Undecided() {
		t.Error("not undecided")
	}
	// Close enough for a look, and nothing to tell it from a successor.
	bare := whoIs(t, session(t, scriptIdle).ready().pid)
	created, _ = bare.CreateTime()
	k.record(append(plainly(t, bare), sidecar.Field{Name: "pid_create_time", Value: sidecar.Float(created - 0.02)})...)
	k.refuses("unverified_identity", bare)
}

// The leader is gone, or replaced on disk, between two looks.
func TestKillChanged(t *testing.T) {
	for _, step := range []step{stepPinned, stepDescribed, stepProved, stepLocked} {
		k := newPack(t)
		p := session(t, scriptIdle, runID).ready()
		k.record(stamped(t, whoIs(t, p.pid))...)
		k.at(step, p.reap)
		k.refuses("leader_identity_changed")
	}
	k := newPack(t)
	id := whoIs(t, session(t, scriptIdle, runID).ready().pid)
	other := whoIs(t, session(t, scriptIdle, runID).ready().pid)
	k.record(stamped(t, id)...)
	k.at(stepProved, func() { k.record(stamped(t, other)...) })
	reply := k.kill(KillOptions{})
	if reply.ReasonCode != "leader_identity_changed" || reply.Killed {
		t.Errorf("reply is %+v", reply)
	}
	k.record(stamped(t, id)...)
	k.at(stepProved, func() { os.Remove(k.path()) })
	reply = k.kill(KillOptions{})
	if reply.ReasonCode != "no_such_job" || reply.Killed {
		t.Errorf("reply is %+v", reply)
	}
	mustLive(t, id, other)
}

// A group that the recorded process does not lead: its members must carry the
// marker, every one of which is then signalled for itself.
func TestKillNotLeading(t *testing.T) {
	k := newPack(t)
	p := session(t, `exec 3<&0; (exec cat <&3 >/dev/null) & echo $!; echo ready; cat >/dev/null`, runID)
	member := p.member()
	p.ready()
	leader, id := whoIs(t, p.pid), whoIs(t, member)
	fields := append(stamped(t, id), set("pgid", fmt.Sprint(p.pid)))
	k.record(fields...)
	want(t, k.kill(patient), "signalled", sidecar.CleanupCompleted, sidecar.RemainsNone, false)
	mustBeGone(t, leader, id)

	bare := session(t, `exec 3<&0; cat <&3 >/dev/null & echo $!; echo ready; cat >/dev/null`)
	inner := whoIs(t, bare.member())
	outer := whoIs(t, bare.ready().pid)
	for _, age := range []struct {
		start uint64
		code  string
	}{{outer.Start, "group_ownership_unproven"}, {outer.Start + 1, "group_predates_run"}} {
		older := target{stamped: inner, runID: runID}
		older.stamped.Start = age.start
		if code := older.judge([]jobprobe.Member{{Identity: outer, Marker: jobprobe.MarkerNone}}, true); code != age.code {
			t.Errorf("judged %s, want %s", code, age.code)
		}
	}
	k.record(append(stamped(t, inner), set("pgid", fmt.Sprint(bare.pid)))...)
	if reply := k.kill(KillOptions{}); reply.Killed {
		t.Errorf("reply is %+v", reply)
	}
	mustLive(t, inner, outer)
}

// Never the group of the one who asks, nor that of the leader of its session.
func TestKillOwnGroup(t *testing.T) {
	want := []string{"own_group", "own_group", "alive"}
	got := killStage(t, &syscall.SysProcAttr{Setsid: true}, "kill-own")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// killOwnStage leads a session. It asks for its own group, and lets a child in
// another group of the session ask for it.
func killOwnStage(s *testproc.Stage) {
	k := newPack(s)
	self := whoIs(s, os.Getpid())
	k.record(stamped(s, self)...)
	s.Say("%s", k.refuses("own_group", self).ReasonCode)
	for _, line := range killStage(s, &syscall.SysProcAttr{Setpgid: true}, "kill-own-from", k.Store.Dir) {
		s.Say("%s", line)
	}
	s.Say("alive")
}

func killOwnFromStage(s *testproc.Stage) {
	k := &pack{New(s.Args[0]), s}
	s.Say("%s", k.kill(KillOptions{}).ReasonCode)
}

// nobody owns what root does not.
const nobody = 65534

func as(uid uint32, attr syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	return &attr
}

// Root acts for the owner of the record, and only on that user's processes.
func TestKillNotOwner(t *testing.T) {
	needRoot(t)
	k := newPack(t)
	p := hunt(t, as(nobody, syscall.SysProcAttr{Setsid: true}), scriptIdle, runID).ready()
	theirs := whoIs(t, p.pid)
	k.record(stamped(t, theirs)...)
	k.refuses("not_owner", theirs)
	mine := whoIs(t, session(t, scriptIdle, runID).ready().pid)
	k.record(stamped(t, mine)...)
	chown(t, k.path())
	k.refuses("not_owner", mine)
	k.record(stamped(t, theirs)...)
	want(t, k.kill(patient), "signalled", sidecar.CleanupCompleted, sidecar.RemainsSome, false) // mine has the marker
	mustBeGone(t, theirs)
	mustLive(t, mine)
}

// Of a group that holds another user's process, only the owner's are
// signalled, and the reply does not say that the group is gone.
func TestKillMixedOwners(t *testing.T) {
	needRoot(t)
	k := newPack(t)
	p := hunt(t, as(nobody, syscall.SysProcAttr{Setpgid: true}), scriptIdle, runID).ready()
	theirs := whoIs(t, p.pid)
	root := whoIs(t, hunt(t, &syscall.SysProcAttr{Setpgid: true, Pgid: p.pid}, scriptIdle, runID).ready().pid)
	k.record(stamped(t, theirs)...)
	chown(t, k.path())
	reply := k.kill(KillOptions{Grace: 1, Verify: 1})
	want(t, reply, "signalled", sidecar.CleanupTimedOut, sidecar.RemainsUnknown, reply.Escalated)
	mustBeGone(t, theirs)
	mustLive(t, root)
	// What is left is nobody's that the record may name.
	k.refuses("not_owner", root)
}

func chown(t *testing.T, path string) {
	t.Helper()
	if err := os.Chown(path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
}

// A user without privilege, in a world that hides other users' processes or
// lets nothing of theirs be touched.
func TestKillUnprivileged(t *testing.T) {
	needRoot(t)
	for _, setups := range []string{"drop", "proc=hidepid=1,drop", "proc=hidepid=2,drop"} {
		got := killStage(t, testproc.PIDs, "kill-hidden", setups)
		if diff := cmp.Diff([]string{"group_scan_incomplete undecided"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", setups, diff)
		}
	}
	want := []string{"root's leader: permission_denied"}
	if diff := cmp.Diff(want, killStage(t, nil, "kill-denied")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// killHiddenStage asks, as nobody, for a group of which only a process of root
// is left. The record is made readable to nobody first.
func killHiddenStage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	k := newPack(s)
	leader, left := orphanGroup(s, []string{runID})
	k.record(stamped(s, leader)...)
	k.open()
	testproc.Prepare(s, s.Args[0])
	reply := k.refuses("group_scan_incomplete")
	if err := syscall.Kill(int(left[0].PID), 0); err != syscall.EPERM {
		s.Fatalf("the member did not survive: %v", err)
	}
	s.Say("%s%s", reply.ReasonCode, undecidedWord(&reply))
}

func undecidedWord(r *KillReply) string {
	if r.Undecided() {
		return " undecided"
	}
	return ""
}

// open lets everybody read the record.
func (k *pack) open() {
	k.t.Helper()
	for path := k.path(); len(path) > len(os.TempDir()); path = filepath.Dir(path) {
		mode := os.FileMode(0o755)
		if path == k.path() {
			mode = 0o644
		}
		if err := os.Chmod(path, mode); err != nil {
			k.t.Fatalf("%v", err)
		}
	}
}

func killDeniedStage(s *testproc.Stage) {
	k := newPack(s)
	id := whoIs(s, session(s, scriptIdle, runID).ready().pid)
	k.record(stamped(s, id)...)
	k.open()
	testproc.Prepare(s, "drop")
	s.Say("root's leader: %s", k.refuses("permission_denied", id).ReasonCode)
}

// Without pidfds everything is done by numbers, each of them confirmed.
func TestKillNoHandle(t *testing.T) {
	want := []string{
		"leader: signalled completed true", "orphan: signalled completed true",
		"recycled: pid_recycled", "gone: group_gone",
	}
	if diff := cmp.Diff(want, killStage(t, nil, "kill-nohandle")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func killNoHandleStage(s *testproc.Stage) {
	testproc.Prepare(s, "deny=pidfd_open:ENOSYS")
	k := newPack(s)
	p := session(s, scriptDeaf, runID)
	ids := []jobprobe.Identity{whoIs(s, p.member()), whoIs(s, p.ready().pid)}
	k.record(stamped(s, ids[1])...)
	say := func(name string) {
		reply := k.kill(hasty)
		s.Say("%s: %s %s %t", name, reply.ReasonCode, reply.Cleanup, reply.Escalated)
	}
	say("leader")
	mustBeGone(s, ids...)
	leader, left := orphanGroup(s, []string{runID}, []string{runID})
	k.record(stamped(s, leader)...)
	reply := k.kill(patient)
	s.Say("orphan: %s %s %t", reply.ReasonCode, reply.Cleanup, !reply.Escalated)
	mustBeGone(s, left...)
	live := whoIs(s, session(s, scriptIdle, runID).ready().pid)
	other := live
	other.Start++
	k.record(stamped(s, other)...)
	s.Say("recycled: %s", k.refuses("pid_recycled", live).ReasonCode)
	k.record(stamped(s, leader)...)
	s.Say("gone: %s", k.refuses("group_gone", live).ReasonCode)
}

// What goes blind between two looks signals nothing, where the kernel would not
// check the user of what is signalled either.
func TestKillBlind(t *testing.T) {
	needRoot(t)
	for setups, want := range map[string]string{
		"deny=pidfd_open:EMFILE,deny=openat:EACCES": "leader_group_unreadable",
		"deny=openat:EACCES":                        "leader_identity_unreadable",
	} {
		got := killStage(t, nil, "kill-blind", setups)
		if diff := cmp.Diff([]string{want + " undecided"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", setups, diff)
		}
	}
}

func killBlindStage(s *testproc.Stage) {
	k := newPack(s)
	id := whoIs(s, session(s, scriptIdle, runID).ready().pid)
	if id.Uniq == 0 {
		s.Skipf("this kernel has no pidfs (Linux 6.9)")
	}
	k.record(stamped(s, id)...)
	k.at(stepPinned, func() { testproc.Prepare(s, s.Args[0]) })
	reply := k.kill(KillOptions{})
	if reply.Killed {
		s.Fatalf("reply is %+v", reply)
	}
	if err := syscall.Kill(int(id.PID), 0); err != nil {
		s.Fatalf("the job did not survive: %v", err)
	}
	s.Say("%s%s", reply.ReasonCode, undecidedWord(&reply))
}
