package sidecar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/jobprobe/jobprobe/sidecar"
)

// told is a record whose history is kept.
func told(r *sidecar.Record) *sidecar.Record {
	r.Set("lifecycle", sidecar.NewHistory())
	return r
}

// turn is a turn in words.
func turn(t sidecar.Turn) string {
	return fmt.Sprint(t.Phase, " ", t.Cleanup, " ", t.Ownership, " ", t.Cause)
}

// life is the history of the store's run, a line a turn.
func life(t testing.TB, s sidecar.Store) (now string, turns []string) {
	t.Helper()
	h := sidecar.HistoryOf(s.Read(runID).Record)
	for _, step := range h.Turns {
		turns = append(turns, turn(step))
	}
	return turn(h.Turn), turns
}

// Each transition adds what it tells, in its own transaction.
func TestHistoryOfEachEnd(t *testing.T) {
	interrupt := func(s sidecar.Store, cause sidecar.Cause) {
		if got, err := s.RequestInterrupt(ctx, runID, sidecar.Interruption{Cause: cause, At: early}); err != nil || !got.Won {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	supervisor := func(status string) func(sidecar.Store) {
		return func(s sidecar.Store) {
			if _, err := s.EndBySupervisor(ctx, runID, sidecar.SupervisorEnd{Status: status, At: early}); err != nil {
				t.Fatal(err)
			}
		}
	}
	hook := func(status string) func(sidecar.Store) {
		return func(s sidecar.Store) {
			if _, err := s.EndByHook(ctx, runID, sidecar.HookEnd{Status: status, At: early}); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := func(name string) func(sidecar.Store) {
		return func(s sidecar.Store) {
			if _, err := ends[name](s, early); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		asked bool // by a drain, before the end
		end   func(sidecar.Store)
		want  string
	}{
		"completed":           {end: supervisor("completed"), want: "completed not_requested runtime_task_only none"},
		"failed":              {end: supervisor("failed"), want: "failed not_requested runtime_task_only provider_failure"},
		"timed out":           {end: supervisor("timed_out"), want: "interrupted not_requested runtime_task_only deadline_exceeded"},
		"cancelled":           {end: supervisor("cancelled"), want: "interrupted not_requested runtime_task_only user_interrupt"},
		"hook completed":      {end: hook("completed"), want: "completed not_requested runtime_task_only none"},
		"hook of its own":     {end: hook("melted"), want: "failed not_requested runtime_task_only provider_failure"},
		"hook aborted":        {end: hook("aborted"), want: "interrupted not_requested runtime_task_only user_interrupt"},
		"lifecycle":           {end: end("lifecycle"), want: "interrupted not_requested runtime_task_only user_interrupt"},
		"kill":                {end: end("kill"), want: "interrupted requested cleanup_pending user_interrupt"},
		"reap":                {end: end("reap"), want: "recovery_needed not_requested runtime_task_only runtime_restart"},
		"attest":              {end: end("attest"), want: "recovery_needed not_requested runtime_task_only none"},
		"asked and completed": {asked: true, end: supervisor("completed"), want: "completed requested cleanup_pending none"},
		"asked and failed":    {asked: true, end: supervisor("failed"), want: "interrupted requested cleanup_pending shutdown"},
		"asked and killed":    {asked: true, end: end("kill"), want: "interrupted requested cleanup_pending shutdown"},
		"asked and lost":      {asked: true, end: end("reap"), want: "recovery_needed requested cleanup_pending runtime_restart"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, told(preparing()))
			if now, turns := life(t, s); now != "none not_requested runtime_task_only none" || turns != nil {
				t.Errorf("in the beginning %s, %q", now, turns)
			}
			if _, err := s.Attach(ctx, runID, sidecar.Attachment{PID: 4711, At: early}); err != nil {
				t.Fatal(err)
			}
			want := []string{"running not_requested runtime_task_only none"}
			if c.asked {
				interrupt(s, sidecar.CauseShutdown)
				want = append(want, "interrupt_requested requested cleanup_pending shutdown")
			}
			c.end(s)
			now, turns := life(t, s)
			if diff := cmp.Diff(append(want, c.want), turns); diff != "" || now != c.want {
				t.Errorf("now %s (-want +got):\n%s", now, diff)
			}
		})
	}
}

// A run that never started has no process that could be left.
func TestHistoryOfNoStart(t *testing.T) {
	for code, want := range map[string]string{
		"": "failed not_requested runtime_task_only runtime_failure", "spawn_abandoned": "failed not_requested runtime_task_only runtime_failure",
		sidecar.ReasonDraining: "interrupted not_requested runtime_task_only shutdown",
	} {
		s := newStore(t, told(preparing()))
		if _, err := s.SpawnFailed(ctx, runID, sidecar.SpawnFailure{ReasonCode: code, At: early}); err != nil {
			t.Fatal(err)
		}
		if now, turns := life(t, s); now != want || len(turns) != 1 || turns[0] != want {
			t.Errorf("%q: %s, %q", code, now, turns)
		}
	}
}

// Without a history the phase is what the record implies, and nothing is added.
func TestHistoryOfAnother(t *testing.T) {
	s := newStore(t, preparing())
	expect := func(want string) {
		t.Helper()
		h := sidecar.HistoryOf(s.Read(runID).Record)
		if h.Kept || h.Turns != nil || turn(h.Turn) != want {
			t.Errorf("%+v, want %s", h, want)
		}
		if _, has := s.Read(runID).Record.Raw("lifecycle"); has {
			t.Error("a history was begun")
		}
	}
	expect("none unknown runtime_task_only none")
	if _, err := s.Attach(ctx, runID, sidecar.Attachment{PID: 4711}); err != nil {
		t.Fatal(err)
	}
	expect("running unknown runtime_task_only none")
	got, err := s.RequestInterrupt(ctx, runID, sidecar.Interruption{Cause: sidecar.CauseShutdown, At: early})
	if err != nil || got.Won || got.Result != sidecar.Unchanged {
		t.Errorf("asked to stop: %+v, %v", got, err)
	}
	expect("running unknown runtime_task_only none")
	if _, err := ends["reap"](s, early); err != nil {
		t.Fatal(err)
	}
	expect("recovery_needed unknown runtime_task_only runtime_restart")
	if got, err := s.Prove(ctx, runID, sidecar.Proof{Left: sidecar.RemainsNone, At: late}); err != nil || got.Result != sidecar.Unchanged {
		t.Errorf("proved: %+v, %v", got, err)
	}
}

// What is damaged is counted, blocks nothing, and is not thrown away as long as
// it can be kept.
func TestHistoryDamaged(t *testing.T) {
	entry := `{"at":"2026-08-01T00:00:00+00:00","state":"running","cleanup":"not_requested","ownership":"runtime_task_only","reason":null}`
	object := func(now, history string) string {
		return `{"schema_version":1,` + now + `,"history":` + history + `,"x":1.0}`
	}
	running := `"state":"running","cleanup":"not_requested","ownership":"runtime_task_only","reason":null`
	for name, c := range map[string]struct {
		text    string
		damaged int64
		turns   int
		kept    bool // the history goes on
		keeps   string
	}{
		"no object":        {text: `"secret"`, damaged: 1, keeps: `"secret"`},
		"another version":  {text: `{"schema_version":2,"secret":1}`, damaged: 1, keeps: `{"schema_version":2,"secret":1}`},
		"no version":       {text: `{}`, damaged: 1, keeps: `{}`},
		"entry no object":  {text: object(running, `["secret",`+entry+`]`), damaged: 1, turns: 1, kept: true, keeps: `"secret"`},
		"entry of a word":  {text: object(running, `[{"state":"secret"},`+entry+`]`), damaged: 1, turns: 1, kept: true, keeps: `{"state":"secret"}`},
		"entry of no time": {text: object(running, `[`+strings.Replace(entry, "2026", "x", 1)+`,`+entry+`]`), damaged: 1, turns: 1, kept: true, keeps: `x-08`},
		"no list":          {text: object(running, `{"secret":2}`), damaged: 1, kept: true, keeps: `"damaged":1`},
		"no state":         {text: object(`"state":"secret"`, `[`+entry+`]`), damaged: 1, turns: 1, kept: true, keeps: entry},
	} {
		t.Run(name, func(t *testing.T) {
			rec := record(runID)
			rec.Set("lifecycle", sidecar.Value(c.text))
			s := newStore(t, rec)
			now := s.Read(runID)
			h := sidecar.HistoryOf(now.Record)
			if h.Damaged != c.damaged || len(h.Turns) != c.turns || h.Kept != c.kept || h.Phase != sidecar.PhaseRunning {
				t.Errorf("%+v", h)
			}
			if got, err := ends["supervisor"](s, late); err != nil || !got.Won {
				t.Fatalf("the end: %+v, %v", got, err)
			}
			h = sidecar.HistoryOf(s.Read(runID).Record)
			if h.Phase != sidecar.PhaseFailed || h.Kept && len(h.Turns) != c.turns+1 {
				t.Errorf("afterwards %+v", h)
			}
			raw, _ := s.Read(runID).Record.Raw("lifecycle")
			if text := compact(raw); !strings.Contains(text, c.keeps) || c.kept && !strings.Contains(text, `"x":1.0`) {
				t.Errorf("%s, and it should keep %s", text, c.keeps)
			}
		})
	}
}

// TestHistoryProperty lets all writers come in any order: the first end gives
// the phase that stays, what was confirmed stays confirmed, each entry is news,
// and no more than 64 are kept.
func TestHistoryProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStore(t, told(preparing()))
		var ended, confirmed bool
		var phase sidecar.Phase
		before := sidecar.HistoryOf(s.Read(runID).Record)
		entries := int64(0)
		for i := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			at := early.Add(time.Duration(i) * time.Second)
			switch rapid.SampledFrom([]string{"op", "op", "ask", "prove", "prove"}).Draw(rt, "what") {
			case "op":
				_, _ = drawOp(rt, at).run(s)
			case "ask":
				_, _ = s.RequestInterrupt(ctx, runID, sidecar.Interruption{Cause: sidecar.CauseShutdown, At: at})
			case "prove":
				left := sidecar.Remains(rapid.IntRange(0, 2).Draw(rt, "left"))
				if left == sidecar.RemainsNone && rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
					left = sidecar.RemainsSome
				}
				_, _ = s.Prove(ctx, runID, sidecar.Proof{Left: left, At: at})
			}
			rec := s.Read(runID).Record
			h := sidecar.HistoryOf(rec)
			if turn(h.Turn) != turn(before.Turn) {
				entries++
			}
			switch {
			case !h.Kept || h.Damaged != 0:
				rt.Fatalf("%+v", h)
			case h.Phase.Ended() != (rec.Ended()):
				rt.Fatalf("phase %v, and ended is %v", h.Phase, rec.Ended())
			case ended && h.Phase != phase:
				rt.Fatalf("%v became %v", phase, h.Phase)
			case confirmed && h.Ownership != sidecar.CleanupConfirmed:
				rt.Fatalf("confirmed became %v", h.Ownership)
			case int64(len(h.Turns))+h.Dropped != entries || len(h.Turns) > 64:
				rt.Fatalf("%d turns, %d dropped, of %d", len(h.Turns), h.Dropped, entries)
			case len(h.Turns) > 0 && turn(h.Turns[len(h.Turns)-1]) != turn(h.Turn):
				rt.Fatalf("now %s, last %s", turn(h.Turn), turn(h.Turns[len(h.Turns)-1]))
			}
			ended, phase, confirmed, before = rec.Ended(), h.Phase, h.Ownership == sidecar.CleanupConfirmed, h
		}
	})
}

