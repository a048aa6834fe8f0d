package jobprobe

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// L13: the ticks differ, in one time namespace.
func TestL13(t *testing.T) {
	_, live := child(t)
	expect(t, "false start", otherStart(ticksOnly(live)), "pid_recycled")
	earlier := ticksOnly(live)
	earlier.Start--
	expect(t, "false start", earlier, "pid_recycled")
	unscoped := Identity{PID: live.PID, Start: live.Start + 1, StartUnit: startUnit}
	expect(t, "no scope: taken as local", unscoped, "pid_recycled")
	unscoped.Start--
	expect(t, "no scope: taken as local", unscoped, "identity_confirmed weak")
}

// L14: ticks of another time namespace cannot be compared, equal or not.
func TestL14(t *testing.T) {
	_, live := child(t)
	dead, id := child(t)
	dead.Zombie(t)
	shifted := ticksOnly(live)
	shifted.Start += 100000 * 100 // what the prober will read
	prober{nil, "timens=100000", []ask{
		{ticksOnly(live), "foreign_time_namespace"},
		{shifted, "foreign_time_namespace"},
		{ticksOnly(id), "disappeared_during_probe exited_unreaped"},
		{reaped(t), "pid_absent"},
	}}.run(t)
	prober{nil, "timens=100000,deny=pidfd_open:ENOSYS", []ask{
		{live, "foreign_time_namespace"}, {reaped(t), "pid_absent"},
	}}.run(t)
	other := ticksOnly(live)
	for _, ns := range []uint64{0, live.TimeNS + 1} {
		other.TimeNS = ns
		expect(t, "namespace "+strconv.FormatUint(ns, 10), other, "foreign_time_namespace")
	}
	other = live
	other.TimeNS = 0
	if live.Uniq != 0 {
		expect(t, "pidfs needs no time namespace", other, "identity_confirmed")
	}
}

// L15: the ticks are equal and the process runs.
func TestL15(t *testing.T) {
	_, live := child(t)
	expect(t, "live", ticksOnly(live), "identity_confirmed weak")
	expect(t, "self", ticksOnly(identify(t, os.Getpid())), "identity_confirmed weak")
	prober{testproc.Mounts, "drop", []ask{{ticksOnly(live), "identity_confirmed weak"}}}.run(t)
}

// L16: the ticks are equal and the whole group has exited.
func TestL16(t *testing.T) {
	c, id := child(t)
	c.Zombie(t)
	expect(t, "zombie", ticksOnly(id), "disappeared_during_probe exited_unreaped")
	c.Kill()
	expect(t, "collected", ticksOnly(id), "pid_absent")
}

// L17: the first thread has ended and others run: state Z, and alive.
func TestL17(t *testing.T) {
	c := testproc.Start(t, nil, "dead-leader")
	id := identify(t, c.PID)
	expect(t, "ticks", ticksOnly(id), "identity_confirmed weak")
	expect(t, "no stamp", noStamp(id), "identity_not_recorded")
	if id.Uniq != 0 {
		expect(t, "pidfs", id, "identity_confirmed")
	}
	v := Probe(ticksOnly(id))
	calls := v.Evidence.Calls()
	if last := calls[len(calls)-1]; last.State != 'Z' || last.Threads < 2 {
		t.Errorf("the leader is not dead: %+v", last)
	}
	c.End()
	c.Exited(t)
	expect(t, "exited", ticksOnly(id), "disappeared_during_probe exited_unreaped")
	if code := c.Wait(); code != 7 {
		t.Errorf("exit code %d", code)
	}
}

// L18: a stat line that is a moment of an execve, an emulator's invention, or
// no line at all. None of it takes part in a comparison.
func TestL18(t *testing.T) {
	_, live := child(t)
	id := Identity{PID: live.PID, Start: 63348, StartUnit: startUnit}
	for name, stat := range map[string]string{
		"no threads":              statLine("x", "R", "0", "63348"),
		"no threads, dead":        statLine("x", "Z", "0", "63348"),
		"no threads, other start": statLine("x", "Z", "0", "63349"),
		"state 0":                 statLine("x", "0", "1", "63348"),
		"state 0, other start":    statLine("x", "0", "0", "63349"),
		"X with threads":          statLine("x", "X", "2", "63348"),
		"X, threads, other start": statLine("x", "X", "2", "63349"),
		"empty":                   "",
		"short":                   "7 (x) S 1 7 7 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0",
		"start cut":               "7 (x) S 1 7 7 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 6334",
		"no name":                 "7 S 1 7 7 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 63348 0",
		"start zero":              statLine("x", "S", "1", "0"),
		"start no number":         statLine("x", "S", "1", "6e4"),
	} {
		v := probeFake(t, id, stat)
		if got := verdict(v); got != "identity_unreadable" {
			t.Errorf("%s: got %q\n%s", name, got, receipt(v))
		}
	}
	if got := verdict(probeFake(t, id, statLine("x", "S", "1", "63348"))); got != "identity_confirmed weak" {
		t.Errorf("a plain line: got %q", got)
	}
	if got := verdict(probeFake(t, id, statLine("x", "S", "1", "63349"))); got != "pid_recycled" {
		t.Errorf("another start: got %q", got)
	}
}

// L19: the stat file was opened, and its process is gone when it is read; that
// stays so when the number is used again.
func TestL19(t *testing.T) {
	lines := testproc.Play(t, testproc.PIDs, "held-stat")
	want := []string{"after reap: ESRCH", "after recycle: ESRCH"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The verdict, with every read answering as that one.
	_, live := child(t)
	prober{nil, "scope,deny=read:ESRCH", []ask{
		{ticksOnly(live), "disappeared_during_probe"},
		{otherStart(ticksOnly(live)), "disappeared_during_probe"},
	}}.run(t)
}

// heldStatStage holds a stat file while its process is collected and while
// the number passes to another.
func heldStatStage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	sc, err := currentScope()
	if err != nil {
		s.Fatalf("%v", err)
	}
	var fd int
	var buf [1024]byte
	read := func(when string) string {
		_, errno := readOnce(fd, buf[:])
		return when + ": " + errnoName(uint32(errno))
	}
	var lines []string
	testproc.Recycle(s, func(c *testproc.Child) {
		var errno unix.Errno
		if fd, errno = openProc(sc.os.proc, c.PID, "/stat"); errno != 0 {
			s.Fatalf("open: %v", errno)
		}
	}, func() { lines = []string{read("after reap")} })
	for _, line := range append(lines, read("after recycle")) {
		s.Say("%s", line)
	}
}
