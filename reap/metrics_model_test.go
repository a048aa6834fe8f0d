package reap

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// hostile is what a record may say where a word is expected.
const hostile = "\"} 1\nevil{x=\"\a\\\u00e9secret"

// counting is a store that changes in every way, with the numbers expected of it.
type counting struct {
	*world
	next int
	live []string // without an end
	want struct{ ends, drains, failures int64 }
	last map[string]float64
}

// enders end a job, each as one writer does.
var enders = map[string]func(c *counting, id string, at time.Time) (sidecar.Transition, error){
	"hook": func(c *counting, id string, at time.Time) (sidecar.Transition, error) {
		return c.Store.EndByHook(c.t.Context(), id, sidecar.HookEnd{Status: "completed", At: at})
	},
	"hostile hook": func(c *counting, id string, at time.Time) (sidecar.Transition, error) {
		return c.Store.EndByHook(c.t.Context(), id, sidecar.HookEnd{Status: hostile, ReasonCode: hostile, At: at})
	},
	"supervisor": func(c *counting, id string, at time.Time) (sidecar.Transition, error) {
		return c.Store.EndBySupervisor(c.t.Context(), id, sidecar.SupervisorEnd{Status: "failed", Outcome: "succeeded" + hostile, At: at})
	},
	"reaper": func(c *counting, id string, at time.Time) (sidecar.Transition, error) {
		return c.Store.Reap(c.t.Context(), id, sidecar.Reaping{Finding: jobprobe.PIDRecycled, At: at})
	},
	"kill": func(c *counting, id string, at time.Time) (sidecar.Transition, error) {
		return c.Store.EndByKill(c.t.Context(), id, sidecar.KillEnd{At: at})
	},
	"lifecycle": func(c *counting, id string, at time.Time) (sidecar.Transition, error) {
		return c.Store.EndByLifecycle(c.t.Context(), id, sidecar.LifecycleEnd{Status: "cancelled", At: at})
	},
	"operator": func(c *counting, id string, at time.Time) (sidecar.Transition, error) {
		return c.Store.Attest(c.t.Context(), id, sidecar.Attestation{Text: hostile, At: at})
	},
	"spawn": func(c *counting, id string, at time.Time) (sidecar.Transition, error) {
		return c.Store.SpawnFailed(c.t.Context(), id, sidecar.SpawnFailure{Reason: hostile, At: at, Attached: true})
	},
}

// begin makes a job.
func (c *counting) begin(more ...sidecar.Field) string {
	id := fmt.Sprintf("20260101T%06d-x", c.next)
	c.next++
	c.putRecord(started(append([]sidecar.Field{set("run_id", fmt.Sprintf("%q", id))}, more...)...))
	return id
}

// A counter never goes down, and is exact, over any sequence of what changes a
// store: jobs and their ends, removal and one that crashed, drains, what is seen of
// processes, and records and a ledger that say anything.
func TestMetricsModel(t *testing.T) {
	checks := 25
	if runtime.GOOS == "windows" {
		checks = 2 // under wine each takes seconds
	}
	metricsModel(t, checks)
}

func TestStressMetricsModel(t *testing.T) {
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
	metricsModel(t, 1000)
}

func metricsModel(t *testing.T, checks int) {
	checksFlag := flag.Lookup("rapid.checks").Value // rapid has no other way to be told
	usual := checksFlag.String()
	if err := checksFlag.Set(strconv.Itoa(checks)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checksFlag.Set(usual) })
	steps := 0
	rapid.Check(t, func(rt *rapid.T) {
		c := &counting{world: newWorld(t)}
		rt.Repeat(map[string]func(*rapid.T){
			"begin": func(rt *rapid.T) {
				var more []sidecar.Field
				if rapid.Bool().Draw(rt, "history") {
					more = append(more, sidecar.Field{Name: "lifecycle", Value: sidecar.NewHistory()})
				}
				c.live = append(c.live, c.begin(more...))
			},
			"end": func(rt *rapid.T) {
				name := rapid.SampledFrom(slices.Sorted(maps.Keys(enders))).Draw(rt, "by")
				if len(c.live) == 0 {
					return
				}
				i := rapid.IntRange(0, len(c.live)-1).Draw(rt, "which")
				if got, err := enders[name](c, c.live[i], c.time()); err != nil || !got.Won {
					rt.Fatal(name, got, err)
				}
				c.live = slices.Delete(c.live, i, i+1)
				c.want.ends++
			},
			"foreign end": func(*rapid.T) {
				text, _ := json.Marshal(hostile)
				c.begin(set("finished_at", `"2026-01-01T00:00:00+00:00"`), set("terminal_source", string(text)),
					set("outcome", string(text)), set("status", string(text)), set("lifecycle", `{"schema_version":1,"cleanup":`+string(text)+`}`))
				c.want.ends++
			},
			"observe": func(rt *rapid.T) {
				if _, err := c.List(t.Context(), ListOptions{}); err != nil {
					rt.Fatal(err)
				}
				c.want.ends += int64(len(c.live)) // their process is gone
				c.live = nil
			},
			"drain": func(rt *rapid.T) {
				failed := rapid.Int64Range(0, 2).Draw(rt, "failed")
				err := c.ledger().update(t.Context(), func(r *sidecar.Record) error {
					add(r, "drains_"+rapid.SampledFrom(drainNames[1:]).Draw(rt, "outcome"), 1)
					add(r, "drain_ms", rapid.Int64Range(0, 90000).Draw(rt, "ms"))
					add(r, "persistence_failures", failed)
					return nil
				})
				if err != nil {
					rt.Fatal(err)
				}
				c.want.drains, c.want.failures = c.want.drains+1, c.want.failures+failed
			},
			"prune": func(rt *rapid.T) {
				if _, err := c.Prune(t.Context(), PruneOptions{Keep: rapid.IntRange(0, 9).Draw(rt, "keep")}); err != nil {
					rt.Fatal(err)
				}
			},
			"crashed prune": func(rt *rapid.T) { c.crash(rt) },
			"": func(rt *rapid.T) {
				steps++
				c.check(rt)
			},
		})
	})
	t.Logf("count: the metrics after %d steps of random sequences", steps)
}

