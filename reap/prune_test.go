package reap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// What ended long enough ago goes, newest first, and the numbers stay; what must
// stay is left alone, and told if it is old enough.
func TestPrune(t *testing.T) {
	g := newGrave(t)
	dry := g.prune(PruneOptions{OlderThan: day, DryRun: true})
	if left := g.sound("dry run"); len(left) != len(g.old) {
		t.Errorf("a dry run left %v", left)
	}
	if _, err := os.Lstat(g.ledger().Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dry run made a ledger: %v", err)
	}
	var progress []int
	got := g.prune(PruneOptions{OlderThan: day, Progress: func(removed, all int) { progress = append(progress, removed, all) }})
	if diff := cmp.Diff(g.old, got.Removed) + cmp.Diff(g.old, dry.Removed) + cmp.Diff(dry.Kept, got.Kept); diff != "" {
		t.Error(diff)
	}
	if got := reasons(got); got != "20200101T000008-owed=notice_pending" {
		t.Errorf("kept %s", got)
	}
	if !slices.Equal(progress, []int{4, 4}) {
		t.Errorf("told of progress %v", progress)
	}
	g.bare("pruned")
	if again := g.prune(PruneOptions{OlderThan: day}); len(again.Removed) != 0 {
		t.Errorf("removed again: %v", again.Removed)
	}
	g.bare("pruned again")
}

// A store that does not exist, of a mistyped name say, is not made.
func TestPruneNoStore(t *testing.T) {
	o := New(filepath.Join(testproc.TempDir(t), "none"))
	if p, err := o.Prune(t.Context(), PruneOptions{}); err != nil || len(p.Removed)+len(p.Kept) > 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := os.Lstat(o.Store.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the store was made: %v", err)
	}
	file := New(filepath.Join(testproc.TempDir(t), "file"))
	if err := os.WriteFile(file.Store.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if p, err := file.Prune(t.Context(), PruneOptions{DryRun: dry}); err == nil {
			t.Errorf("a file is pruned: %+v", p)
		}
	}
}

// Each of these jobs is judged by one thing alone.
func TestPruneJudges(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) sidecar.Field {
		return set("finished_at", fmt.Sprintf("%q", sidecar.FormatTime(now.Add(-d))))
	}
	by := func(source string) sidecar.Field { return set("terminal_source", fmt.Sprintf("%q", source)) }
	id := set("run_id", `"job"`)
	pending := sidecar.Field{Name: "lifecycle", Value: sidecar.NewHistory()}
	for name, test := range map[string]struct {
		rec     *sidecar.Record
		finding jobprobe.Finding
		want    string // removed, nothing, or why it is kept
	}{
		"at the boundary":     {started(id, ago(time.Hour)), jobprobe.PIDAbsent, "removed"},
		"just after":          {started(id, ago(time.Hour-time.Microsecond)), jobprobe.PIDAbsent, ""},
		"just before":         {started(id, ago(time.Hour+time.Microsecond)), jobprobe.PIDAbsent, "removed"},
		"of the future":       {started(id, ago(-time.Hour)), jobprobe.PIDAbsent, ""},
		"no end":              {started(id), jobprobe.PIDAbsent, ""},
		"an empty end":        {started(id, set("finished_at", `""`)), jobprobe.PIDAbsent, ""},
		"an end of 0":         {started(id, set("finished_at", `0`)), jobprobe.PIDAbsent, ""},
		"no time":             {started(id, set("finished_at", `"2020-13-77"`)), jobprobe.PIDAbsent, ""},
		"never started":       {started(id, ago(day), set("spawn_state", `"failed"`), set("pid", "null"), set("process_identity", "null"), by(sidecar.SourceSpawn)), jobprobe.UnusablePID, "removed"},
		"unended failure":     {started(id, set("spawn_state", `"failed"`)), jobprobe.PIDAbsent, ""},
		"alive after a hook":  {started(id, ago(day), by(sidecar.SourceHook)), jobprobe.IdentityConfirmed, keptLive},
		"alive after an exit": {started(id, ago(day), by(sidecar.SourceSupervisor)), jobprobe.IdentityConfirmed, keptLive},
		"unknown after hook":  {started(id, ago(day), by(sidecar.SourceHook)), jobprobe.AccessDenied, keptUnknown},
		"attested abroad":     {started(id, ago(day), by(sidecar.SourceOperator)), jobprobe.ForeignHost, keptUnknown},
		"unknown after exit":  {started(id, ago(day), by(sidecar.SourceSupervisor)), jobprobe.AccessDenied, "removed"},
		"unknown after reap":  {started(id, ago(day), by(sidecar.SourceReaper)), jobprobe.ForeignBoot, "removed"},
		"other source":        {started(id, ago(day), by("somebody")), jobprobe.AccessDenied, keptUnknown},
		"recycled":            {started(id, ago(day), by(sidecar.SourceKill)), jobprobe.PIDRecycled, "removed"},
		"the peer's kill":     {started(id, ago(day), by(sidecar.SourceKill), set("pgid", "null")), jobprobe.PIDAbsent, "removed"},
		"owed":                {started(id, ago(day), set("notify_delivery", pendingNotice)), jobprobe.PIDAbsent, keptNotice},
		"names another":       {started(ago(day)), jobprobe.PIDAbsent, ""},
		"history, gone":       {started(id, ago(day), pending), jobprobe.PIDAbsent, "removed"},
	} {
		w := newWorld(t)
		w.now = func() time.Time { return now }
		w.sees(childPID, test.finding)
		w.sees(0, test.finding) // of a record without a process
		w.put("job", string(test.rec.Append(nil)))
		p, err := w.Prune(t.Context(), PruneOptions{OlderThan: time.Hour})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := ""
		switch {
		case len(p.Removed) == 1:
			got = "removed"
		case len(p.Kept) == 1:
			got = p.Kept[0].Reason
		}
		if _, err := os.Lstat(filepath.Join(w.Store.Dir, "job", "job.json")); got != test.want || errors.Is(err, os.ErrNotExist) != (got == "removed") {
			t.Errorf("%s: %q, want %q; the record: %v", name, got, test.want, err)
		}
	}
}

