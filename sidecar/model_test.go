package sidecar_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// facts are what a run's record should say.
type facts struct {
	spawn   string
	end     string // winner, status and time of the end; "" if there is none
	late    string // source and time of the late report
	notice  string // as compact text, or ""
	group   string // group_reaped_at
	foreign string // keys that no transition knows, in order
}

const (
	unattempted = `{"attempted":false}`
	pending     = `{"attempted":false,"pending":true}`
	attempting  = `{"attempted":true,"ok":null,"exit_code":null,"error":"delivery_outcome_unknown","command":null}`
)

// op is one transaction of a writer.
type op struct {
	name string
	at   time.Time
	owed bool   // of an end: a notice is owed
	text string // of settle: the result; of foreign: the key; of unproven: the finding
}

// enders maps each end to the terminal_source, the status and whether it is
// kept as a late report.
var enders = map[string]struct {
	source, status string
	reports        bool
}{
	"attest": {sidecar.SourceOperator, "exited", false}, "hook": {sidecar.SourceHook, "completed", true},
	"kill": {sidecar.SourceKill, "killed", false}, "lifecycle": {sidecar.SourceLifecycle, "aborted", true},
	"reap": {sidecar.SourceReaper, "exited", false}, "spawn": {sidecar.SourceSpawn, "failed", true},
	"supervisor": {sidecar.SourceSupervisor, "failed", true},
}

// opNames are all kinds of writers.
var opNames = append(slices.Sorted(maps.Keys(enders)), "attach", "claim", "foreign", "settle", "unproven")

// opAt returns the transaction of that name at a time, which nobody is told of.
func opAt(name string, at time.Time) op {
	return op{name: name, at: at, text: map[string]string{
		"settle": `{"attempted":true,"ok":true}`, "foreign": "x-" + sidecar.FormatTime(at), "unproven": "access_denied"}[name]}
}

func drawOp(t *rapid.T, at time.Time) op {
	o := op{name: rapid.SampledFrom(opNames).Draw(t, "op"), at: at, owed: rapid.Bool().Draw(t, "owed")}
	switch o.name {
	case "settle":
		o.text = fmt.Sprintf(`{"attempted":true,"ok":%v}`, rapid.Bool().Draw(t, "ok"))
	case "foreign":
		o.text = "x-" + rapid.StringMatching(`[a-zé]{1,3}`).Draw(t, "key")
	case "unproven":
		o.text = rapid.SampledFrom([]jobprobe.Finding{
			jobprobe.NotProbed, jobprobe.IdentityConfirmed, jobprobe.UnusablePID, jobprobe.AccessDenied, jobprobe.ForeignBoot,
		}).Draw(t, "finding").String()
	}
	return o
}

// run makes the transaction.
func (o op) run(s sidecar.Store) (sidecar.Transition, error) {
	switch o.name {
	case "attest":
		return s.Attest(ctx, runID, sidecar.Attestation{Text: "host scrapped", At: o.at, NoticeOwed: o.owed})
	case "hook":
		return s.EndByHook(ctx, runID, sidecar.HookEnd{Status: "completed", At: o.at, NoticeOwed: o.owed})
	case "kill":
		return s.EndByKill(ctx, runID, sidecar.KillEnd{At: o.at, NoticeOwed: o.owed})
	case "lifecycle":
		return s.EndByLifecycle(ctx, runID, sidecar.LifecycleEnd{Status: "aborted", At: o.at, NoticeOwed: o.owed})
	case "reap":
		return s.Reap(ctx, runID, sidecar.Reaping{Finding: jobprobe.PIDAbsent, At: o.at, NoticeOwed: o.owed})
	case "spawn":
		return s.SpawnFailed(ctx, runID, sidecar.SpawnFailure{Reason: "no such file", At: o.at, NoticeOwed: o.owed})
	case "supervisor":
		return s.EndBySupervisor(ctx, runID, sidecar.SupervisorEnd{Status: "failed", ExitCode: &code, At: o.at, NoticeOwed: o.owed})
	case "attach":
		return s.Attach(ctx, runID, sidecar.Attachment{PID: 4711})
	case "claim":
		return s.ClaimNotice(ctx, runID)
	case "settle":
		return s.SetNotice(ctx, runID, sidecar.Value(o.text))
	case "foreign":
		change, err := s.Update(ctx, runID, set(o.text, sidecar.Value(`[1e400, {"a": -0}]`)))
		return sidecar.Transition{Change: change}, err
	case "unproven":
		var f jobprobe.Finding
		if err := f.UnmarshalText([]byte(o.text)); err != nil {
			return sidecar.Transition{}, err
		}
		return s.Reap(ctx, runID, sidecar.Reaping{Finding: f, At: o.at})
	}
	panic(o.name)
}

// answer is what a writer should be told.
type answer struct {
	won bool
	err error
}

