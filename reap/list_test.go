package reap

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
)

// damaged are the contents of records that cannot be used, and what a listing
// calls them.
var damaged = map[string]string{
	"":                                  "unreadable",
	"{":                                 "unreadable",
	`{"run_id": NaN}`:                   "unreadable",
	`{"run_id": Infinity}`:              "unreadable",
	"\xef\xbb\xbf{}":                    "unreadable",
	`{} {}`:                             "unreadable",
	"{\"label\": \"\xff\"}":             "unreadable",
	`{"pid": 1, "pid": 2}`:              "unreadable",
	`{"a": {"b": 1, "b": 2}}`:           "unreadable",
	"{\"pid\": 1}\x00\x00":              "unreadable",
	strings.Repeat("[", 100_000):        "unreadable",
	`null`:                              "wrong_shape",
	`[]`:                                "wrong_shape",
	`7`:                                 "wrong_shape",
	`"x"`:                               "wrong_shape",
	`{"run_id": 7}`:                     "ok",
	`{}`:                                "ok",
	`{"status": ["x"], "log": 7}`:       "ok",
	`{"label": "\ud800", "kind": null}`: "ok",
	`{"label": ` + strings.Repeat("[", 8_999) + strings.Repeat("]", 8_999) + `}`:   "ok",
	`{"label": ` + strings.Repeat("[", 9_001) + strings.Repeat("]", 9_001) + `}`:   "unreadable",
	`{"label": ` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`: "unreadable",
}

// One damaged or hostile record is one row, and the row is itself good JSON.
func TestPeerFault14DamageIsOneRow(t *testing.T) {
	w := newWorld(t)
	w.putRecord(started())
	want := map[string]string{runID: "ok"}
	texts := map[string]string{}
	n := 0
	for data, state := range damaged {
		id := fmt.Sprintf("20260701T000000-%06x", n)
		w.put(id, data)
		want[id], texts[id] = state, data
		n++
	}
	odd := func(id string, plant func(path string) error) {
		path := filepath.Join(w.Store.Dir, id, "job.json")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if plant(path) == nil {
			want[id] = "unreadable"
		}
	}
	odd("directory", func(path string) error { return os.Mkdir(path, 0o700) })
	odd("symlink", func(path string) error { return symlink("../"+runID+"/job.json", path) })
	odd("loop", func(path string) error { return symlink("job.json", path) })
	if err := os.WriteFile(filepath.Join(w.Store.Dir, "a-file"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.Store.Dir, "no-record"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := w.list(ListOptions{})
	got := map[string]string{}
	for _, row := range l.Jobs {
		got[row.RunID] = row.RecordState
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for id, data := range texts {
		if after := string(w.bytes(id)); after != data {
			t.Errorf("%.40s was changed", data)
		}
	}
}

// Whatever one record holds, the reply that shows it can be written: nesting
// that a record may have must leave room for the reply around it.
func TestPeerFault14RepliesCanBeWritten(t *testing.T) {
	for data := range damaged {
		w := newWorld(t)
		w.put(runID, data)
		out, _, err := w.Output(t.Context(), runID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, reply := range map[string]any{
			"status": w.status(runID), "list": w.list(ListOptions{}), "wait": w.look1(runID), "output": out,
		} {
			if _, err := json.Marshal(reply, jsontext.AllowInvalidUTF8(true)); err != nil {
				t.Errorf("%s of %.40s: %.200v", name, data, err)
			}
		}
	}
}

// many puts n jobs, the even ones running, the odd ones dead.
func many(w *world, n int) (ids []string) {
	for i := range n {
		id := fmt.Sprintf("20260801T%06d-abcdef", i)
		rec := started(set("run_id", `"`+id+`"`))
		if i%2 == 0 {
			rec.Set("process_identity", []byte(process(9)))
			rec.Set("pid", []byte("9"))
		}
		w.putRecord(rec)
		ids = append([]string{id}, ids...) // newest first
	}
	w.sees(9, jobprobe.IdentityConfirmed)
	return ids
}

func rowIDs(l Listing) []string {
	ids := []string{}
	for _, row := range l.Jobs {
		ids = append(ids, row.RunID)
	}
	return ids
}

func TestListLimit(t *testing.T) {
	w := newWorld(t)
	ids := many(w, 5)
	for limit, want := range map[int]Listing{0: {}, 1: {Truncated: true}, 4: {Truncated: true}, 5: {}, 6: {}} {
		l := w.list(ListOptions{Limit: limit})
		n := limit
		if limit == 0 || limit > 5 {
			n = 5
		}
		if diff := cmp.Diff(ids[:n], rowIDs(l)); diff != "" || l.Truncated != want.Truncated {
			t.Errorf("limit %d: truncated %v (-want +got):\n%s", limit, l.Truncated, diff)
		}
	}
}

// A cut listing observes, and so ends, no more than it shows.
func TestListLimitObservesNoMore(t *testing.T) {
	w := newWorld(t)
	many(w, 6)
	w.list(ListOptions{Limit: 1})
	if n := w.asked(childPID) + w.asked(9); n != 1 {
		t.Errorf("%d jobs were probed for one row", n)
	}
}

// The filter is on the derived status, before the limit.
func TestListStatus(t *testing.T) {
	w := newWorld(t)
	const n = 150 // more than one round of a filtered listing
	ids := many(w, n)
	var running, exited []string
	for i, id := range ids {
		if (n-1-i)%2 == 0 {
			running = append(running, id)
		} else {
			exited = append(exited, id)
		}
	}
	for _, c := range []struct {
		opt  ListOptions
		want []string
		cut  bool
	}{
		{ListOptions{Status: "running"}, running, false},
		{ListOptions{Status: "exited", Limit: 2}, exited[:2], true},
		{ListOptions{Status: "exited", Limit: len(exited)}, exited, false},
		{ListOptions{Status: "exited", Limit: len(exited) - 1}, exited[:len(exited)-1], true},
		{ListOptions{Status: "no such", Limit: 3}, []string{}, false},
		{ListOptions{Status: "Running"}, []string{}, false},
	} {
		l := w.list(c.opt)
		if diff := cmp.Diff(c.want, rowIDs(l)); diff != "" || l.Truncated != c.cut {
			t.Errorf("%+v: truncated %v (-want +got):\n%s", c.opt, l.Truncated, diff)
		}
	}
}

// A store that does not exist has no jobs; one that cannot be read is no empty
// store.
func TestListStore(t *testing.T) {
	w := newWorld(t)
	if l := w.list(ListOptions{}); l.Jobs == nil || len(l.Jobs) != 0 || l.Truncated {
		t.Errorf("no store: %+v", l)
	}
	if _, err := os.Stat(w.Store.Dir); err == nil {
		t.Error("the listing made the store")
	}
	if err := os.MkdirAll(filepath.Dir(w.Store.Dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.Store.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := w.List(t.Context(), ListOptions{}); err == nil {
		t.Errorf("a file as the store: %+v", l)
	}
}

// Jobs of one second are listed as they were submitted, also by a listing that
// is cut within it.
func TestListOrder(t *testing.T) {
	w := newWorld(t)
	put := func(id, submitted string) {
		w.putRecord(started(set("run_id", `"`+id+`"`), set("submitted_at", `"2026-08-01T`+submitted+`+00:00"`)))
	}
	put("20260801T000001-00000a", "00:00:01.900000")
	put("20260801T000002-00000f", "00:00:02.100000")
	put("20260801T000002-00000a", "00:00:02.300000")
	put("20260801T000002-00000c", "00:00:02.200000")
	w.put("20260801T000002-00000b", "{")
	put("20260801T000003-000000", "00:00:03.000000")
	want := []string{
		"20260801T000003-000000", "20260801T000002-00000a", "20260801T000002-00000c", "20260801T000002-00000f",
		"20260801T000002-00000b", "20260801T000001-00000a",
	}
	for limit := range len(want) + 1 {
		var got []string
		for _, row := range w.list(ListOptions{Limit: limit}).Jobs {
			got = append(got, row.RunID)
		}
		expected := want
		if limit > 0 {
			expected = want[:limit]
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}
