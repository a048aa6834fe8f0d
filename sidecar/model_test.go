package sidecar_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// model is what a run's record should say, kept beside a real store.
type model struct {
	store    sidecar.Store
	clock    time.Time
	spawn    string
	winner   string // the end that won
	fixed    string // the end as first recorded
	reported bool   // a late report is there
	notice   string // as compact text, or ""
	keys     []string
}

// fixedBy returns the members that an end fixes.
func fixedBy(r *sidecar.Record) string {
	var b strings.Builder
	for _, name := range []string{"finished_at", "status", "outcome", "reason_code", "terminal_source", "finished_at_precision"} {
		v, _ := r.Raw(name)
		fmt.Fprintf(&b, "%s=%s ", name, v)
	}
	return b.String()
}

func (m *model) tick() time.Time {
	m.clock = m.clock.Add(time.Second)
	return m.clock
}

// end tries one of the ends.
func (m *model) end(t *rapid.T) {
	names := []string{"attest", "hook", "kill", "lifecycle", "reap", "spawn", "supervisor"}
	name := rapid.SampledFrom(names).Draw(t, "end")
	got, err := ends[name](m.store, m.tick())
	can := name != "reap" || m.spawn == "started"
	if name == "spawn" && m.winner == "" && m.spawn != "preparing" {
		if !errors.Is(err, sidecar.ErrNotPreparing) {
			t.Fatalf("spawn failure of a %s run: %v", m.spawn, err)
		}
		return
	}
	if err != nil || got.Won != (can && m.winner == "") {
		t.Fatalf("%s of a %s run that %q ended: %+v, %v", name, m.spawn, m.winner, got, err)
	}
	if got.Won {
		m.winner, m.fixed = name, fixedBy(got.Record)
		if name == "spawn" {
			m.spawn = "failed"
		}
		if name == "hook" || name == "reap" || name == "supervisor" {
			m.notice = `{"attempted":false}`
		}
		return
	}
	if slices.Contains([]string{"hook", "lifecycle", "spawn", "supervisor"}, name) && m.winner != "" {
		m.reported = true
	}
}

// unproven tries to reap on a finding that proves nothing.
func (m *model) unproven(t *rapid.T) {
	f := rapid.SampledFrom([]jobprobe.Finding{
		jobprobe.NotProbed, jobprobe.IdentityConfirmed, jobprobe.UnusablePID, jobprobe.AccessDenied, jobprobe.ForeignBoot,
	}).Draw(t, "finding")
	got, err := m.store.Reap(ctx, runID, sidecar.Reaping{Finding: f, At: m.tick()})
	if !errors.Is(err, sidecar.ErrNotGone) || got.Won {
		t.Fatalf("reaped on %v: %+v, %v", f, got, err)
	}
}

func (m *model) attach(t *rapid.T) {
	got, err := m.store.Attach(ctx, runID, sidecar.Attachment{PID: 4711})
	can := m.spawn == "preparing" && m.winner == ""
	if got.Won != can || errors.Is(err, sidecar.ErrNotPreparing) == can {
		t.Fatalf("attached to a %s run that %q ended: %+v, %v", m.spawn, m.winner, got, err)
	}
	if can {
		m.spawn = "started"
	}
}

func (m *model) claim(t *rapid.T) {
	got, err := m.store.ClaimNotice(ctx, runID)
	can := m.winner != "" && (m.notice == "" || m.notice == `{"attempted":false}`)
	if err != nil || got.Won != can {
		t.Fatalf("claimed %q of a run that %q ended: %+v, %v", m.notice, m.winner, got, err)
	}
	if can {
		m.notice = `{"attempted":true,"ok":null,"exit_code":null,"error":"delivery_outcome_unknown","command":null}`
	}
}

func (m *model) settle(t *rapid.T) {
	result := fmt.Sprintf(`{"attempted":true,"ok":%v}`, rapid.Bool().Draw(t, "ok"))
	got, err := m.store.SetNotice(ctx, runID, sidecar.Value(result))
	if err != nil || got.Won != (m.winner != "") {
		t.Fatalf("notice of a run that %q ended: %+v, %v", m.winner, got, err)
	}
	if m.winner != "" {
		m.notice = result
	}
}

func (m *model) foreign(t *rapid.T) {
	name := "x-" + rapid.StringMatching(`[a-zé]{1,3}`).Draw(t, "key")
	if _, err := m.store.Update(ctx, runID, set(name, sidecar.Value(`[1e400, {"a": -0}]`))); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(m.keys, name) {
		m.keys = append(m.keys, name)
	}
}

// check compares the record on disk with the model.
func (m *model) check(t *rapid.T) {
	read := m.store.Read(runID)
	if read.State != sidecar.OK {
		t.Fatalf("%v: %v", read.State, read.Err)
	}
	r := read.Record
	if spawn, _ := r.Text("spawn_state"); spawn != m.spawn {
		t.Fatalf("spawn_state %q, want %q", spawn, m.spawn)
	}
	if r.Ended() != (m.winner != "") || m.winner != "" && fixedBy(r) != m.fixed {
		t.Fatalf("end %s, want %s", fixedBy(r), m.fixed)
	}
	if r.Null("late_report") == m.reported {
		t.Fatalf("late report there: %v", !m.reported)
	}
	notice, _ := r.Raw("notify_delivery")
	if notice == nil && m.notice != "" || notice != nil && compact(notice) != m.notice {
		t.Fatalf("notice %s, want %s", notice, m.notice)
	}
	var keys []string
	for name, v := range r.All() {
		if strings.HasPrefix(name, "x-") {
			keys = append(keys, name)
			if compact(v) != `[1e400,{"a":-0}]` {
				t.Fatalf("%s became %s", name, v)
			}
		}
	}
	if !slices.Equal(keys, m.keys) {
		t.Fatalf("keys %q, want %q", keys, m.keys)
	}
}

// TestModel makes random transitions of one run and compares the record with
// the model after each.
func TestModel(t *testing.T) {
	dir, n := tempDir(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := &model{
			store: sidecar.Store{Dir: filepath.Join(dir, fmt.Sprint(n))}, clock: early, spawn: "started",
		}
		first := record(runID)
		if rapid.Bool().Draw(rt, "preparing") {
			m.spawn, first = "preparing", preparing()
		}
		if err := m.store.Create(runID, first); err != nil {
			rt.Fatal(err)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"end": m.end, "unproven": m.unproven, "attach": m.attach, "claim": m.claim,
			"settle": m.settle, "foreign": m.foreign, "": m.check,
		})
	})
}
