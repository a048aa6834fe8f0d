package reap

import (
	"slices"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Of a job whose end is on record nothing is taken for gone that cannot be told,
// unless its end was that it was seen gone, and nothing here can tell more.
func TestDrainOfEndedJobsNotTold(t *testing.T) {
	for _, c := range []struct {
		source  string
		finding jobprobe.Finding
		outcome DrainOutcome
		remains bool
	}{
		{sidecar.SourceHook, jobprobe.AccessDenied, DrainDeadline, true},
		{sidecar.SourceHook, jobprobe.ForeignPIDNamespace, DrainDeadline, true},
		{sidecar.SourceKill, jobprobe.IdentityUnreadable, DrainDeadline, true},
		{sidecar.SourceSupervisor, jobprobe.AccessDenied, DrainDeadline, true},
		{sidecar.SourceSupervisor, jobprobe.ForeignPIDNamespace, DrainClean, false},
		{sidecar.SourceHook, jobprobe.ForeignHost, DrainClean, false},
	} {
		w := newWorld(t)
		w.seen[childPID] = c.finding
		w.putRecord(started(set("status", `"completed"`), set("terminal_source", `"`+c.source+`"`),
			set("finished_at", `"2026-08-01T00:01:00+00:00"`)))
		d, err := w.Drain(t.Context(), DrainOptions{Timeout: 500 * time.Millisecond})
		if err != nil || d.Outcome != c.outcome || slices.Contains(d.Remaining, runID) != c.remains {
			t.Errorf("%s, %v: %+v, %v", c.source, c.finding, d, err)
		}
	}
}