// Whoever asks to change the phase of an ended run changes nothing.
func TestHistoryLatched(t *testing.T) {
	rec := told(record(runID))
	s := newStore(t, rec)
	if _, err := ends["supervisor"](s, early); err != nil {
		t.Fatal(err)
	}
	raw, _ := s.Read(runID).Record.Raw("lifecycle")
	_, err := s.Update(ctx, runID, set("lifecycle", sidecar.Value(strings.Replace(string(raw), `"failed"`, `"completed"`, 1))))
	if !errors.Is(err, sidecar.ErrLatched) {
		t.Errorf("%v", err)
	}
}

// 64 entries are kept, and what is dropped is counted.
func TestHistoryBound(t *testing.T) {
	s := newStore(t, told(record(runID)))
	if _, err := ends["kill"](s, early); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		left := []sidecar.Remains{sidecar.RemainsSome, sidecar.RemainsUnknown}[i%2]
		if got, err := s.Prove(ctx, runID, sidecar.Proof{Left: left, At: late}); err != nil || !got.Won {
			t.Fatalf("%d: %+v, %v", i, got, err)
		}
	}
	if h := sidecar.HistoryOf(s.Read(runID).Record); len(h.Turns) != 64 || h.Dropped != 37 {
		t.Errorf("%d turns, %d dropped", len(h.Turns), h.Dropped)
	}
}