// after returns what the record says after the transaction, which begins and
// ends alone, and what its writer is told.
func (f facts) after(o op) (facts, answer) {
	ended := f.end != ""
	switch o.name {
	case "attach":
		if f.spawn != "preparing" || ended {
			return f, answer{err: sidecar.ErrNotPreparing}
		}
		f.spawn = "started"
		return f, answer{won: true}
	case "claim":
		if !ended || f.notice != "" && f.notice != unattempted && f.notice != pending {
			return f, answer{}
		}
		f.notice = attempting
		return f, answer{won: true}
	case "settle":
		if ended {
			f.notice = o.text
		}
		return f, answer{won: ended}
	case "foreign":
		if !slices.Contains(strings.Fields(f.foreign), o.text) {
			f.foreign += o.text + " "
		}
		return f, answer{}
	case "unproven":
		return f, answer{err: sidecar.ErrNotGone}
	case "reap":
		if f.spawn != "started" {
			return f, answer{}
		}
	case "spawn":
		if !ended && f.spawn != "preparing" {
			return f, answer{err: sidecar.ErrNotPreparing}
		}
	}
	e := enders[o.name]
	if ended {
		if e.reports && f.late == "" {
			f.late = e.source + " " + sidecar.FormatTime(o.at)
		}
		if o.name == "kill" {
			f.group = sidecar.FormatTime(o.at)
		}
		return f, answer{}
	}
	f.end = strings.Join([]string{e.source, e.status, sidecar.FormatTime(o.at)}, " ")
	switch {
	case o.owed:
		f.notice = pending
	case o.name == "hook" || o.name == "reap" || o.name == "supervisor":
		f.notice = unattempted
	}
	if o.name == "spawn" {
		f.spawn = "failed"
	}
	return f, answer{won: true}
}

// told checks what a writer was told against what it should be.
func (a answer) told(changed bool, got sidecar.Transition, err error) error {
	want := sidecar.Unchanged
	switch {
	case a.err != nil:
		want = sidecar.NotDone
	case changed:
		want = sidecar.Written
	}
	if got.Won != a.won || got.Result != want || !errors.Is(err, a.err) {
		return fmt.Errorf("told %v, won %v, %v; want %v, won %v, %v", got.Result, got.Won, err, want, a.won, a.err)
	}
	return nil
}

// factsOf reads the facts from a record.
func factsOf(r *sidecar.Record) facts {
	text := func(r *sidecar.Record, name string) string { s, _ := r.Text(name); return s }
	f := facts{spawn: text(r, "spawn_state"), group: text(r, "group_reaped_at")}
	if r.Ended() {
		f.end = strings.Join([]string{text(r, "terminal_source"), text(r, "status"), text(r, "finished_at")}, " ")
	}
	if report, ok := r.Object("late_report"); ok {
		f.late = text(report, "terminal_source") + " " + text(report, "reported_at")
	}
	if notice, ok := r.Raw("notify_delivery"); ok {
		f.notice = compact(notice)
	}
	for name, v := range r.All() {
		if strings.HasPrefix(name, "x-") && compact(v) == `[1e400,{"a":-0}]` {
			f.foreign += name + " "
		}
	}
	return f
}

// lasting are the members that an end fixes, with those of another process's
// that no transition here may touch.
func lasting(r *sidecar.Record) string {
	var b strings.Builder
	names := []string{"run_id", "log"}
	if r.Ended() {
		names = append(names, "finished_at", "status", "outcome", "reason_code", "terminal_source",
			"finished_at_precision", "terminal_evidence", "exit_code", "cli_status", "reason", "pid", "spawn_state")
	}
	for _, name := range names {
		v, _ := r.Raw(name)
		fmt.Fprintf(&b, "%s=%s ", name, v)
	}
	return b.String()
}

// watcher reads the record without a lock, as anybody may at any moment.
type watcher struct {
	store sidecar.Store
	end   string // what may not change, as it was when an end was first seen
}

// sees checks that the record says exactly what it should.
func (w *watcher) sees(want facts) error {
	read := w.store.Read(runID)
	if read.State != sidecar.OK {
		return fmt.Errorf("%v: %w", read.State, read.Err)
	}
	if got := factsOf(read.Record); got != want {
		return fmt.Errorf("the record says\n%+v, want\n%+v", got, want)
	}
	if read.Record.Ended() {
		now := lasting(read.Record)
		if w.end != "" && w.end != now {
			return fmt.Errorf("the end was\n%s, is\n%s", w.end, now)
		}
		w.end = now
	}
	return nil
}

// begin makes a store whose run is preparing or started.
func begin(t *rapid.T, dir string) (sidecar.Store, facts) {
	s, f, first := sidecar.Store{Dir: dir, LockWait: time.Hour}, facts{spawn: "started"}, record(runID)
	if rapid.Bool().Draw(t, "preparing") {
		f.spawn, first = "preparing", preparing()
	}
	if err := s.Create(runID, first); err != nil {
		t.Fatal(err)
	}
	return s, f
}

// TestModel makes random transitions of one run, one after the other, and
// compares the record with the model after each.
func TestModel(t *testing.T) {
	dir, n := tempDir(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		s, now := begin(rt, filepath.Join(dir, fmt.Sprint(n)))
		w, clock := watcher{store: s}, early
		rt.Repeat(map[string]func(*rapid.T){
			"op": func(rt *rapid.T) {
				clock = clock.Add(time.Second)
				o := drawOp(rt, clock)
				next, want := now.after(o)
				got, err := o.run(s)
				if err := want.told(next != now, got, err); err != nil {
					rt.Fatalf("%+v of %+v: %v", o, now, err)
				}
				now = next
			},
			"": func(rt *rapid.T) {
				if err := w.sees(now); err != nil {
					rt.Fatal(err)
				}
			},
		})
	})
}
