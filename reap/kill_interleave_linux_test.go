package reap

import (
	"context"
	"sync"
	"testing"

	"github.com/jobprobe/jobprobe/sidecar"
)

// Somebody observes the job at each step of a kill, while its process lives
// until the signal comes, and when it dies at that step: the end is the kill's
// if the signal was sent, else the observer's, and never both.
func TestPoint4KillAndObserver(t *testing.T) {
	reachedSteps := 0
	for when := range stepAimed + 1 {
		for _, dies := range []bool{false, true} {
			k := newPack(t)
			p := session(t, scriptIdle, runID).ready()
			k.record(append(stamped(t, whoIs(t, p.pid)), set("kept", "1.50"))...)
			other := k.Observer
			var looking sync.WaitGroup
			reached := false
			k.at(when, func() {
				reached = true
				if dies {
					p.reap()
				}
				look := func() {
					if _, err := other.Status(context.Background(), runID); err != nil {
						t.Error(err)
					}
				}
				if when == stepLocked { // until the kill gives the lock back
					looking.Go(look)
				} else {
					look()
				}
			})
			reply := k.kill(patient)
			looking.Wait()
			if !reached { // of another writer, or another kind of group
				p.reap()
				continue
			}
			reachedSteps++
			p.reap()
			job, err := other.Status(t.Context(), runID)
			must(t, err)
			source, status, outcome := sidecar.SourceReaper, "exited", sidecar.Indeterminate
			if reply.Killed {
				source, status, outcome = sidecar.SourceKill, "killed", sidecar.Cancelled
			}
			if string(job.TerminalSource) != `"`+source+`"` || job.Status != status || str(job.Outcome) != outcome || reply.Recorded != reply.Killed {
				t.Errorf("step %d, dies %t: killed %t, recorded %t, and on record is %s by %s", when, dies, reply.Killed, reply.Recorded, job.Status, job.TerminalSource)
			}
			if before := when <= stepLocked && when != stepDue && when != stepWritten; reply.Killed != (!dies || !before) {
				t.Errorf("step %d, dies %t: %s", when, dies, reply.ReasonCode)
			}
			if got, _ := k.Store.Read(runID).Record.Raw("kept"); string(got) != "1.50" {
				t.Errorf("a field of nobody's is %s", got)
			}
		}
	}
	if reachedSteps != 14 {
		t.Errorf("%d steps were reached with a process that lives or dies, want 14", reachedSteps)
	}
}
