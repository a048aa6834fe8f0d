package sidecar_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/sidecar"
)

func mustParse(t *testing.T, text string) *sidecar.Record {
	t.Helper()
	r, err := sidecar.Parse([]byte(text))
	if err != nil {
		t.Fatalf("Parse(%.80q): %v", text, err)
	}
	return r
}

// The right-hand sides are what Python's json.dumps(indent=2) prints for them.
func TestAppend(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{`{}`, `{}`},
		{" { } ", `{}`},
		{`{"a":[],"b":{},"c":[ ],"d":{ }}`, "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [],\n  \"d\": {}\n}"},
		{`{"a":[1,[2,{"b":null}]]}`, "{\n  \"a\": [\n    1,\n    [\n      2,\n      {\n        \"b\": null\n      }\n    ]\n  ]\n}"},
		{`{"n":[1e999,-0,1.50,123456789012345678901234567890,1E+2]}`,
			"{\n  \"n\": [\n    1e999,\n    -0,\n    1.50,\n    123456789012345678901234567890,\n    1E+2\n  ]\n}"},
		{`{"s":"\/ \u002f \u0041 é 😀 \uD83D\uDE00"}`, "{\n  \"s\": \"/ / A \\u00e9 \\ud83d\\ude00 \\ud83d\\ude00\"\n}"},
		{`{"s":"\ud800 \uDC00\uD800 x"}`, "{\n  \"s\": \"\\ud800 \\udc00\\ud800 x\"\n}"},
		{"{\"s\":\"\x7f \u2028 \\u007F \\u0000 \\u001f\"}", "{\n  \"s\": \"\\u007f \\u2028 \\u007f \\u0000 \\u001f\"\n}"},
		{`{"s":"\b\f\n\r\t\"\\ \u0008\u000C\u000a\u000D\u0009\u0022\u005C"}`,
			"{\n  \"s\": \"\\b\\f\\n\\r\\t\\\"\\\\ \\b\\f\\n\\r\\t\\\"\\\\\"\n}"},
		{`{"\u00e9\ud800[{,:":"[{,:"}`, "{\n  \"\\u00e9\\ud800[{,:\": \"[{,:\"\n}"},
		{`{"\ud800":1,"\udc00":2,"\ufffd":3}`, "{\n  \"\\ud800\": 1,\n  \"\\udc00\": 2,\n  \"\\ufffd\": 3\n}"},
		{`{"":""}`, "{\n  \"\": \"\"\n}"},
	} {
		got := string(mustParse(t, tc.in).Append(nil))
		if got != tc.want {
			t.Errorf("%s\n got %s\nwant %s", tc.in, got, tc.want)
		}
		if again := string(mustParse(t, got).Append([]byte("x"))); again != "x"+got {
			t.Errorf("%s: the second time %s", got, again)
		}
	}
}

func TestAccessors(t *testing.T) {
	r := mustParse(t, `{"text": "a\u00e9\n", "lone": "x\ud800", "int": -42, "big": 9223372036854775808,
		"frac": 1.0, "exp": 1e3, "huge": 1e999, "tiny": 1e-999, "yes": true, "null": null,
		"num": "12", "object": {"k": "v"}, "list": [1], "key\u0073": 5}`)
	if s, ok := r.Text("text"); s != "aé\n" || !ok {
		t.Errorf("text: %q, %v", s, ok)
	}
	if s, ok := r.Text("lone"); s != "x\ufffd" || !ok {
		t.Errorf("lone: %q, %v", s, ok)
	}
	if n, ok := r.Int("keys"); n != 5 || !ok {
		t.Errorf("escaped key: %d, %v", n, ok)
	}
	type got struct {
		text, int, number, object, null bool
	}
	for name, want := range map[string]got{
		"text": {text: true}, "int": {int: true, number: true}, "big": {number: true},
		"frac": {number: true}, "exp": {number: true}, "huge": {}, "tiny": {number: true},
		"yes": {}, "null": {null: true}, "num": {text: true}, "object": {object: true},
		"list": {}, "none": {null: true},
	} {
		var g got
		_, g.text = r.Text(name)
		_, g.int = r.Int(name)
		_, g.number = r.Number(name)
		_, g.object = r.Object(name)
		g.null = r.Null(name)
		if g != want {
			t.Errorf("%s: %+v, want %+v", name, g, want)
		}
	}
	if n, _ := r.Int("int"); n != -42 {
		t.Errorf("int: %d", n)
	}
	if f, _ := r.Number("exp"); f != 1000 {
		t.Errorf("exp: %v", f)
	}
	if o, _ := r.Object("object"); o.Names()[0] != "k" {
		t.Errorf("object: %v", o.Names())
	}
}

