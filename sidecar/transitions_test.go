package sidecar_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

var (
	early = time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	late  = early.Add(time.Minute)
	code  = 7
	ctx   = context.Background()
)

// ends are the transitions that end a run.
var ends = map[string]func(s sidecar.Store, at time.Time) (sidecar.Transition, error){
	"hook": func(s sidecar.Store, at time.Time) (sidecar.Transition, error) {
		return s.EndByHook(ctx, runID, sidecar.HookEnd{Status: "completed", ReasonCode: "run.completed.ok", At: at})
	},
	"supervisor": func(s sidecar.Store, at time.Time) (sidecar.Transition, error) {
		return s.EndBySupervisor(ctx, runID, sidecar.SupervisorEnd{Status: "failed", ExitCode: &code, At: at})
	},
	"lifecycle": func(s sidecar.Store, at time.Time) (sidecar.Transition, error) {
		return s.EndByLifecycle(ctx, runID, sidecar.LifecycleEnd{Status: "aborted", At: at})
	},
	"spawn": func(s sidecar.Store, at time.Time) (sidecar.Transition, error) {
		return s.SpawnFailed(ctx, runID, sidecar.SpawnFailure{Reason: "no such file", At: at})
	},
	"kill": func(s sidecar.Store, at time.Time) (sidecar.Transition, error) {
		return s.EndByKill(ctx, runID, sidecar.KillEnd{At: at})
	},
	"reap": func(s sidecar.Store, at time.Time) (sidecar.Transition, error) {
		return s.Reap(ctx, runID, sidecar.Reaping{Finding: jobprobe.PIDRecycled, At: at})
	},
	"attest": func(s sidecar.Store, at time.Time) (sidecar.Transition, error) {
		return s.Attest(ctx, runID, sidecar.Attestation{Text: "host scrapped", At: at})
	},
}

// preparing is the record of a run that has not started.
func preparing() *sidecar.Record {
	return record(runID, sidecar.Field{Name: "spawn_state", Value: sidecar.Text("preparing")},
		sidecar.Field{Name: "pid", Value: sidecar.Null()}, sidecar.Field{Name: "pid_create_time", Value: sidecar.Null()})
}

// added returns the members of r that was does not have, or has with another
// value, as text in order.
func added(r, was *sidecar.Record) (list []string) {
	for name, v := range r.All() {
		if old, ok := was.Raw(name); !ok || compact(old) != compact(v) {
			list = append(list, name+" "+compact(v))
		}
	}
	return list
}

// compact returns the text of a value without the white space outside strings.
func compact(v sidecar.Value) string {
	v = v.Clone()
	if err := v.Compact(); err != nil {
		panic(err)
	}
	return string(v)
}

