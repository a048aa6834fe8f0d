package jobprobe

import (
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// The comparison of two epoch start times, of which either may have been moved
// by the clock. The live process started at 1764540601.37.
func TestClassifyEpoch(t *testing.T) {
	const live = 1764540601.37
	for _, whole := range []bool{true, false} {
		// byFraction is the answer where only the fraction of a second can
		// tell, which it does where boot time has none.
		byFraction := IdentityUnreadable
		if whole {
			byFraction = PIDRecycled
		}
		testClassifyEpoch(t, live, whole, byFraction)
	}
}

func testClassifyEpoch(t *testing.T, live float64, whole bool, byFraction Finding) {
	for name, c := range map[string]struct {
		created float64
		pgid    int64
		session int64
		runID   string
		marked  bool
		want    Finding
	}{
		"equal":                  {created: live, want: IdentityConfirmed},
		"0.05 before":            {created: live - 0.05, want: IdentityConfirmed},
		"0.09 after":             {created: live + 0.09, want: IdentityConfirmed},
		"step +1":                {created: live + 1, want: IdentityUnreadable},
		"step +2":                {created: live + 2, want: IdentityUnreadable},
		"step +60":               {created: live + 60, want: IdentityUnreadable},
		"step +3600":             {created: live + 3600, want: IdentityUnreadable},
		"step -1":                {created: live - 1, want: IdentityUnreadable},
		"step -10^9":             {created: live - 1e9, want: IdentityUnreadable},
		"another hundredth":      {created: live + 0.11, want: byFraction},
		"half a second":          {created: live - 0.5, want: byFraction},
		"step and hundredth":     {created: live + 3600.01, want: byFraction},
		"step less a hundredth":  {created: live + 3599.99, want: byFraction},
		"other, marked":          {created: live + 7.77, runID: "r", marked: true, want: IdentityConfirmed},
		"other, marker of none":  {created: live + 7.77, marked: true, want: byFraction},
		"other, not marked":      {created: live + 7.77, runID: "r", want: byFraction},
		"step, marked":           {created: live + 60, runID: "r", marked: true, want: IdentityConfirmed},
		"step, no session":       {created: live + 60, pgid: 9, session: 4, want: PIDRecycled},
		"step, own session":      {created: live + 60, pgid: 9, session: 9, want: IdentityUnreadable},
		"step, session unread":   {created: live + 60, pgid: 9, session: 0, want: IdentityUnreadable},
		"step, ran in another":   {created: live + 60, pgid: 8, session: 4, want: IdentityUnreadable},
		"step, group unrecorded": {created: live + 60, pgid: 0, session: 4, want: IdentityUnreadable},
	} {
		id := EpochIdentity{PID: 9, Created: c.created, PGID: c.pgid, RunID: c.runID}
		if got := classifyEpoch(&id, live, whole, c.session, func() bool { return c.marked }); got != c.want {
			t.Errorf("%s, whole seconds %v: got %v, want %v", name, whole, got, c.want)
		}
	}
}

// A clock step of whole seconds, whichever and whenever, never ends a run.
func TestClassifyEpochSteps(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ticks := rapid.Int64Range(1, 1<<40).Draw(r, "ticks")
		boot := rapid.Int64Range(1e9, 4e9).Draw(r, "boot time")
		step := rapid.Int64Range(-2e9, 2e9).Draw(r, "step")
		recorded := float64(ticks)/100 + float64(boot)
		live := float64(ticks)/100 + float64(boot+step)
		id := EpochIdentity{PID: 9, Created: recorded, PGID: 9}
		got := classifyEpoch(&id, live, true, 9, func() bool { return false })
		want := IdentityUnreadable
		if step == 0 {
			want = IdentityConfirmed
		}
		if got != want {
			r.Fatalf("step %d: %v", step, got)
		}
	})
}

// What cannot be a start time confirms nothing and ends nothing.
func TestEpochUnusable(t *testing.T) {
	for _, created := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, -0.1, -math.MaxFloat64} {
		v := ProbeEpoch(EpochIdentity{PID: int64(os.Getpid()), Created: created})
		if v.Finding != IdentityUnusable || v.Conclusion != Alive {
			t.Errorf("%v: %v", created, v.Finding)
		}
	}
	for _, created := range []float64{0, math.Copysign(0, -1)} {
		if v := ProbeEpoch(EpochIdentity{PID: int64(os.Getpid()), Created: created}); v.Finding != IdentityNotRecorded {
			t.Errorf("%v: %v", created, v.Finding)
		}
	}
	for _, created := range []float64{math.MaxFloat64, 1e300, math.SmallestNonzeroFloat64} {
		v := ProbeEpoch(EpochIdentity{PID: int64(os.Getpid()), Created: created})
		if v.Finding != IdentityUnreadable && v.Finding != PIDRecycled {
			t.Errorf("%v: %v", created, v.Finding)
		}
	}
}
