package sidecar_test

import (
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe/sidecar"
)

// TestCaseF10Damaged has what no program may take for a record without a pid.
func TestCaseF10Damaged(t *testing.T) {
	untouchable(t, `{"old-run":`, sidecar.RecordUnreadable)
	untouchable(t, "[]", sidecar.RecordWrongShape)
	untouchable(t, "null", sidecar.RecordWrongShape)
}

// TestCaseF11TooNew has a record of a newer program, and one with members of it
// that are none of ours.
func TestCaseF11TooNew(t *testing.T) {
	const known = `{"run_id": "` + runID + `", "pid": 7, "spawn_state": "started", "finished_at": null, ` +
		`"x": {"y": [1.0, {"z": 2E3}]}, "q": null, "contract_version": `
	for _, version := range []string{"99", "1.5", "1e400", `"2"`, `{"major": 1}`} {
		untouchable(t, known+version+"}", sidecar.TooNew)
	}
	s := sidecar.Store{Dir: tempDir(t)}
	path := plant(t, s, runID, known+"1}")
	if got := s.Read(runID); got.State != sidecar.OK {
		t.Fatal(got.Err)
	}
	wantBytes(t, s, known+"1}")
	wantFiles(t, s, "job.json")
	got, err := ends["reap"](s, early)
	if err != nil || !got.Won {
		t.Fatalf("%s: %+v, %v", path, got, err)
	}
	was := mustParse(t, known+"1}")
	for name, v := range was.All() {
		if now, _ := got.Record.Raw(name); name != "finished_at" && compact(now) != compact(v) {
			t.Errorf("%s is %s, was %s", name, now, v)
		}
	}
	if text := string(got.Record.Append(nil)); !strings.Contains(text, "2E3") {
		t.Errorf("a number was respelled in %s", text)
	}
}

// TestCaseF20Empty has a record of no bytes, as a crash leaves without a sync.
func TestCaseF20Empty(t *testing.T) {
	untouchable(t, "", sidecar.RecordUnreadable)
}

// TestCaseF28NoJSON has what other parsers read as something.
func TestCaseF28NoJSON(t *testing.T) {
	for _, text := range []string{
		`{"pid_create_time": NaN}`, "\xef\xbb\xbf" + `{"pid": 1}`, `{"pid": 1}` + "\x00\x00\x00", `{"pid": 1} {"pid": 2}`,
	} {
		untouchable(t, text, sidecar.RecordUnreadable)
	}
	// A number beyond every float is one still: it is kept, and equals no time.
	r := mustParse(t, `{"run_id": "`+runID+`", "pid_create_time": 1e999}`)
	if f, ok := r.Number("pid_create_time"); ok || r.Null("pid_create_time") {
		t.Errorf("read as %v", f)
	}
}