// What cannot be read is not removed.
func TestPruneDamaged(t *testing.T) {
	w := newWorld(t)
	for id, data := range map[string]string{
		"half": `{"run_id": "half", "finished_at": "2020-01-01T00:00:00+00:00"`, "shape": `[]`, "empty": "",
		"twice": `{"run_id": "twice", "finished_at": "2020-01-01T00:00:00+00:00", "finished_at": "2020-01-01T00:00:00+00:00"}`,
	} {
		w.put(id, data)
	}
	p, err := w.Prune(t.Context(), PruneOptions{})
	if err != nil || len(p.Removed) > 0 || len(p.Kept) > 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if m, err := w.Metrics(t.Context()); err != nil || m.Unusable != 4 {
		t.Errorf("%+v, %v", m, err)
	}
}

// The newest jobs stay whatever they are, and so does what is needed.
func TestPruneKeep(t *testing.T) {
	for keep, want := range map[int]int{-1: 4, 0: 4, 4: 4, 5: 3, 7: 1, 8: 0, 100: 0} {
		g := newGrave(t)
		p := g.prune(PruneOptions{OlderThan: day, Keep: keep})
		if diff := cmp.Diff(g.old[len(g.old)-want:], p.Removed); diff != "" {
			t.Errorf("keep %d: %s", keep, diff)
		}
		g.sound(keep)
	}
	g := newGrave(t)
	p := g.prune(PruneOptions{OlderThan: day, Needed: func(id string) string {
		return map[string]string{g.old[1]: "holds_a_claim", g.stay[0]: "not even old"}[id]
	}})
	if got := reasons(p); len(p.Removed) != 3 || got != g.old[1]+"=holds_a_claim 20200101T000008-owed=notice_pending" {
		t.Errorf("removed %v, kept %s", p.Removed, got)
	}
}

// Of a job whose directory is a link the link goes, not what it leads to.
func TestPruneLinkedJob(t *testing.T) {
	g := newGrave(t)
	elsewhere := filepath.Join(testproc.TempDir(t), "job")
	path := filepath.Join(g.Store.Dir, g.old[1])
	if err := os.Rename(path, elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := symlink(elsewhere, path); err != nil {
		t.Skip(err)
	}
	g.prune(PruneOptions{OlderThan: day})
	g.bare("linked")
	if data, err := os.ReadFile(filepath.Join(elsewhere, "job.json")); err != nil || string(data) != g.was[g.old[1]] {
		t.Errorf("what the link led to: %v", err)
	}
}

// A report that comes for a removed job finds none, and makes none.
func TestPruneThenHook(t *testing.T) {
	g := newGrave(t)
	g.prune(PruneOptions{OlderThan: day})
	r, err := g.Hook(t.Context(), g.old[0], Report{Status: "failed"})
	if refused, ok := errors.AsType[*sidecar.RefusedError](err); (err != nil && (!ok || refused.Reason != sidecar.RecordAbsent)) || r.Won {
		t.Errorf("%+v, %v", r, err)
	}
	if job, err := g.Status(t.Context(), g.old[0]); err != nil || job.Known {
		t.Errorf("%+v, %v", job, err)
	}
	g.bare("hooked")
}

// One that is called off has removed nothing, or says what.
func TestPruneCalledOff(t *testing.T) {
	g := newGrave(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p, err := g.Prune(ctx, PruneOptions{OlderThan: day}); err == nil || len(p.Removed) > 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if left := g.sound("called off"); len(left) != len(g.old) {
		t.Errorf("left %v", left)
	}
}

// A job that is removed after it was looked at is counted once.
func TestMetricsOfARemovedJob(t *testing.T) {
	w := newWorld(t)
	w.putRecord(started())
	w.put("20200101T000000-x", string(started(set("run_id", `"20200101T000000-x"`), set("finished_at", `"2020-01-01T00:00:00+00:00"`)).Append(nil)))
	want, err := w.Metrics(t.Context())
	if err != nil || len(want.Ends) != 1 {
		t.Fatal(want, err)
	}
	usual, pruned := w.probe, 0
	w.probe = func(id jobprobe.Identity, at time.Time) jobprobe.Liveness {
		w.probe = usual
		p, err := w.Prune(t.Context(), PruneOptions{})
		if pruned = len(p.Removed); err != nil {
			t.Error(err)
		}
		return usual(id, at)
	}
	if got, err := w.Metrics(t.Context()); err != nil || pruned != 1 || !cmp.Equal(want, got) {
		t.Errorf("%d were removed: %s, %v", pruned, cmp.Diff(want, got), err)
	}
}
