package jobprobe

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// A number that really changed hands, in another tick (L7, L13).
func TestRecycle(t *testing.T) {
	got := testproc.Play(t, testproc.PIDs, "recycle", "other tick")
	want := []string{"pidfs: pid_recycled", "ticks: pid_recycled", "no stamp: identity_not_recorded", "successor: identity_confirmed"}
	comparePidfs(t, want, got)
}

// Rule 4 of the truth table: same number, same tick. Only pidfs can tell; the
// ticks alone say alive, and that they are weak.
func TestRecycleSameTick(t *testing.T) {
	got := testproc.Play(t, testproc.PIDs, "recycle", "same tick")
	want := []string{"pidfs: pid_recycled", "ticks: identity_confirmed weak", "no stamp: identity_not_recorded", "successor: identity_confirmed"}
	comparePidfs(t, want, got)
}

// comparePidfs drops what only a kernel with pidfs can tell.
func comparePidfs(t *testing.T, want, got []string) {
	t.Helper()
	sc, err := currentScope()
	if err != nil {
		t.Fatal(err)
	}
	if !sc.os.pidfs {
		want[0] = "pidfs: " + want[1][len("ticks: "):]
		want[3] += " weak"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func recycleStage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	sameTick := s.Args[0] == "same tick"
	var old Identity
	for {
		between := func() {}
		if !sameTick {
			between = testproc.NextTick
		}
		next := testproc.Recycle(s, func(c *testproc.Child) { old = identify(s, c.PID) }, between)
		now := identify(s, next.PID)
		if sameTick != (now.Start == old.Start) {
			next.Kill()
			continue
		}
		s.Say("pidfs: %s", verdict(Probe(old)))
		s.Say("ticks: %s", verdict(Probe(ticksOnly(old))))
		s.Say("no stamp: %s", verdict(Probe(noStamp(old))))
		s.Say("successor: %s", verdict(Probe(now)))
		return
	}
}

// A number that passed from a process to a thread names no process (L11).
func TestThreadReuse(t *testing.T) {
	got := testproc.Play(t, testproc.PIDs, "thread-reuse")
	want := []string{"pidfs: pid_absent", "ticks: pid_absent", "no stamp: pid_absent", "identify: no such process: true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func threadReuseStage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	for range 20 {
		old := reaped(s)
		testproc.NextTick()
		if !testproc.ThreadNumbered(int(old.PID)) {
			continue
		}
		s.Say("pidfs: %s", verdict(Probe(old)))
		s.Say("ticks: %s", verdict(Probe(ticksOnly(old))))
		s.Say("no stamp: %s", verdict(Probe(noStamp(old))))
		_, err := Identify(int(old.PID))
		s.Say("identify: no such process: %t", errors.Is(err, ErrNoProcess))
		return
	}
	s.Fatalf("no thread got the number")
}

// stressTurns is how many numbers the stress test passes on.
const stressTurns = 20000

// Many numbers pass to a successor within one tick: pidfs is never wrong, and
// ticks alone never say gone of a live process.
func TestStressRecycle(t *testing.T) {
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
	needPidfs(t)
	for _, line := range testproc.Play(t, testproc.PIDs, "stress", strconv.Itoa(stressTurns)) {
		t.Log(line)
	}
}

// The same, briefly.
func TestRecycleOften(t *testing.T) {
	needPidfs(t)
	for _, line := range testproc.Play(t, testproc.PIDs, "stress", "50") {
		t.Log(line)
	}
}

// stressStage fails at the first wrong verdict and says how many ties it met.
func stressStage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	turns, err := strconv.Atoi(s.Args[0])
	if err != nil {
		s.Fatalf("%v", err)
	}
	must := func(what string, id Identity, want Finding) {
		if v := Probe(id); v.Finding != want {
			s.Fatalf("%s: got %s, want %s\n%s", what, v.Finding, want, receipt(v))
		}
	}
	ties := 0
	for range turns {
		var old Identity
		next := testproc.Recycle(s, func(c *testproc.Child) {
			old = identify(s, c.PID)
			must("before", old, IdentityConfirmed)
		}, func() { must("between", old, PIDAbsent) })
		now := identify(s, next.PID)
		must("old by pidfs", old, PIDRecycled)
		must("new by pidfs", now, IdentityConfirmed)
		must("new by ticks", ticksOnly(now), IdentityConfirmed)
		if now.Start == old.Start {
			ties++
			must("old by ticks, tied", ticksOnly(old), IdentityConfirmed)
		} else {
			must("old by ticks", ticksOnly(old), PIDRecycled)
		}
		next.Kill()
	}
	s.Say("%d numbers recycled, %d within one tick", turns, ties)
}
