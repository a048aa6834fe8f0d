package jobprobe

import (
	"testing"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// L20: /proc hides the process (hidepid 2 and 4): ENOENT is not absence.
func TestL20(t *testing.T) {
	_, root := child(t)
	_, own := child(t, "drop,dumpable=0")
	_, open := child(t, "drop,dumpable=1")
	for _, hide := range []string{"2", "4"} {
		hidden := []ask{
			{ticksOnly(root), "access_denied"},
			{otherStart(ticksOnly(root)), "access_denied"},
			{ticksOnly(own), "access_denied"}, // same user, not dumpable
			{ticksOnly(open), "identity_confirmed weak"},
		}
		prober{testproc.Mounts, "proc=hidepid=" + hide + ",drop", hidden}.run(t)
		prober{testproc.Mounts, "proc=hidepid=" + hide + ",drop,deny=pidfd_open:ENOSYS", append(hidden,
			ask{root, "access_denied"}, ask{noStamp(root), "access_denied"}, ask{reaped(t), "pid_absent"})}.run(t)
	}
}

// L20 with a zombie and no pidfd: hidden as if it were not there.
func TestL20Zombie(t *testing.T) {
	c, id := child(t)
	c.Zombie(t)
	prober{testproc.Mounts, "proc=hidepid=2,drop,deny=pidfd_open:ENOSYS", []ask{{id, "access_denied"}}}.run(t)
}

// L21: the stat file may not be opened (hidepid 1, or a policy).
func TestL21(t *testing.T) {
	_, root := child(t)
	_, own := child(t, "drop,dumpable=0")
	gone := reaped(t)
	denied := []ask{
		{ticksOnly(root), "access_denied"},
		{otherStart(ticksOnly(root)), "access_denied"},
		{ticksOnly(own), "access_denied"},
		{gone, "pid_absent"},
	}
	prober{testproc.Mounts, "proc=hidepid=1,drop", denied}.run(t)
	prober{testproc.Mounts, "proc=hidepid=1,drop,deny=pidfd_open:ENOSYS", denied}.run(t)
	for _, errno := range []string{"EACCES", "EPERM"} {
		prober{nil, "scope,deny=openat:" + errno, denied}.run(t)
		prober{nil, "scope,deny=pidfd_open:ENOSYS,deny=openat:" + errno, denied}.run(t)
	}
	// Denied before the scope could be verified.
	prober{nil, "deny=openat:EACCES", []ask{
		{root, "probe_environment_unusable"}, {gone, "probe_environment_unusable"},
	}}.run(t)
}

// L22: no descriptor, no memory: kill needs neither.
func TestL22(t *testing.T) {
	_, live := child(t)
	zombie, dead := child(t)
	zombie.Zombie(t)
	gone := reaped(t)
	starved := []ask{
		{live, "identity_unreadable"},
		{ticksOnly(live), "identity_unreadable"},
		{otherUniq(live), "identity_unreadable"},
		{noStamp(live), "identity_unreadable"},
		{dead, "identity_unreadable"},
		{gone, "pid_absent"},
	}
	prober{nil, "scope,nofile=3", starved}.run(t)
	for _, errno := range []string{"ENFILE", "ENOMEM", "EIO"} {
		prober{nil, "scope,deny=pidfd_open:EMFILE,deny=openat:" + errno, starved}.run(t)
	}
	// Starved before the first probe, the environment is not verified.
	prober{nil, "nofile=3", []ask{
		{live, "probe_environment_unusable"}, {gone, "probe_environment_unusable"},
	}}.run(t)
	// The pidfd opens and the stat file does not: the unique number suffices.
	prober{nil, "scope,deny=openat:EMFILE", []ask{
		{ticksOnly(live), "identity_unreadable"}, {gone, "pid_absent"},
	}}.run(t)
	prober{nil, "scope,deny=read:EIO", []ask{
		{ticksOnly(live), "identity_unreadable"}, {ticksOnly(dead), "identity_unreadable"}, {gone, "pid_absent"},
	}}.run(t)
}

// L23: nothing was recorded, and a live process has the number.
func TestL23(t *testing.T) {
	_, live := child(t)
	expect(t, "no stamp", noStamp(live), "identity_not_recorded")
	expect(t, "number only", Identity{PID: live.PID}, "identity_not_recorded")
	expect(t, "number and system", Identity{PID: live.PID, OS: "linux"}, "identity_not_recorded")
	unit := ticksOnly(live)
	unit.StartUnit = "filetime_100ns"
	expect(t, "another unit", unit, "identity_unusable")
	damaged, err := ParseIdentity([]byte(`{"os":"linux","pid":"` + decimal(uint64(live.PID)) + `","start":"-5","start_unit":"boot_ticks"}`))
	if err == nil {
		t.Error("a negative start was accepted")
	}
	expect(t, "damaged stamp", damaged, "identity_unusable")
	expect(t, "other system", Identity{PID: live.PID, OS: "windows", Start: 1, StartUnit: "filetime_100ns"}, "foreign_host")
	prober{testproc.Mounts, "proc=hidepid=2,drop", []ask{{noStamp(live), "identity_not_recorded"}}}.run(t)
	prober{nil, "deny=pidfd_open:ENOSYS", []ask{{noStamp(live), "identity_not_recorded"}}}.run(t)
}

// L24: nothing was recorded, and whoever has the number has exited.
func TestL24(t *testing.T) {
	c, id := child(t)
	c.Zombie(t)
	const want = "disappeared_during_probe exited_unreaped"
	expect(t, "no stamp", noStamp(id), want)
	expect(t, "number only", Identity{PID: id.PID}, want)
	unit := ticksOnly(id)
	unit.StartUnit = "unix_us"
	expect(t, "another unit", unit, want)
	prober{testproc.Mounts, "proc=hidepid=2,drop", []ask{{noStamp(id), want}}}.run(t)
	prober{nil, "deny=pidfd_open:ENOSYS", []ask{{noStamp(id), want}}}.run(t)
}

// Number 1 is a recorded process like any other when a stamp and its scope
// say so, and not askable otherwise.
func TestPID1(t *testing.T) {
	one := identify(t, 1)
	expect(t, "ticks", ticksOnly(one), map[bool]string{true: "identity_confirmed weak", false: "unusable_pid"}[one.Start != 0])
	expect(t, "false start", otherStart(ticksOnly(one)), "pid_recycled")
	expect(t, "no stamp", noStamp(one), "unusable_pid")
	expect(t, "number only", Identity{PID: 1}, "unusable_pid")
	expect(t, "no scope", Identity{PID: 1, Start: one.Start, StartUnit: startUnit}, "unusable_pid")
	if one.Uniq != 0 {
		expect(t, "pidfs", one, "identity_confirmed")
		expect(t, "false pidfs", otherUniq(one), "pid_recycled")
	}
	if v := ProbeEpoch(EpochIdentity{PID: 1, Created: 1e9}); verdict(v) != "unusable_pid" {
		t.Errorf("weak identity: %s", verdict(v))
	}
	inner := testproc.Play(t, testproc.PIDs, "recycle-self")
	if len(inner) != 1 || inner[0] != "own: identity_confirmed, false start: pid_recycled, no stamp: unusable_pid" {
		t.Errorf("as number 1 of a container: %q", inner)
	}
}

// recycleSelfStage is number 1 and probes records of number 1.
func recycleSelfStage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	own := identify(s, 1)
	strong := Probe(own)
	s.Say("own: %s, false start: %s, no stamp: %s", strong.Finding,
		Probe(otherStart(ticksOnly(own))).Finding, Probe(noStamp(own)).Finding)
}
