package sidecar_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/jobprobe/jobprobe/sidecar"
)

// FuzzRecord checks that whatever is accepted survives: the members, their
// order, their numbers, and a change of one of them.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a": 1e999, "b": "\ud800", "\udc00": [{"c": {}}]}`, `{"a": 1, "a": 2}`, `[]`, "",
		`{"run_id": "x", "finished_at": null, "pid": -0, "s": "\/\u007f é😀"}`, "{\"a\": \"\xff\"}",
		`{"\ud83d\ude00": "\ud83d", "\ud83d": "\ude00"}`, "{\"a\": [ ] , \"b\": {\t}}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		given := bytes.Clone(data)
		r, err := sidecar.Parse(data)
		if !bytes.Equal(data, given) {
			t.Fatal("Parse changed its input")
		}
		var damaged *sidecar.DamagedError
		if err != nil {
			if !errors.As(err, &damaged) || damaged.State == sidecar.OK || r != nil {
				t.Fatalf("%v with %v", err, r)
			}
			return
		}
		out := r.Append(nil)
		for _, c := range out {
			if c != '\n' && (c < ' ' || c > '~') {
				t.Fatalf("byte %#x in %q", c, out)
			}
		}
		again, err := sidecar.Parse(out)
		if err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		if !again.Equal(r) || !bytes.Equal(again.Append(nil), out) {
			t.Fatalf("%q became %q", out, again.Append(nil))
		}
		if !slices.Equal(numbers(data), numbers(out)) {
			t.Fatalf("numbers of %q became those of %q", data, out)
		}
		if !slices.Equal(r.Names(), again.Names()) {
			t.Fatalf("names %q became %q", r.Names(), again.Names())
		}
		changed := again.Clone()
		changed.Set("added", sidecar.Text("x"))
		if got, ok := changed.Text("added"); got != "x" || !ok {
			t.Fatal("a member that was set is not there")
		}
		if !again.Equal(r) {
			t.Fatal("changing a clone changed the original")
		}
	})
}

// numbers returns the text of every number outside strings.
func numbers(data []byte) (found []string) {
	inString, start := false, -1
	for i := 0; i <= len(data); i++ {
		var c byte
		if i < len(data) {
			c = data[i]
		}
		switch {
		case inString && c == '\\':
			i++
			continue
		case c == '"':
			inString = !inString
		}
		digit := !inString && (c >= '0' && c <= '9' || bytes.IndexByte([]byte("+-.eE"), c) >= 0 && c != 0)
		if digit && start < 0 {
			start = i
		}
		if !digit && start >= 0 {
			// The e of true and false is no number.
			if word := string(data[start:i]); word != "e" {
				found = append(found, word)
			}
			start = -1
		}
	}
	return found
}

// FuzzHistory checks that no history, whatever it is, blocks an end, is written
// as what could not be read, or loses the count of what it was.
func FuzzHistory(f *testing.F) {
	for _, seed := range []string{
		`null`, `"x"`, `{}`, `{"schema_version":2}`, string(sidecar.NewHistory()),
		`{"schema_version":1,"state":"bogus","history":[1,{"at":7},{"state":"running"}],"damaged":-7,"dropped":1e9}`,
		`{"schema_version":1,"state":"completed","cleanup":"unknown","ownership":"cleanup_confirmed","reason":null,"history":{}}`,
		`{"schema_version":1,"state":"running","cleanup":"not_requested","ownership":"runtime_task_only","reason":null,"history":[null,null],"x":0.10}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := sidecar.Parse([]byte(`{"run_id":"r","spawn_state":"started","finished_at":null,"lifecycle":` + text + `}`))
		if err != nil {
			return
		}
		before := sidecar.HistoryOf(r)
		end := sidecar.SupervisorEnd{Status: "completed", At: early}
		if won, err := end.Apply(r); err != nil || !won {
			t.Fatalf("the end: %v, %v", won, err)
		}
		after := sidecar.HistoryOf(r)
		switch {
		case before.Damaged < 0 || before.Dropped < 0 || len(after.Turns) > 64:
			t.Fatalf("%+v became %+v", before, after)
		case after.Kept != before.Kept:
			t.Fatalf("kept %v became %v", before.Kept, after.Kept)
		case after.Phase != sidecar.PhaseCompleted && after.Kept:
			t.Fatalf("ended as %v", after.Phase)
		case after.Damaged < before.Damaged && after.Dropped == before.Dropped:
			t.Fatalf("%d damaged became %d", before.Damaged, after.Damaged)
		}
		if now, err := sidecar.Parse(r.Append(nil)); err != nil || !now.Equal(r) {
			t.Fatalf("%v in %s", err, r.Append(nil))
		}
	})
}