// crash leaves what a prune left that was killed after it had moved some jobs.
func (c *counting) crash(rt *rapid.T) {
	old, _, err := c.prunable(c.t.Context(), PruneOptions{})
	if err != nil {
		rt.Fatal(err)
	}
	moved := rapid.IntRange(0, len(old)).Draw(rt, "moved")
	err = c.ledger().update(c.t.Context(), func(r *sidecar.Record) error {
		tally, ids := newTally(), pruning(r)
		tally.read(r)
		for i := range old {
			if !slices.Contains(ids, old[i].id) {
				tally.count(old[i].record())
				ids = append(ids, old[i].id)
			}
		}
		tally.write(r)
		r.Set(pruningName, sidecar.Text(strings.Join(ids, " ")))
		return nil
	})
	if err == nil {
		err = os.MkdirAll(c.trash(), 0o700)
	}
	for i := range moved {
		if err == nil {
			err = os.Rename(filepath.Join(c.Store.Dir, old[i].id), filepath.Join(c.trash(), old[i].id))
		}
	}
	if err != nil {
		rt.Fatal(err)
	}
}

// check compares the metrics with the model and with the last ones, and their
// text with the numbers.
func (c *counting) check(rt *rapid.T) {
	m, err := c.Metrics(c.t.Context())
	if err != nil {
		rt.Fatal(err)
	}
	var text bytes.Buffer
	if err := m.WriteText(&text); err != nil {
		rt.Fatal(err)
	}
	now := parsePrometheus(c.t, text.String())
	if diff := cmp.Diff(m.samples(), now); diff != "" {
		rt.Fatalf("text and numbers differ: %s", diff)
	}
	if strings.Contains(text.String(), "secret") {
		rt.Fatalf("a record's words are told:\n%s", text.String())
	}
	var ends, drains, seen int64
	for _, e := range m.Ends {
		ends += e.Count
	}
	for _, n := range m.Drains {
		drains += n
	}
	for _, n := range m.Observations {
		seen += n
	}
	if ends != c.want.ends || drains != c.want.drains || m.PersistenceFailures != c.want.failures || seen != int64(len(c.live)) {
		rt.Fatalf("want %+v and %d live, got %+v", c.want, len(c.live), m)
	}
	for name, was := range c.last {
		if strings.Contains(name, "_total") && now[name] < was {
			rt.Fatalf("%s was %v and is %v", name, was, now[name])
		}
	}
	c.last = now
}

// A ledger may be a newer program's, or anybody's: what it counts under other
// words is told under one.
func TestMetricsLedgerWords(t *testing.T) {
	w := newWorld(t)
	text, _ := json.Marshal(hostile)
	w.put(".lifecycle/ledger", fmt.Sprintf(`{"run_id": "ledger", "admission": "closed", "pruning": "../../x . %s", "drains_clean": "many",
		"pruned": {"reconciliations": 3, "ends": {%s: 2, "mcp_kill/cancelled": 4, "mcp_kill": 1, "newer/failed": 8, "supervisor_exit/newer": 16},
		"cleanup": {%[2]s: 5, "completed": 1}, "ownership": [7]}}`, "a", text))
	m, err := w.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []EndCount{{"mcp_kill", "cancelled", 4}, {"mcp_kill", "other", 1}, {"other", "failed", 8}, {"other", "other", 2}, {"supervisor_exit", "other", 16}}
	if diff := cmp.Diff(want, m.Ends); diff != "" {
		t.Error(diff)
	}
	if m.Cleanup["other"] != 5 || m.Cleanup["completed"] != 1 || len(m.Cleanup) != 6 || m.Ownership["cleanup_confirmed"] != 0 || m.Admission != "closed" || m.Drains["clean"] != 0 {
		t.Errorf("%+v", m)
	}
	var out bytes.Buffer
	if err := m.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.samples(), parsePrometheus(t, out.String())); diff != "" {
		t.Error(diff)
	}
	// Removing more keeps the words as they are.
	w.put("20260101T000000-x", string(started(set("run_id", `"20260101T000000-x"`), set("finished_at", `"2026-01-01T00:00:00+00:00"`)).Append(nil)))
	if _, err := w.Prune(t.Context(), PruneOptions{}); err != nil {
		t.Fatal(err)
	}
	rec, err := w.ledger().read()
	if err != nil {
		t.Fatal(err)
	}
	tally := newTally()
	tally.read(rec)
	if tally.ends["newer/failed"] != 8 || tally.ends[hostile] != 2 || tally.cleanup[hostile] != 5 {
		t.Errorf("%+v", tally)
	}
}
