package spawn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

const parentRun = "20260801T000000-00aaaa"

// recorder is a selector that keeps the order of what happens to it.
type recorder struct {
	mu        sync.Mutex
	events    []string
	reports   []Report
	decisions func(calls []ToolCall) ([]Decision, error)
}

func (r *recorder) Decide(_ context.Context, parent string, calls []ToolCall) ([]Decision, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, "decide "+parent)
	return r.decisions(calls)
}

func (r *recorder) OnSpawnOutcome(_ context.Context, report Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := "report"
	for _, slot := range report.Slots {
		text += " " + strconv.Itoa(slot.SpawnIndex) + ":" + slot.ToolCallID + ":" + slot.Outcome.String()
	}
	r.events, r.reports = append(r.events, text), append(r.reports, report)
}

// spawnAll makes a job of each call.
func spawnAll(calls []ToolCall) ([]Decision, error) {
	list := make([]Decision, len(calls))
	for i := range list {
		list[i].Job = &Request{Argv: []string{"true"}}
	}
	return list, nil
}

func calls(ids ...string) []ToolCall {
	var list []ToolCall
	for _, id := range ids {
		list = append(list, ToolCall{ID: id})
	}
	return list
}

func admitted(t *testing.T, store sidecar.Store, sel Selector, batch []ToolCall) Batch {
	t.Helper()
	b, err := Admit(t.Context(), store, sel, parentRun, batch)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func childrenOf(t *testing.T, store sidecar.Store) []Slot {
	t.Helper()
	list, err := Children(store, parentRun)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func wantEvents(t *testing.T, r *recorder, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// opaque lets cmp compare identities as they are.
var opaque = cmp.Comparer(func(a, b jobprobe.Identity) bool { return a == b })

// A single spawn: one committed slot, with the ids of the record.
func TestSeed8SingleSpawn(t *testing.T) {
	store := newStore(t)
	r := &recorder{decisions: spawnAll}
	b := admitted(t, store, r, calls("call-1"))
	wantEvents(t, r, "decide "+parentRun, "report 0:call-1:committed")
	if len(b.Slots) != 1 || b.ParentRunID != parentRun || b.Repeated || b.Panicked != nil {
		t.Fatalf("%+v", b)
	}
	slot := b.Slots[0]
	rec := store.Read(slot.RunID).Record
	raw, _ := rec.Raw("process_identity")
	if id, err := jobprobe.ParseIdentity(raw); err != nil || id != slot.Identity || id.PID == 0 {
		t.Errorf("identity %+v, on record %+v, %v", slot.Identity, id, err)
	}
	for name, want := range map[string]string{"parent_run_id": parentRun, "tool_call_id": "call-1", "spawn_state": "started"} {
		if got, _ := rec.Text(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if diff := cmp.Diff(b.Report, r.reports[0], opaque); diff != "" {
		t.Errorf("returned and reported differ:\n%s", diff)
	}
	finished(t, store, slot.RunID)
}

// Fan-out: as many slots as calls, in the order of the calls.
func TestSeed9FanOut(t *testing.T) {
	store := newStore(t)
	r := &recorder{decisions: spawnAll}
	b := admitted(t, store, r, calls("e", "d", "c", "b", "a"))
	wantEvents(t, r, "decide "+parentRun,
		"report 0:e:committed 1:d:committed 2:c:committed 3:b:committed 4:a:committed")
	if diff := cmp.Diff(b.Slots, childrenOf(t, store), opaque); diff != "" {
		t.Errorf("children (-reported +found):\n%s", diff)
	}
}

// A mixed batch: each slot has its own outcome, and calls that were never to
// be jobs have none.
func TestSeed10MixedBatch(t *testing.T) {
	store := newStore(t)
	r := &recorder{decisions: func(calls []ToolCall) ([]Decision, error) {
		list, err := spawnAll(calls)
		list[1].Job = nil
		list[3].Job = &Request{Argv: []string{"no-such-command-in-any-path"}}
		return list, err
	}}
	batch := calls("a", "plain", "done", "bad", "b")
	batch[1].Done, batch[2].Done = true, true
	b := admitted(t, store, r, batch)
	wantEvents(t, r, "decide "+parentRun,
		"report 0:a:committed 2:done:degraded_to_tool 3:bad:failed 4:b:committed")
	if failed, ok := errors.AsType[*FailedError](b.Slots[2].Err); !ok || failed.RunID != b.Slots[2].RunID {
		t.Errorf("%+v", b.Slots[2])
	}
	want := []Slot{b.Slots[0], b.Slots[3]}
	if diff := cmp.Diff(want, childrenOf(t, store), opaque); diff != "" {
		t.Errorf("children (-reported +found):\n%s", diff)
	}
}

// A wrong number of decisions: nobody can say which is whose, so every call
// runs in place. Without a decision to spawn there is nobody to tell.
func TestSeed10WrongDecisionCount(t *testing.T) {
	for n, want := range map[int]string{
		1: "report 0:a:degraded_to_tool 1:b:degraded_to_tool",
		3: "report 0:a:degraded_to_tool 1:b:degraded_to_tool",
		0: "",
	} {
		store := newStore(t)
		r := &recorder{decisions: func([]ToolCall) ([]Decision, error) { return spawnAll(make([]ToolCall, n)) }}
		admitted(t, store, r, calls("a", "b"))
		events := []string{"decide " + parentRun}
		if want != "" {
			events = append(events, want)
		}
		wantEvents(t, r, events...)
		if ids, _ := store.IDs(); len(ids) != 0 {
			t.Errorf("%d decisions started %v", n, ids)
		}
	}
	store := newStore(t)
	r := &recorder{decisions: func(calls []ToolCall) ([]Decision, error) { return make([]Decision, len(calls)), nil }}
	if b := admitted(t, store, r, calls("a", "b")); len(b.Slots) != 0 {
		t.Errorf("%+v", b)
	}
	wantEvents(t, r, "decide "+parentRun)
}

// refuseSecond makes a second job that the store refuses after it has taken
// the first: its record is too large.
func refuseSecond(ran string) func(calls []ToolCall) ([]Decision, error) {
	return func(calls []ToolCall) ([]Decision, error) {
		list, err := spawnAll(calls)
		for i := range list {
			list[i].Job.Argv = []string{"touch", ran}
		}
		list[1].Job.Label = strings.Repeat("x", 17<<20)
		return list, err
	}
}

// The store refuses: every slot has failed, the error is the store's own,
// nothing has run, and there are no children.
func TestSeed11StoreFailure(t *testing.T) {
	store := newStore(t)
	ran := filepath.Join(t.TempDir(), "ran")
	r := &recorder{decisions: refuseSecond(ran)}
	b, err := Admit(t.Context(), store, r, parentRun, calls("a", "b", "c"))
	if err != sidecar.ErrTooLarge {
		t.Errorf("%v, want it unchanged", err)
	}
	wantEvents(t, r, "decide "+parentRun, "report 0:a:failed 1:b:failed 2:c:failed")
	for _, slot := range b.Slots {
		if slot.Err != err {
			t.Errorf("slot %d: %v", slot.SpawnIndex, slot.Err)
		}
	}
	if list := childrenOf(t, store); len(list) != 0 {
		t.Errorf("children %+v", list)
	}
	ids, _ := store.IDs()
	for _, id := range ids {
		if job := status(t, store, id); !job.Terminal || string(job.SpawnState) != `"failed"` {
			t.Errorf("%s: %s, %s", id, job.Status, job.SpawnState)
		}
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a job ran")
	}
	// A store that is no directory refuses before anything is recorded.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r = &recorder{decisions: spawnAll}
	if _, err := Admit(t.Context(), sidecar.Store{Dir: filepath.Join(file, "jobs")}, r, parentRun, calls("a")); err == nil {
		t.Error("admitted")
	}
}

// After a failure the batch may be admitted again, and the selector is asked
// again: it has been told to give up what it had reserved.
func TestSeed12Retry(t *testing.T) {
	store := newStore(t)
	first := refuseSecond(filepath.Join(t.TempDir(), "ran"))
	r := &recorder{}
	r.decisions = func(calls []ToolCall) ([]Decision, error) {
		r.decisions = spawnAll
		return first(calls)
	}
	if _, err := Admit(t.Context(), store, r, parentRun, calls("a", "b")); err == nil {
		t.Fatal("admitted")
	}
	b := admitted(t, store, r, calls("a", "b"))
	wantEvents(t, r,
		"decide "+parentRun, "report 0:a:failed 1:b:failed",
		"decide "+parentRun, "report 0:a:committed 1:b:committed")
	if diff := cmp.Diff(b.Slots, childrenOf(t, store), opaque); diff != "" {
		t.Errorf("children (-reported +found):\n%s", diff)
	}
}

// Calls that were admitted are not decided again, and nobody is told again.
func TestSeed13AlreadyAdmitted(t *testing.T) {
	store := newStore(t)
	r := &recorder{decisions: spawnAll}
	first := admitted(t, store, r, calls("a", "b"))
	again := admitted(t, store, r, calls("a", "b"))
	wantEvents(t, r, "decide "+parentRun, "report 0:a:committed 1:b:committed")
	if !again.Repeated {
		t.Error("the admission was not repeated")
	}
	if diff := cmp.Diff(first.Report, again.Report, opaque); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
	// Other calls of the same parent are another batch.
	admitted(t, store, r, calls("c"))
	if got := childrenOf(t, store); len(got) != 3 || got[2].ToolCallID != "c" {
		t.Errorf("children %+v", got)
	}
}

// silent is a selector that is never told.
type silent struct{ recorder *recorder }

func (s silent) Decide(ctx context.Context, parent string, calls []ToolCall) ([]Decision, error) {
	return s.recorder.Decide(ctx, parent, calls)
}

// The report is never delivered, as when the program dies before: the records
// tell the same, whether the jobs have ended or not.
func TestSeed14ChildrenTellTheSame(t *testing.T) {
	store := newStore(t)
	r := &recorder{decisions: func(calls []ToolCall) ([]Decision, error) {
		list, err := spawnAll(calls)
		list[1].Job.Argv = []string{"sleep", "600"}
		return list, err
	}}
	b := admitted(t, store, silent{r}, calls("a", "b", "c"))
	finished(t, store, b.Slots[0].RunID)
	start(t, store, "true") // a stranger
	if _, err := Start(t.Context(), store, Request{Argv: []string{"true"}, Parent: parentRun}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.Slots, childrenOf(t, store), opaque); diff != "" {
		t.Errorf("children (-committed +found):\n%s", diff)
	}
	wantEvents(t, r, "decide "+parentRun)
}

// A program killed between the records and the report has left them all: the
// next one finds the committed slots and closes what was never started.
func TestSeed14Abandoned(t *testing.T) {
	store := newStore(t)
	r := &recorder{decisions: spawnAll}
	req := Request{Argv: []string{"true"}, Dir: "/", Parent: parentRun, slot: &Slot{ToolCallID: "a"}}
	left, err := reserve(t.Context(), observe(store), &req)
	if err != nil {
		t.Fatal(err)
	}
	left.sup.close()
	b := admitted(t, store, r, calls("a"))
	wantEvents(t, r, "decide "+parentRun, "report 0:a:committed")
	if job := status(t, store, left.id); !job.Terminal || string(job.SpawnState) != `"failed"` {
		t.Errorf("%s, %s", job.Status, job.SpawnState)
	}
	if diff := cmp.Diff(b.Slots, childrenOf(t, store), opaque); diff != "" {
		t.Errorf("children (-committed +found):\n%s", diff)
	}
}

// Of several admissions of the same calls at a time one starts jobs; the others
// learn that theirs were superseded, or that all was done before.
func TestAdmitAtTheSameTime(t *testing.T) {
	store := newStore(t)
	ran := filepath.Join(t.TempDir(), "ran")
	var together sync.WaitGroup
	together.Add(4)
	var committed, superseded atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r := &recorder{decisions: func(calls []ToolCall) ([]Decision, error) {
				together.Done()
				together.Wait()
				return []Decision{{&Request{Argv: []string{"sh", "-c", `echo >>"$1"`, "sh", ran}}}}, nil
			}}
			b, err := Admit(t.Context(), store, r, parentRun, calls("a"))
			if err != nil || len(r.reports) != 1 || len(b.Slots) != 1 {
				t.Errorf("%+v, %v, %v", b, err, r.events)
				return
			}
			switch b.Slots[0].Outcome {
			case Committed:
				committed.Add(1)
			case Superseded:
				superseded.Add(1)
			case Unsettled, Failed, DegradedToTool:
				t.Errorf("%+v", b.Slots[0])
			}
		})
	}
	wg.Wait()
	if committed.Load() != 1 || superseded.Load() != 3 {
		t.Errorf("%d committed, %d superseded", committed.Load(), superseded.Load())
	}
	list := childrenOf(t, store)
	if len(list) != 1 {
		t.Fatalf("children %+v", list)
	}
	finished(t, store, list[0].RunID)
	if data, _ := os.ReadFile(ran); len(data) != 1 {
		t.Errorf("the work ran %d times", len(data))
	}
}

// A slot whose claim is held fails alone.
func TestAdmitClaimHeld(t *testing.T) {
	store := newStore(t)
	h, err := claimed(t, store, key, "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{decisions: func(calls []ToolCall) ([]Decision, error) {
		list, err := spawnAll(calls)
		list[0].Job.Claim = key
		return list, err
	}}
	b := admitted(t, store, r, calls("a", "b"))
	wantEvents(t, r, "decide "+parentRun, "report 0:a:failed 1:b:committed")
	wantHeld(t, b.Slots[0].Err, h.RunID, ClaimHeld)
}

// panicking is a selector that does not keep its promise.
type panicking struct{ recorder }

func (p *panicking) OnSpawnOutcome(ctx context.Context, report Report) {
	p.recorder.OnSpawnOutcome(ctx, report)
	panic("no")
}

// A panic of the selector's is contained, told of, and not tried again; its
// locks are given back.
func TestAdmitPanic(t *testing.T) {
	store := newStore(t)
	p := &panicking{recorder{decisions: spawnAll}}
	if b := admitted(t, store, p, calls("a")); b.Panicked != "no" || b.Slots[0].Outcome != Committed {
		t.Errorf("%+v", b)
	}
	wantEvents(t, &p.recorder, "decide "+parentRun, "report 0:a:committed")
	if b := admitted(t, store, p, calls("b")); b.Slots[0].Outcome != Committed {
		t.Errorf("%+v", b)
	}
}

// A selector that cannot decide has reserved nothing.
func TestAdmitDecideFails(t *testing.T) {
	store := newStore(t)
	no := errors.New("no")
	r := &recorder{decisions: func([]ToolCall) ([]Decision, error) { return nil, no }}
	if _, err := Admit(t.Context(), store, r, parentRun, calls("a")); err != no {
		t.Errorf("%v", err)
	}
	wantEvents(t, r, "decide "+parentRun)
	for _, bad := range [][]ToolCall{calls(""), calls("a", "a")} {
		if _, err := Admit(t.Context(), store, r, parentRun, bad); !errors.Is(err, ErrCallID) {
			t.Errorf("%v", err)
		}
	}
}

func TestOutcomeWords(t *testing.T) {
	for o := Unsettled; o <= Superseded; o++ {
		text, err := o.MarshalText()
		var back Outcome
		if err != nil || back.UnmarshalText(text) != nil || back != o || o.String() != string(text) {
			t.Errorf("%d: %q, %v, %v", o, text, err, back)
		}
	}
	var o Outcome
	if _, err := (Superseded + 1).MarshalText(); err == nil || o.UnmarshalText([]byte("perhaps")) == nil {
		t.Error("a stranger was accepted")
	}
}
