package jobprobe

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// otherUniq and otherStart are the identities of processes that never were.
func otherUniq(id Identity) Identity {
	id.Uniq++
	return id
}

func otherStart(id Identity) Identity {
	id.Start++
	return id
}

// L7: the unique number differs.
func TestL7(t *testing.T) {
	needPidfs(t)
	zombie, dead := child(t)
	_, live := child(t)
	expect(t, "live", otherUniq(live), "pid_recycled")
	zombie.Zombie(t)
	expect(t, "zombie", otherUniq(dead), "pid_recycled")
	hidden := []ask{{otherUniq(live), "pid_recycled"}, {otherUniq(dead), "pid_recycled"}}
	prober{testproc.Mounts, "proc=hidepid=2,drop", hidden}.run(t)
	prober{nil, "timens=100000", hidden}.run(t)

	other := otherUniq(live)
	other.UniqKind = "another kind" // not comparable: the ticks decide
	expect(t, "another kind", other, "identity_confirmed weak")
	other.UniqKind = ""
	expect(t, "no kind", other, "identity_confirmed weak")
}

// L8: the unique number is equal and the process has not exited; nothing else
// is asked.
func TestL8(t *testing.T) {
	needPidfs(t)
	_, live := child(t)
	expect(t, "live", live, "identity_confirmed")
	expect(t, "own", identify(t, int(live.PID)), "identity_confirmed")
	expect(t, "ticks differ", otherStart(live), "identity_confirmed")
	noTicks := live
	noTicks.Start, noTicks.StartUnit = 0, ""
	expect(t, "no ticks", noTicks, "identity_confirmed")
	alive := []ask{{live, "identity_confirmed"}}
	prober{testproc.Mounts, "proc=hidepid=1,drop", alive}.run(t)
	prober{testproc.Mounts, "proc=hidepid=2,drop", alive}.run(t)
	prober{testproc.Mounts, "proc=hidepid=4,drop", alive}.run(t)
	prober{testproc.Mounts, "scope,umount-proc", alive}.run(t)
	prober{nil, "timens=100000", alive}.run(t)
	prober{nil, "deny=kill:EPERM", alive}.run(t)
	prober{nil, "scope,deny=openat:EACCES", alive}.run(t)

	var names []string
	v := Probe(live)
	for _, c := range v.Evidence.Calls() {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"pidfd_open", "fstat pidfd", "ppoll pidfd"}, names); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// L9: the unique number is equal and the whole group has exited.
func TestL9(t *testing.T) {
	needPidfs(t)
	c, id := child(t)
	c.Zombie(t)
	expect(t, "zombie", id, "disappeared_during_probe exited_unreaped")
	expect(t, "identified now", identify(t, c.PID), "disappeared_during_probe exited_unreaped")
	if got := identify(t, c.PID); got != id {
		t.Errorf("a zombie's identity is %+v, was %+v", got, id)
	}
	c.Kill()
	expect(t, "collected", id, "pid_absent")
}

// L10: as L9, but stat is denied or hidden; several fresh pidfds must agree.
func TestL10(t *testing.T) {
	needPidfs(t)
	c, id := child(t)
	live, liveID := child(t)
	defer live.End()
	c.Zombie(t)
	for _, hide := range []string{"1", "2", "4"} {
		prober{testproc.Mounts, "proc=hidepid=" + hide + ",drop", []ask{
			{id, "disappeared_during_probe exited_unreaped"}, {liveID, "identity_confirmed"},
		}}.run(t)
	}
	// With no descriptor to be had, the pidfds cannot agree.
	prober{nil, "scope,deny=openat:EMFILE", []ask{{id, "identity_unreadable"}}}.run(t)
}

// L11: the number is a thread's, or the kernel says so in its own way.
func TestL11(t *testing.T) {
	id := identify(t, os.Getpid())
	id.PID = int64(testproc.ThreadID(t))
	for _, id := range []Identity{id, ticksOnly(id), noStamp(id)} {
		expect(t, "thread of this process", id, "pid_absent")
	}
	_, live := child(t)
	for _, errno := range []string{"EINVAL", "ENOENT"} {
		prober{nil, "deny=pidfd_open:" + errno, []ask{
			{live, "identity_confirmed weak"},
			{otherStart(live), "pid_recycled"},
			{id, "pid_absent"},
			{noStamp(live), "identity_not_recorded"},
			{reaped(t), "disappeared_during_probe"}, // something was there, it said
		}}.run(t)
	}
	if _, err := Identify(int(id.PID)); err == nil {
		t.Error("a thread was identified")
	}
}

// L12: pidfd_open says nothing about the number; ticks and kill decide.
func TestL12(t *testing.T) {
	_, live := child(t)
	zombie, dead := child(t)
	leader := testproc.Start(t, nil, "dead-leader")
	leaderID := identify(t, leader.PID)
	zombie.Zombie(t)
	gone := reaped(t)
	thread := live
	thread.PID = int64(testproc.ThreadID(t))
	for _, errno := range []string{"EPERM", "ENOSYS", "ENODEV", "EIO"} {
		prober{nil, "deny=pidfd_open:" + errno, []ask{
			{live, "identity_confirmed weak"},
			{otherStart(live), "pid_recycled"},
			{noStamp(live), "identity_not_recorded"},
			{dead, "disappeared_during_probe exited_unreaped"},
			{leaderID, "identity_confirmed weak"},
			{gone, "pid_absent"},
			{thread, "pid_absent"},
		}}.run(t)
	}
	// The kernel itself could be out of these while the scope is made.
	for _, errno := range []string{"EMFILE", "ENFILE", "ENOMEM"} {
		prober{nil, "scope,deny=pidfd_open:" + errno, []ask{
			{live, "identity_confirmed weak"}, {gone, "pid_absent"},
		}}.run(t)
		prober{nil, "deny=pidfd_open:" + errno, []ask{
			{live, "probe_environment_unusable"}, {gone, "probe_environment_unusable"},
		}}.run(t)
	}
}

// Rule 3 of the truth table: where a filter answers EPERM to kill, neither
// existence nor absence follows.
func TestKillFiltered(t *testing.T) {
	_, live := child(t)
	gone := reaped(t)
	for _, errno := range []string{"EPERM", "ENOSYS", "EINVAL", "EIO"} {
		prober{nil, "deny=pidfd_open:ENOSYS,deny=kill:" + errno, []ask{
			{live, "identity_confirmed weak"}, {gone, "access_denied"},
			{otherStart(live), "pid_recycled"},
		}}.run(t)
		prober{nil, "scope,deny=pidfd_open:EPERM,deny=openat:EACCES,deny=kill:" + errno, []ask{
			{live, "access_denied"}, {gone, "access_denied"},
		}}.run(t)
	}
}