// TestEndWrites pins what each end writes, and in which order. status and
// finished_at stay in their places.
func TestEndWrites(t *testing.T) {
	const at = `finished_at "2026-08-01T00:00:00+00:00"`
	for name, want := range map[string][]string{
		"hook": {`status "completed"`, at, `notify_delivery {"attempted":false}`, `cli_status "completed"`,
			`reason_code "run.completed.ok"`, `finished_at_precision "observed"`, `terminal_source "cli_terminal_hook"`},
		"supervisor": {`status "failed"`, at, `exit_code 7`, `finished_at_precision "observed"`,
			`terminal_source "supervisor_exit"`, `notify_delivery {"attempted":false}`},
		"lifecycle": {`status "aborted"`, at, `reason_code null`, `finished_at_precision "observed"`,
			`terminal_source "lifecycle_cache"`},
		"spawn": {`status "failed"`, `spawn_state "failed"`, at, `reason "spawn failed: no such file"`,
			`finished_at_precision "observed"`, `terminal_source "spawn_failure"`},
		"kill": {`status "killed"`, at, `outcome "cancelled"`, `finished_at_precision "observed"`,
			`terminal_source "mcp_kill"`},
		"reap": {`status "exited"`, at, `outcome "indeterminate"`, `reason_code "process_gone_without_outcome"`,
			`finished_at_precision "upper_bound"`, `terminal_source "mcp_orphan_reaper"`,
			`terminal_evidence {"kind":"process_identity_conclusively_gone","finding":"pid_recycled"}`,
			`notify_delivery {"attempted":false}`},
		"attest": {`status "exited"`, at, `outcome "indeterminate"`, `finished_at_precision "upper_bound"`,
			`terminal_source "operator_attested"`, `terminal_evidence {"kind":"operator_attestation","text":"host scrapped"}`},
	} {
		was := record(runID)
		if name == "spawn" {
			was = preparing()
		}
		s := newStore(t, was)
		got, err := ends[name](s, early)
		if err != nil || !got.Won || got.Result != sidecar.Written {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		if diff := cmp.Diff(want, added(got.Record, was)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		wantBytes(t, s, string(got.Record.Append(nil)))
	}
}

// TestEndAfterEnd lets every end follow every other: the first stays, and one
// late report is kept of those who report, beside which a kill notes its time.
func TestEndAfterEnd(t *testing.T) {
	reports := map[string]string{
		"hook":       `late_report {"status":"completed","reported_at":"2026-08-01T00:01:00+00:00","terminal_source":"cli_terminal_hook","reason_code":"run.completed.ok"}`,
		"supervisor": `late_report {"status":"failed","reported_at":"2026-08-01T00:01:00+00:00","terminal_source":"supervisor_exit","exit_code":7}`,
		"lifecycle":  `late_report {"status":"aborted","reported_at":"2026-08-01T00:01:00+00:00","terminal_source":"lifecycle_cache"}`,
		"spawn":      `late_report {"status":"failed","reported_at":"2026-08-01T00:01:00+00:00","terminal_source":"spawn_failure"}`,
		"kill":       `group_reaped_at "2026-08-01T00:01:00+00:00"`,
	}
	for first := range ends {
		for second := range ends {
			was := record(runID)
			if first == "spawn" {
				was = preparing()
			}
			s := newStore(t, was)
			one, err := ends[first](s, early)
			if err != nil || !one.Won {
				t.Fatalf("%s: %+v, %v", first, one, err)
			}
			two, err := ends[second](s, late)
			if err != nil || two.Won {
				t.Errorf("%s after %s: %+v, %v", second, first, two, err)
			}
			var want []string
			result := sidecar.Unchanged
			if report, ok := reports[second]; ok {
				want, result = []string{report}, sidecar.Written
			}
			if diff := cmp.Diff(want, added(two.Record, one.Record)); diff != "" || two.Result != result {
				t.Errorf("%s after %s: %v\n%s", second, first, two.Result, diff)
			}
			// A further report does not replace the first late one.
			three, err := ends["hook"](s, late.Add(time.Minute))
			if err != nil || three.Won {
				t.Errorf("third: %+v, %v", three, err)
			}
			if _, told := two.Record.Raw("late_report"); told && three.Result != sidecar.Unchanged {
				t.Errorf("%s after %s: the late report was replaced by %s", second, first, three.Record.Append(nil))
			}
		}
	}
}

// TestSameReportAgain repeats a report whose answer was lost.
func TestSameReportAgain(t *testing.T) {
	for name, end := range ends {
		was := record(runID)
		if name == "spawn" {
			was = preparing()
		}
		s := newStore(t, was)
		if one, err := end(s, early); err != nil || !one.Won {
			t.Fatalf("%s: %+v, %v", name, one, err)
		}
		two, err := end(s, early)
		if _, told := two.Record.Raw("late_report"); err != nil || two.Won || told {
			t.Errorf("%s again: %+v, %v", name, two, err)
		}
	}
}

func TestAttach(t *testing.T) {
	was := preparing()
	s := newStore(t, was)
	a := sidecar.Attachment{
		PID: 4711, CreateTime: 1700000000.25, PGID: 4711,
		Identity:   jobprobe.Identity{OS: "linux", PID: 4711, Start: 63348, StartUnit: "boot_ticks"},
		Supervisor: jobprobe.Identity{PID: 4710},
	}
	got, err := s.Attach(ctx, runID, a)
	if err != nil || !got.Won || got.Result != sidecar.Written {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []string{
		`pid 4711`, `pid_create_time 1700000000.25`, `spawn_state "started"`, `pgid 4711`,
		`process_identity {"os":"linux","pid":"4711","start":"63348","start_unit":"boot_ticks"}`,
		`supervisor {"pid":"4710"}`,
	}
	if diff := cmp.Diff(want, added(got.Record, was)); diff != "" {
		t.Error(diff)
	}
	text := string(got.Record.Append(nil))
	a.PID = 4712
	if got, err := s.Attach(ctx, runID, a); !errors.Is(err, sidecar.ErrNotPreparing) || got.Won {
		t.Errorf("a second attachment: %+v, %v", got, err)
	}
	wantBytes(t, s, text)
}

func TestAttachKnowsLittle(t *testing.T) {
	was := preparing()
	s := newStore(t, was)
	got, err := s.Attach(ctx, runID, sidecar.Attachment{PID: 4711})
	if err != nil || !got.Won {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []string{`pid 4711`, `spawn_state "started"`, `pgid null`}
	if diff := cmp.Diff(want, added(got.Record, was)); diff != "" {
		t.Error(diff)
	}
}

// TestAttachAfterEnd starts a run that was ended while it was preparing.
func TestAttachAfterEnd(t *testing.T) {
	for name, end := range ends {
		if name == "reap" {
			continue // reaps only what has started
		}
		s := newStore(t, preparing())
		ended, err := end(s, early)
		if err != nil || !ended.Won {
			t.Fatalf("%s: %+v, %v", name, ended, err)
		}
		got, err := s.Attach(ctx, runID, sidecar.Attachment{PID: 4711})
		if !errors.Is(err, sidecar.ErrNotPreparing) || got.Won {
			t.Errorf("after %s: %+v, %v", name, got, err)
		}
		wantBytes(t, s, string(ended.Record.Append(nil)))
	}
}

func TestSpawnFailedOnlyWhilePreparing(t *testing.T) {
	for _, state := range []string{"started", "failed", "", "unknown"} {
		was := record(runID, sidecar.Field{Name: "spawn_state", Value: sidecar.Text(state)})
		s := newStore(t, was)
		got, err := ends["spawn"](s, early)
		if !errors.Is(err, sidecar.ErrNotPreparing) || got.Won {
			t.Errorf("%q: %+v, %v", state, got, err)
		}
		wantBytes(t, s, string(was.Append(nil)))
	}
}

// TestReapNeedsProof tries every finding there is, and every spawn state.
func TestReapNeedsProof(t *testing.T) {
	for f := jobprobe.NotProbed; f <= jobprobe.UnsupportedPlatform+1; f++ {
		s := newStore(t, record(runID))
		got, err := s.Reap(ctx, runID, sidecar.Reaping{Finding: f, At: early})
		proof := f == jobprobe.PIDAbsent || f == jobprobe.PIDRecycled || f == jobprobe.DisappearedDuringProbe
		if got.Won != proof || errors.Is(err, sidecar.ErrNotGone) == proof || (err == nil) != proof {
			t.Errorf("%v: %+v, %v", f, got, err)
		}
		if !proof {
			wantBytes(t, s, string(record(runID).Append(nil)))
		}
	}
	for _, state := range []sidecar.Value{
		sidecar.Text("preparing"), sidecar.Text("failed"), sidecar.Text("later"), sidecar.Null(), sidecar.Bool(true),
	} {
		was := record(runID, sidecar.Field{Name: "spawn_state", Value: state})
		s := newStore(t, was)
		got, err := ends["reap"](s, early)
		if err != nil || got.Won || got.Result != sidecar.Unchanged {
			t.Errorf("%s: %+v, %v", state, got, err)
		}
		wantBytes(t, s, string(was.Append(nil)))
	}
}

func TestEndOptions(t *testing.T) {
	s := newStore(t, record(runID))
	got, err := s.EndByLifecycle(ctx, runID, sidecar.LifecycleEnd{
		Status: "completed", Outcome: "succeeded", ReasonCode: "run.completed.ok", At: early, Approximate: true})
	if err != nil || !got.Won {
		t.Fatal(got, err)
	}
	want := []string{`status "completed"`, `finished_at "2026-08-01T00:00:00+00:00"`, `outcome "succeeded"`,
		`reason_code "run.completed.ok"`, `finished_at_precision "upper_bound"`, `terminal_source "lifecycle_cache"`}
	if diff := cmp.Diff(want, added(got.Record, record(runID))); diff != "" {
		t.Error(diff)
	}
	s = newStore(t, record(runID))
	got, err = s.EndBySupervisor(ctx, runID, sidecar.SupervisorEnd{
		Status: "failed", Outcome: "failed", ReasonCode: "r", Signal: "SIGSEGV", At: early})
	if err != nil || !got.Won {
		t.Fatal(got, err)
	}
	want = []string{`status "failed"`, `finished_at "2026-08-01T00:00:00+00:00"`, `outcome "failed"`, `signal "SIGSEGV"`,
		`reason_code "r"`, `finished_at_precision "observed"`, `terminal_source "supervisor_exit"`,
		`notify_delivery {"attempted":false}`}
	if diff := cmp.Diff(want, added(got.Record, record(runID))); diff != "" {
		t.Error(diff)
	}
}

func TestNotice(t *testing.T) {
	s := newStore(t, record(runID))
	unended := string(record(runID).Append(nil))
	for name, try := range map[string]func() (sidecar.Transition, error){
		"claim": func() (sidecar.Transition, error) { return s.ClaimNotice(ctx, runID) },
		"set":   func() (sidecar.Transition, error) { return s.SetNotice(ctx, runID, sidecar.Null()) },
	} {
		if got, err := try(); err != nil || got.Won || got.Result != sidecar.Unchanged {
			t.Errorf("%s without an end: %+v, %v", name, got, err)
		}
	}
	wantBytes(t, s, unended)
	ended, err := ends["kill"](s, early)
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := s.ClaimNotice(ctx, runID)
	if err != nil || !claimed.Won {
		t.Fatalf("%+v, %v", claimed, err)
	}
	want := []string{`notify_delivery {"attempted":true,"ok":null,"exit_code":null,"error":"delivery_outcome_unknown","command":null}`}
	if diff := cmp.Diff(want, added(claimed.Record, ended.Record)); diff != "" {
		t.Error(diff)
	}
	if again, err := s.ClaimNotice(ctx, runID); err != nil || again.Won || again.Result != sidecar.Unchanged {
		t.Errorf("a second claim: %+v, %v", again, err)
	}
	done := sidecar.Object(sidecar.Field{Name: "attempted", Value: sidecar.Bool(true)}, sidecar.Field{Name: "ok", Value: sidecar.Bool(true)})
	told, err := s.SetNotice(ctx, runID, done)
	if err != nil || !told.Won {
		t.Fatalf("%+v, %v", told, err)
	}
	if diff := cmp.Diff([]string{`notify_delivery {"attempted":true,"ok":true}`}, added(told.Record, ended.Record)); diff != "" {
		t.Error(diff)
	}
	for name, delivery := range map[string]sidecar.Value{
		"failed": sidecar.Value(`{"attempted": false, "ok": false, "error": "x"}`), "list": sidecar.Value("[]"),
	} {
		if _, err := s.SetNotice(ctx, runID, delivery); err != nil {
			t.Fatal(err)
		}
		if got, err := s.ClaimNotice(ctx, runID); err != nil || got.Won {
			t.Errorf("claim over a notice that %s: %+v, %v", name, got, err)
		}
	}
}

func TestRefusedTransitionDidNotWin(t *testing.T) {
	for name, end := range ends {
		s := sidecar.Store{Dir: tempDir(t)}
		plant(t, s, runID, `{"run_id": "other", "spawn_state": "started"}`)
		got, err := end(s, early)
		wantRefused(t, err, sidecar.NamesAnotherRun)
		if got.Won || got.Result != sidecar.NotDone {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