func TestEnded(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: false, `{"finished_at": null}`: false, `{"finished_at": ""}`: true,
		`{"finished_at": 0}`: true, `{"finished_at": false}`: true,
		`{"finished_at": "2026-07-25T00:00:00+00:00"}`: true,
	} {
		if got := mustParse(t, text).Ended(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestSet(t *testing.T) {
	r := mustParse(t, `{"a": "\u0041", "b": [1 , 2], "c": 3}`)
	old := r.Clone()
	r.Set("a", sidecar.Text("A"))
	r.Set("b", sidecar.Value("[1,2]"))
	if raw, _ := r.Raw("a"); string(raw) != `"\u0041"` {
		t.Errorf("an equal value was respelled: %s", raw)
	}
	if !r.Equal(old) {
		t.Error("equal values made a difference")
	}
	r.Set("b", nil)
	r.Set("d", sidecar.Bool(true))
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, r.Names()); diff != "" {
		t.Error(diff)
	}
	if raw, _ := r.Raw("b"); string(raw) != "null" {
		t.Errorf("nil: %s", raw)
	}
	if raw, _ := old.Raw("b"); string(raw) != "[1 , 2]" {
		t.Errorf("the original of a clone changed: %s", raw)
	}
	var zero sidecar.Record
	if got := string(zero.Append(nil)); got != "{}" {
		t.Errorf("zero record: %s", got)
	}
	zero.Set("é", sidecar.Int(1))
	if n, ok := zero.Int("é"); n != 1 || !ok {
		t.Error("a key that needs escapes is not found")
	}
}

// The wants are what Python's repr prints.
func TestFloat(t *testing.T) {
	for _, tc := range []struct {
		f    float64
		want string
	}{
		{0, "0.0"}, {math.Copysign(0, -1), "-0.0"}, {1, "1.0"}, {-2.5, "-2.5"}, {0.1, "0.1"},
		{1700000000, "1700000000.0"}, {1700000000.25, "1700000000.25"},
		{1e-4, "0.0001"}, {1e-5, "1e-05"}, {1.5e-7, "1.5e-07"}, {5e-324, "5e-324"},
		{1e15, "1000000000000000.0"}, {9999999999999998, "9999999999999998.0"}, {1e16, "1e+16"},
		{123456789012345680, "1.2345678901234568e+17"}, {1e22, "1e+22"}, {1e300, "1e+300"},
		{math.Inf(1), "null"}, {math.NaN(), "null"},
	} {
		if got := string(sidecar.Float(tc.f)); got != tc.want {
			t.Errorf("Float(%g) = %s, want %s", tc.f, got, tc.want)
		}
	}
}

func TestValues(t *testing.T) {
	v := sidecar.Object(
		sidecar.Field{Name: "list", Value: sidecar.Texts([]string{"a\x00", "\xff", `"`})},
		sidecar.Field{Name: "none", Value: sidecar.Texts(nil)},
		sidecar.Field{Name: "int", Value: sidecar.Int(-1 << 63)},
		sidecar.Field{Name: "null", Value: sidecar.Null()},
		sidecar.Field{Name: "int", Value: sidecar.Bool(false)})
	want := `{"list":["a\u0000","\ufffd","\""],"none":[],"int":false,"null":null}`
	if string(v) != want {
		t.Errorf("got %s", v)
	}
}

func TestTime(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	for want, at := range map[string]time.Time{
		"2026-07-25T00:00:00+00:00":        time.Date(2026, 7, 25, 2, 0, 0, 0, zone),
		"2026-07-25T00:00:00.000001+00:00": time.Date(2026, 7, 25, 0, 0, 0, 1999, time.UTC),
		"2026-07-25T23:59:59.100000+00:00": time.Date(2026, 7, 25, 23, 59, 59, 1e8, time.UTC),
		"2026-07-25T00:00:01+00:00":        time.Date(2026, 7, 25, 0, 0, 1, 999, time.UTC),
	} {
		if got := sidecar.FormatTime(at); got != want {
			t.Errorf("FormatTime(%v) = %s, want %s", at, got, want)
		}
		if back, ok := sidecar.ParseTime(want); !ok || !back.Equal(at.Truncate(time.Microsecond)) {
			t.Errorf("ParseTime(%s) = %v, %v", want, back, ok)
		}
	}
	noon := time.Date(2026, 7, 25, 12, 0, 0, 5e8, time.UTC)
	for _, text := range []string{
		"2026-07-25T12:00:00.5Z", "2026-07-25T14:00:00.500000+02:00", "2026-07-25T12:00:00.5",
		"2026-07-25 12:00:00.500000000+00:00", "2026-07-25T06:30:00.5-0530",
	} {
		if at, ok := sidecar.ParseTime(text); !ok || !at.Equal(noon) {
			t.Errorf("ParseTime(%s) = %v, %v", text, at, ok)
		}
	}
	for _, text := range []string{"", "now", "2026-07-25", "2026-13-25T00:00:00", "1784000000"} {
		if at, ok := sidecar.ParseTime(text); ok {
			t.Errorf("ParseTime(%q) = %v", text, at)
		}
	}
}

func TestRunID(t *testing.T) {
	for _, id := range []string{"a", "0", "20260801T000000-abcdef", "A.b_c-d", "a..b", strings.Repeat("x", 128)} {
		if !sidecar.ValidRunID(id) {
			t.Errorf("%q is refused", id)
		}
	}
	for _, id := range []string{
		"", ".", "..", ".hidden", "-x", "_x", "a/b", "../x", "/abs", `a\b`, "a b", "a\x00", "a\n", "é",
		"c:", "a*", strings.Repeat("x", 129),
	} {
		if sidecar.ValidRunID(id) {
			t.Errorf("%q is accepted", id)
		}
	}
	at := time.Date(2026, 8, 1, 2, 0, 0, 0, time.FixedZone("", 7200))
	id := sidecar.NewRunID(at)
	if !strings.HasPrefix(id, "20260801T000000-") || len(id) != 22 || !sidecar.ValidRunID(id) {
		t.Errorf("NewRunID: %q", id)
	}
}

type text interface {
	MarshalText() ([]byte, error)
	String() string
}

func TestEnums(t *testing.T) {
	var words []string
	check := func(v text, back func([]byte) (any, error)) bool {
		word, err := v.MarshalText()
		if err != nil {
			return false
		}
		if got, err := back(word); err != nil || got != v || string(word) != v.String() {
			t.Errorf("%s reads back as %v, %v", word, got, err)
		}
		words = append(words, string(word))
		return true
	}
	for s := sidecar.State(0); check(s, func(b []byte) (any, error) { var v sidecar.State; err := v.UnmarshalText(b); return v, err }); s++ {
	}
	for r := sidecar.Result(0); check(r, func(b []byte) (any, error) { var v sidecar.Result; err := v.UnmarshalText(b); return v, err }); r++ {
	}
	for r := sidecar.Refusal(0); check(r, func(b []byte) (any, error) { var v sidecar.Refusal; err := v.UnmarshalText(b); return v, err }); r++ {
	}
	for p := sidecar.Phase(0); check(p, func(b []byte) (any, error) { var v sidecar.Phase; err := v.UnmarshalText(b); return v, err }); p++ {
	}
	for c := sidecar.Cleanup(0); check(c, func(b []byte) (any, error) { var v sidecar.Cleanup; err := v.UnmarshalText(b); return v, err }); c++ {
	}
	for r := sidecar.Remains(0); check(r, func(b []byte) (any, error) { var v sidecar.Remains; err := v.UnmarshalText(b); return v, err }); r++ {
	}
	for o := sidecar.Ownership(0); check(o, func(b []byte) (any, error) {
		var v sidecar.Ownership
		err := v.UnmarshalText(b)
		return v, err
	}); o++ {
	}
	for c := sidecar.Cause(0); check(c, func(b []byte) (any, error) { var v sidecar.Cause; err := v.UnmarshalText(b); return v, err }); c++ {
	}
	want := []string{
		"unread", "ok", "absent", "unreadable", "wrong_shape",
		"not_done", "written", "written_unsynced", "unchanged",
		"unspecified", "absent", "lock_unavailable", "unreadable", "wrong_shape", "names_another_run",
		"too_new", "no_space", "read_only", "record_busy", "io_error",
		"none", "running", "interrupt_requested", "completed", "failed", "interrupted", "recovery_needed",
		"unknown", "not_requested", "requested", "completed", "timed_out",
		"unknown", "none", "remain",
		"runtime_task_only", "cleanup_pending", "cleanup_confirmed",
		"none", "user_interrupt", "shutdown", "deadline_exceeded", "provider_failure", "runtime_restart", "runtime_failure",
	}
	if diff := cmp.Diff(want, words); diff != "" {
		t.Error(diff)
	}
	if got := sidecar.State(200).String(); got != "State(200)" {
		t.Error(got)
	}
	for _, err := range []error{
		new(sidecar.State).UnmarshalText([]byte("OK")),
		new(sidecar.Result).UnmarshalText(nil),
		new(sidecar.Refusal).UnmarshalText([]byte("none")),
	} {
		if err == nil {
			t.Error("a stranger was accepted")
		}
	}
}
