package reap

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

func TestNoticesFromEnv(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want Notices
		err  string
	}{
		{name: "nothing"},
		{name: "ours", env: map[string]string{"JOBPROBE_NOTIFY_COMMAND": `["a", "b c"]`, "JOBPROBE_NOTIFY_CWD": "/x"},
			want: Notices{Command: []string{"a", "b c"}, Dir: "/x"}},
		{name: "the peer's", env: map[string]string{"LIONAGI_MCP_NOTIFY_COMMAND": `["p"]`, "LIONAGI_MCP_NOTIFY_CWD": "/p"},
			want: Notices{Command: []string{"p"}, Dir: "/p"}},
		{name: "ours first", env: map[string]string{"JOBPROBE_NOTIFY_COMMAND": `["a"]`, "LIONAGI_MCP_NOTIFY_COMMAND": `["p"]`, "LIONAGI_MCP_NOTIFY_CWD": "/p"},
			want: Notices{Command: []string{"a"}, Dir: "/p"}},
		{name: "a shell line", env: map[string]string{"LIONAGI_MCP_NOTIFY_COMMAND": `notify-send done`},
			want: Notices{fault: faultNotJSON}, err: "LIONAGI_MCP_NOTIFY_COMMAND: delivery_command_is_not_valid_json"},
		{name: "no list", env: map[string]string{"JOBPROBE_NOTIFY_COMMAND": `{"a": 1}`},
			want: Notices{fault: faultNotList}, err: "JOBPROBE_NOTIFY_COMMAND: delivery_command_is_not_a_list_of_strings"},
		{name: "an empty list", env: map[string]string{"JOBPROBE_NOTIFY_COMMAND": `[]`},
			want: Notices{fault: faultEmpty}, err: "JOBPROBE_NOTIFY_COMMAND: delivery_command_is_empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NoticesFromEnv(func(name string) string { return tt.env[name] })
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(Notices{})); diff != "" {
				t.Error(diff)
			}
			if text := errText(err); text != tt.err {
				t.Errorf("error %q, want %q", text, tt.err)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestNoticeCommandParsing(t *testing.T) {
	for text, want := range map[string]string{
		`["a"]`:              "",
		` [ "a" , "" ] `:     "",
		`["` + "\x01" + `"]`: faultNotJSON,
		``:                   faultNotJSON,
		`["a"`:               faultNotJSON,
		`["a"] ["b"]`:        faultNotJSON,
		`["\ud800"]`:         faultNotJSON,
		"[\"\xff\"]":         faultNotJSON,
		`null`:               faultNotList,
		`"a"`:                faultNotList,
		`1`:                  faultNotList,
		`["a", null]`:        faultNotList,
		`["a", 1]`:           faultNotList,
		`["a", ["b"]]`:       faultNotList,
		`[]`:                 faultEmpty,
	} {
		argv, fault := parseCommand(text)
		if fault != want || (fault == "") != (len(argv) > 0) {
			t.Errorf("parseCommand(%q) = %q, %q; want fault %q", text, argv, fault, want)
		}
	}
}

// The command is the report's, then the record's, then the configured one, and
// each fault is told.
func TestNoticeResolution(t *testing.T) {
	here := testproc.TempDir(t)
	dir := func(path string) sidecar.Field { return set("submit_cwd", string(sidecar.Text(path))) }
	configured := Notices{Command: []string{"conf", "{run_id}"}}
	for _, tt := range []struct {
		name    string
		fields  []sidecar.Field
		notices Notices
		report  Report
		argv    string // words, joined by spaces
		dir     string
		faults  string
		own     bool
	}{
		{name: "nothing", own: true},
		{name: "record", fields: []sidecar.Field{tells("rec")}, notices: configured, argv: "rec"},
		{name: "null", fields: []sidecar.Field{set("notify_command", "null")}, notices: configured, argv: "conf {run_id}", own: true},
		{name: "empty text", fields: []sidecar.Field{set("notify_command", `""`)}, notices: configured, argv: "conf {run_id}", own: true},
		{name: "report", fields: []sidecar.Field{tells("rec")}, report: Report{Command: `["rep"]`}, argv: "rep", own: true},
		{name: "a list that is no text", fields: []sidecar.Field{set("notify_command", `["rec"]`)}, notices: configured, faults: faultNotList},
		{name: "no JSON", fields: []sidecar.Field{set("notify_command", `"rec now"`)}, notices: configured, faults: faultNotJSON},
		{name: "empty list", fields: []sidecar.Field{set("notify_command", `"[]"`)}, notices: configured, faults: faultEmpty},
		{name: "configured fault", notices: Notices{fault: faultNotJSON}, faults: faultNotJSON, own: true},
		{name: "off", notices: Notices{Command: []string{"conf"}, Off: true}, own: true},
		{name: "off, record", fields: []sidecar.Field{tells("rec")}, notices: Notices{Off: true}, argv: "rec"},
		{name: "off, report", report: Report{Command: `["rep"]`}, notices: Notices{Off: true}, own: true},

		{name: "cwd", fields: []sidecar.Field{tells("rec"), dir(here)}, argv: "rec", dir: here},
		{name: "cwd null", fields: []sidecar.Field{tells("rec"), set("submit_cwd", "null")}, argv: "rec", faults: faultNoDir},
		{name: "cwd gone", fields: []sidecar.Field{tells("rec"), dir(here + "/gone")}, argv: "rec", dir: here + "/gone", faults: faultNotDir},
		{name: "cwd no text", fields: []sidecar.Field{tells("rec"), set("submit_cwd", "7")}, argv: "rec", faults: faultNotDir},
		{name: "cwd configured", fields: []sidecar.Field{tells("rec"), dir("/gone")}, notices: Notices{Dir: here}, argv: "rec", dir: here},
		{name: "cwd configured and gone", fields: []sidecar.Field{tells("rec")}, notices: Notices{Dir: here + "/gone"},
			argv: "rec", dir: here + "/gone", faults: faultNotDir, own: true},
		{name: "cwd null, nobody to tell", fields: []sidecar.Field{set("submit_cwd", "null")}, own: true},

		{name: "sender", fields: []sidecar.Field{tells("rec", "-f{sender}"), set("notify_sender", `"me"`)}, argv: "rec -f{sender}"},
		{name: "sender of the report", fields: []sidecar.Field{tells("rec", "{sender}")}, report: Report{Sender: "me"}, argv: "rec {sender}"},
		{name: "no sender", fields: []sidecar.Field{tells("rec", "{sender}")}, argv: "rec {sender}", faults: faultSender},
		{name: "several", fields: []sidecar.Field{tells("rec", "{sender}"), set("submit_cwd", "null")},
			argv: "rec {sender}", faults: faultNoDir + ", " + faultSender},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBell(t, tt.fields...)
			b.Notices = tt.notices
			at := b.Store.Read(runID)
			p := b.noticeOf(runID, at.Record, at.File, tt.report)
			got := []any{strings.Join(p.argv, " "), p.dir, strings.Join(p.faults, ", "), p.own, p.timeout}
			want := []any{tt.argv, tt.dir, tt.faults, tt.own, 30 * time.Second}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if p.owed() != (tt.argv != "" || tt.faults != "") {
				t.Errorf("owed is %v", p.owed())
			}
		})
	}
}

