package reap

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// aged is a preparing record of this age, by the world's clock.
func aged(w *world, id string, age time.Duration) {
	w.putRecord(started(set("run_id", `"`+id+`"`), set("pid", "null"), set("process_identity", "null"),
		set("spawn_state", `"preparing"`), set("submitted_at", `"`+sidecar.FormatTime(w.now().Add(-age))+`"`)))
}

// jobAs is a started record of a process of which probes find f.
func jobAs(w *world, id string, pid int64, f jobprobe.Finding, more ...sidecar.Field) {
	rec := started(append([]sidecar.Field{set("run_id", `"`+id+`"`), set("process_identity", process(pid))}, more...)...)
	rec.Set("pid", sidecar.Int(pid))
	w.sees(pid, f)
	w.putRecord(rec)
}

// Every kind of answer in one wait: the lists are disjoint, in the order
// given, duplicates and all.
func TestPoint6MixedWait(t *testing.T) {
	w := newWorld(t)
	jobAs(w, "lost", 11, jobprobe.PIDRecycled)
	jobAs(w, "alive", 12, jobprobe.IdentityConfirmed)
	jobAs(w, "unknown", 13, jobprobe.ForeignHost)
	jobAs(w, "unusable", 14, jobprobe.UnusablePID)
	jobAs(w, "done", 15, jobprobe.PIDAbsent, set("finished_at", `"2026-08-01T00:00:09+00:00"`), set("status", `"completed"`))
	jobAs(w, "failed", 16, jobprobe.PIDAbsent, set("spawn_state", `"failed"`))
	aged(w, "fresh", 300*time.Second)
	aged(w, "stuck", 601*time.Second)
	aged(w, "future", -time.Hour)
	w.put("damaged", "{")
	w.put("shape", "[]")
	ids := []string{
		"unusable", "alive", "lost", "stuck", "nobody", "done", "", "damaged", "alive", "fresh", "../done", "unknown",
		"future", "failed", "shape", "unusable", "   ", "stuck", "nobody",
	}
	got := w.look1(ids...)
	sorted := map[string][]string{
		"pending": got.Pending, "stopped": got.StoppedWithoutEnd, "unresolved": got.UnresolvedSpawn,
	}
	want := map[string][]string{
		"pending": {"alive", "alive", "fresh", "unknown", "future"},
		"stopped": {"unusable", "unusable"}, "unresolved": {"stuck", "stuck"},
	}
	if diff := cmp.Diff(want, sorted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var asked, errs []string
	for _, run := range got.Runs {
		asked = append(asked, run.RunID)
		switch {
		case run.Error != nil:
			errs = append(errs, run.RunID+" "+run.Error.Kind)
		case run.Terminal != slices.Contains([]string{"lost", "done", "failed"}, run.RunID):
			t.Errorf("%s: terminal %v", run.RunID, run.Terminal)
		}
	}
	if diff := cmp.Diff(ids, asked); diff != "" {
		t.Errorf("order (-asked +answered):\n%s", diff)
	}
	wantErrs := []string{
		"nobody not_found", " invalid_input", "damaged record_unusable", "../done invalid_input",
		"shape record_unusable", "    invalid_input", "nobody not_found",
	}
	if diff := cmp.Diff(wantErrs, errs); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if got.AllTerminal || !got.TimedOut || got.UnresolvedSpawnAfter != 600 {
		t.Errorf("all terminal %v, timed out %v, unresolved after %v", got.AllTerminal, got.TimedOut, got.UnresolvedSpawnAfter)
	}
}

// AllTerminal means that each id has a durable end, and nothing else does.
func TestPoint5AllTerminal(t *testing.T) {
	w := newWorld(t)
	jobAs(w, "lost", 11, jobprobe.PIDAbsent)
	jobAs(w, "done", 12, jobprobe.PIDAbsent, set("finished_at", `"x"`))
	jobAs(w, "unusable", 13, jobprobe.UnusablePID)
	aged(w, "stuck", time.Hour)
	for _, c := range []struct {
		ids  []string
		want bool
	}{
		{nil, true}, {[]string{"lost", "done"}, true}, {[]string{"lost", "lost"}, true}, {[]string{"done", "unusable"}, false},
		{[]string{"stuck"}, false}, {[]string{"done", "nobody"}, false}, {[]string{""}, false},
	} {
		got := w.look1(c.ids...)
		if got.AllTerminal != c.want || got.TimedOut || got.Runs == nil || got.Pending == nil {
			t.Errorf("%q: all terminal %v, timed out %v", c.ids, got.AllTerminal, got.TimedOut)
		}
	}
}

// A window of 0 looks once and does not sleep.
func TestWaitZeroWindow(t *testing.T) {
	for _, f := range []jobprobe.Finding{jobprobe.ForeignHost, jobprobe.UnusablePID, jobprobe.PIDAbsent} {
		w := newWorld(t)
		jobAs(w, "job", 11, f)
		got, err := w.Wait(t.Context(), []string{"job"}, WaitOptions{MaxWait: 0, Poll: 0.05})
		if err != nil || w.asked(11) != 1 || got.AllTerminal != (f == jobprobe.PIDAbsent) {
			t.Errorf("%v: %v, %d looks, all terminal %v", f, err, w.asked(11), got.AllTerminal)
		}
	}
}

// A job that seems to have stopped, or never to start, is looked at exactly
// once more, and then no longer waited for.
func TestWaitStoppedCostsOneLook(t *testing.T) {
	w := newWorld(t)
	jobAs(w, "unusable", 11, jobprobe.UnusablePID)
	got, err := w.Wait(t.Context(), []string{"unusable"}, WaitOptions{MaxWait: 600, Poll: 0.05})
	if err != nil || w.asked(11) != 2 || len(got.StoppedWithoutEnd) != 1 || got.TimedOut {
		t.Errorf("%v, %d looks: %+v", err, w.asked(11), got)
	}
}

// The wait ends when the last job does, whichever way: by its record, or by
// the loss of its process.
func TestWaitUntilEnded(t *testing.T) {
	w := newWorld(t)
	jobAs(w, "hooked", 11, jobprobe.ForeignHost)
	jobAs(w, "lost", 12, jobprobe.ForeignHost)
	probe := w.probe
	w.probe = func(id jobprobe.Identity, at time.Time) jobprobe.Liveness {
		if id.PID == 12 && w.asked(12) == 2 {
			w.sees(12, jobprobe.PIDAbsent)
		}
		if id.PID == 11 && w.asked(11) == 1 {
			if _, err := w.MarkTerminal(t.Context(), "hooked", Report{Status: "completed"}); err != nil {
				t.Error(err)
			}
		}
		return probe(id, at)
	}
	got, err := w.Wait(t.Context(), []string{"lost", "hooked"}, WaitOptions{MaxWait: 600, Poll: 0.05})
	if err != nil || !got.AllTerminal || got.TimedOut {
		t.Fatalf("%v: %+v", err, got)
	}
	if lost, hooked := str(got.Runs[0].Outcome), str(got.Runs[1].Outcome); lost != sidecar.Indeterminate || hooked != sidecar.Succeeded {
		t.Errorf("outcomes %s and %s", lost, hooked)
	}
}

func TestWaitAny(t *testing.T) {
	w := newWorld(t)
	jobAs(w, "alive", 11, jobprobe.ForeignHost)
	jobAs(w, "lost", 12, jobprobe.PIDAbsent)
	got, err := w.Wait(t.Context(), []string{"alive", "lost"}, WaitOptions{MaxWait: 600, Poll: 60, Any: true})
	if err != nil || got.AllTerminal || !got.Runs[1].Terminal || got.Runs[0].Terminal {
		t.Errorf("%v: %+v", err, got)
	}
}

// The window holds although nobody gives back the locks: were it the lock's
// wait that counts, this test would run into its own deadline.
func TestWaitWindowHoldsAgainstLocks(t *testing.T) {
	w := newWorld(t)
	w.Store.LockWait = 24 * time.Hour
	ids := []string{"a", "b", "c"}
	for i, id := range ids {
		jobAs(w, id, int64(11+i), jobprobe.PIDAbsent)
		defer w.lockJob(id)()
	}
	for _, window := range []float64{0, 0.1} {
		got, err := w.Wait(t.Context(), ids, WaitOptions{MaxWait: window, Poll: 0.05})
		if err != nil || got.AllTerminal || len(got.Pending) != len(ids) {
			t.Errorf("window %v: %v, all terminal %v, pending %v", window, err, got.AllTerminal, got.Pending)
		}
	}
}

// A job is looked at no more often than asked for, whatever else its record
// names: here the process that an earlier program attached, which is gone,
// beside a run that is being prepared anew.
func TestWaitDoesNotSpin(t *testing.T) {
	w := newWorld(t)
	aged(w, runID, 0)
	rec := w.Store.Read(runID).Record
	rec.Set("process_identity", []byte(process(absentPID)))
	w.putRecord(rec)
	looks := 0
	clock := w.now()
	w.now = func() time.Time { // asked once in each look at a preparing job
		w.mu.Lock()
		looks++
		w.mu.Unlock()
		return clock
	}
	got, err := w.Wait(t.Context(), []string{runID}, WaitOptions{MaxWait: 0.5, Poll: 0.25})
	if err != nil || !got.TimedOut {
		t.Fatalf("%v: %+v", err, got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if looks > 10 {
		t.Errorf("%d looks in a window of two polls", looks)
	}
}

func TestWaitBounds(t *testing.T) {
	w := newWorld(t)
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct{ asked, poll, window, every float64 }{
		{0, 1, 0, 1}, {-5, -1, 0, 0.05}, {601, 61, 600, 60}, {inf, inf, 600, 60}, {nan, nan, 0, 0.05}, {-inf, 0, 0, 0.05},
	} {
		got, err := w.Wait(t.Context(), nil, WaitOptions{MaxWait: c.asked, Poll: c.poll})
		if err != nil || got.MaxWait != c.window || got.PollInterval != c.every {
			t.Errorf("%v, %v: %v, window %v, poll %v", c.asked, c.poll, err, got.MaxWait, got.PollInterval)
		}
		if !math.IsNaN(c.asked) && (got.RequestedMaxWait != c.asked || got.RequestedPoll != c.poll) {
			t.Errorf("requested %v and %v, answered %v and %v", c.asked, c.poll, got.RequestedMaxWait, got.RequestedPoll)
		}
	}
}

// Waiting for nothing that exists ends at once, and says which.
func TestWaitErrors(t *testing.T) {
	w := newWorld(t)
	got, err := w.Wait(t.Context(), []string{"nobody"}, WaitOptions{MaxWait: 600, Poll: 60})
	if err != nil || got.AllTerminal || got.TimedOut || got.Runs[0].Error == nil {
		t.Errorf("%v: %+v", err, got)
	}
	if _, err := w.Status(t.Context(), "../x"); !errors.Is(err, sidecar.ErrRunID) {
		t.Errorf("status of a path: %v", err)
	}
}