// What is told of a job: its label, else its kind; target and sender of the
// report before those of the record.
func TestNoticeMessage(t *testing.T) {
	ended := sidecar.NewRecord(set("status", `"timed_out"`), set("reason_code", `"run.timed_out.deadline"`))
	for _, tt := range []struct {
		fields []sidecar.Field
		report Report
		want   message
	}{
		{want: message{Label: "run"}},
		{fields: []sidecar.Field{set("kind", `"agent"`)}, want: message{Label: "agent"}},
		{fields: []sidecar.Field{set("kind", `"agent"`), set("label", `"l"`), set("notify_target", `"t"`), set("notify_sender", `"s"`)},
			want: message{Label: "l", Target: orNull("t"), Sender: orNull("s")}},
		{fields: []sidecar.Field{set("notify_target", `"t"`), set("notify_sender", `"s"`)}, report: Report{Target: "T", Sender: "S"},
			want: message{Label: "run", Target: orNull("T"), Sender: orNull("S")}},
	} {
		p := Observer{}.noticeOf("R", sidecar.NewRecord(tt.fields...), sidecar.FileInfo{}, tt.report)
		tt.want.RunID, tt.want.Status, tt.want.ReasonCode = "R", "timed_out", "run.timed_out.deadline"
		if diff := cmp.Diff(tt.want, p.about("R", ended)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestNoticeFailureClass(t *testing.T) {
	for _, tt := range []struct{ stderr, stdout, want string }{
		{"", "", "unknown"},
		{"sh: nosuch: Command Not Found", "", "command_not_found"},
		{"open x: No such file or directory", "", "command_not_found"},
		{"", "404 not found", "command_not_found"},
		{"EACCES", "", "permission_denied"},
		{"dial: Connection refused", "", "connection_failed"},
		{"DNS lookup", "", "connection_failed"},
		{"HTTP 401", "", "authentication_failed"},
		{"HTTP 403", "", "refused_by_policy"},
		{"no such actor: x", "", "target_unknown"},
		{"", "Usage: notify TEXT", "invalid_usage"},
		{"expect-actor mismatch", "", "sender_identity_mismatch"},
		{"401", "permission denied", "permission_denied"},       // the order of the classes decides
		{"permission", " denied", "unknown"},                    // not across the streams
		{"usage: x", "connection refused", "connection_failed"}, // whichever stream
	} {
		if got := failureClass([]byte(tt.stderr), []byte(tt.stdout)); got != tt.want {
			t.Errorf("failureClass(%q, %q) = %s, want %s", tt.stderr, tt.stdout, got, tt.want)
		}
	}
}

func TestNoticeUnverified(t *testing.T) {
	for argv, want := range map[string]bool{
		"kkernel exec say":          true,
		"/opt/bin/kkernel -v exec":  true,
		"kkernel exec --strict say": false,
		"kkernel say":               false,
		"mykkernel exec":            false,
	} {
		if got := unverified(strings.Fields(argv)); got != want {
			t.Errorf("unverified(%s) = %v", argv, got)
		}
	}
}

func TestNoticeHeadIsBounded(t *testing.T) {
	var h head
	for range 3 {
		if n, err := h.Write(make([]byte, maxHeard-1)); n != maxHeard-1 || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	if len(h.kept) != maxHeard || cap(h.kept) > 2*maxHeard {
		t.Errorf("%d bytes kept, capacity %d", len(h.kept), cap(h.kept))
	}
}

func TestReasonOf(t *testing.T) {
	for payload, want := range map[string]string{
		`{"reason_code": "run.failed.exception", "other": 1}`: "run.failed.exception",
		`{"reason_code": "run.completed.ok"}`:                 "run.completed.ok",
		`{"reason_code": "legacy.imported"}`:                  "legacy.imported",
		`{"reason_code": "run.failed.invented"}`:              "",
		`{"reason_code": "run.failed"}`:                       "",
		`{"reason_code": ["run.completed.ok"]}`:               "",
		`{"reason_code": null}`:                               "",
		`{}`:                                                  "",
		`"run.completed.ok"`:                                  "",
		`{`:                                                   "",
		``:                                                    "",
	} {
		if got := ReasonOf(payload); got != want {
			t.Errorf("ReasonOf(%s) = %q, want %q", payload, got, want)
		}
	}
	if n := len(reasonCodes); n != 31 || !slices.IsSorted(reasonCodes) {
		t.Errorf("%d codes, sorted %v; want the 30 of runs and legacy.imported", n, slices.IsSorted(reasonCodes))
	}
}

// A damaged delivery is neither open nor pending: nobody acts on it.
func TestNoticeUntold(t *testing.T) {
	for delivery, want := range map[string]bool{
		`null`:                     true,
		`{"attempted": false}`:     true,
		pendingNotice:              true,
		unknownNotice:              false,
		okNotice:                   false,
		refusedNotice("x", "null"): false,
		`{}`:                       false,
		`[]`:                       false,
		`"delivered"`:              false,
		`{"attempted": 0}`:         false,
		`{"attempted": "false"}`:   false,
	} {
		for finished, ended := range map[string]bool{`"2026-08-01T00:00:00+00:00"`: true, `null`: false} {
			rec := sidecar.NewRecord(set("finished_at", finished), set("notify_delivery", delivery))
			if got := untold(rec); got != (want && ended) {
				t.Errorf("untold(finished_at %s, %s) = %v", finished, delivery, got)
			}
		}
	}
	if !untold(sidecar.NewRecord(set("finished_at", `"x"`))) {
		t.Error("an end without a delivery counts as told")
	}
}

// Reads take no command from a directory's settings (peer fault 13): what is
// told depends on the record and the observer only.
func TestPeerFault13NoSettingsOfTheRun(t *testing.T) {
	cwd := testproc.TempDir(t)
	settings := filepath.Join(cwd, ".lionagi", "settings.yaml")
	b := newBell(t, set("cwd", string(sidecar.Text(cwd))), set("submit_cwd", string(sidecar.Text(cwd))))
	writeFile(t, settings, "notify:\n  on_terminal: \"sh -c 'echo x >> "+b.calls+"'\"\n")
	t.Chdir(cwd)
	t.Setenv("HOME", cwd)
	b.look()
	b.want(noNotice, 0)
}
