package jobprobe

import (
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The stored form, byte for byte. A Linux identity is read and written on
// every system.
const linuxIdentity = `{"os":"linux","pid":"29031","start":"68196","start_unit":"boot_ticks","boot":"1b09c02f-faea-4231-b87d-354d3aa5b314","boot_src":"procfs","pid_ns":"4026531836","time_ns":"4026531834","uniq":"59053","uniq_kind":"pidfs"}`

func TestIdentityJSON(t *testing.T) {
	want := Identity{
		OS: "linux", PID: 29031, Start: 68196, StartUnit: "boot_ticks",
		Boot: "1b09c02f-faea-4231-b87d-354d3aa5b314", BootSrc: "procfs",
		PIDNS: 4026531836, TimeNS: 4026531834, Uniq: 59053, UniqKind: "pidfs",
	}
	got, err := ParseIdentity([]byte(linuxIdentity))
	if err != nil || got != want {
		t.Errorf("parsed %+v, %v", got, err)
	}
	text, err := json.Marshal(want)
	if err != nil || string(text) != linuxIdentity {
		t.Errorf("written %s, %v", text, err)
	}
	text, err = json.Marshal(Identity{PID: 7})
	if err != nil || string(text) != `{"pid":"7"}` {
		t.Errorf("bare number: %s, %v", text, err)
	}
	// A Windows stamp is beyond the integers of a float64.
	windows := `{"os":"windows","pid":"4294967292","start":"133700000000000001","start_unit":"filetime_100ns"}`
	got, err = ParseIdentity([]byte(windows))
	if err != nil || got.Start != 133700000000000001 {
		t.Errorf("windows: %+v, %v", got, err)
	}
	text, err = json.Marshal(got)
	if err != nil || string(text) != windows {
		t.Errorf("windows: %s, %v", text, err)
	}
}

// Any identity that can be recorded comes back equal.
func TestIdentityRoundTrip(t *testing.T) {
	word := rapid.StringMatching(`[ -~é世]{0,20}`)
	rapid.Check(t, func(r *rapid.T) {
		id := Identity{
			OS:      rapid.SampledFrom([]string{"", "linux", "darwin", "windows", "plan9"}).Draw(r, "os"),
			PID:     rapid.Int64().Draw(r, "pid"),
			Start:   rapid.Uint64().Draw(r, "start"),
			Boot:    word.Draw(r, "boot"),
			BootSrc: word.Draw(r, "boot_src"), Host: word.Draw(r, "host"),
			PIDNS: rapid.Uint64().Draw(r, "pid_ns"), TimeNS: rapid.Uint64().Draw(r, "time_ns"),
			Uniq: rapid.Uint64().Draw(r, "uniq"), UniqKind: word.Draw(r, "uniq_kind"),
		}
		id.StartUnit = startUnit
		text, err := json.Marshal(id)
		if err != nil {
			r.Fatal(err)
		}
		back, err := ParseIdentity(text)
		if err != nil || back != id {
			r.Fatalf("%s\ncame back as %+v, %v", text, back, err)
		}
	})
}

// here is a stored identity of this system with one member replaced or added.
func here(member, value string) string {
	members := []string{"os", "pid", "start", "start_unit", "boot", "boot_src", "pid_ns", "time_ns", "uniq", "uniq_kind", "host"}
	values := map[string]string{
		"os": `"` + runtime.GOOS + `"`, "pid": `"4711"`, "start": `"7"`, "start_unit": `"` + startUnit + `"`,
		"boot": `"b"`, "boot_src": `"procfs"`, "pid_ns": `"1"`, "time_ns": `"2"`, "uniq": `"3"`, "uniq_kind": `"pidfs"`, "host": `"h"`,
	}
	if _, known := values[member]; !known {
		members = append(members, member)
	}
	values[member] = value
	var b strings.Builder
	for _, name := range members {
		if v := values[name]; v != "" {
			b.WriteString(`,"` + name + `":` + v)
		}
	}
	return "{" + b.String()[1:] + "}"
}

// Every way to damage a stored number: none becomes another number.
var badNumbers = []string{
	`"-1"`, `"+1"`, `"01"`, `"00"`, `" 1"`, `"1 "`, `"1.0"`, `"1e3"`, `"0x1"`, `"1_0"`, `"x"`, `"١"`,
	`"18446744073709551616"`, `"99999999999999999999999"`, `"NaN"`, `"nan"`, `"Infinity"`,
	`1`, `0`, `1.5`, `null`, `true`, `[]`, `{}`, `["1"]`,
}

// A damaged stamp is dropped, with the rest of the stamp: it is never taken
// for a difference, and never for "not recorded".
func TestParseIdentityBadStamp(t *testing.T) {
	cases := map[string][]string{
		"start": badNumbers, "uniq": badNumbers, "time_ns": badNumbers,
		"start_unit": {`"ticks"`, `"Boot_ticks"`, `""`, ``, `null`, `5`, `"boot_ticks "`, `"another"`},
		"uniq_kind":  {`null`, `5`, `{}`},
	}
	for member, values := range cases {
		for _, value := range values {
			text := here(member, value)
			id, err := ParseIdentity([]byte(text))
			var bad *IdentityError
			if !errors.As(err, &bad) || !strings.HasPrefix(member, bad.Field) && bad.Field != member {
				t.Errorf("%s: error %v", text, err)
			}
			if id.Start != 0 || id.Uniq != 0 || !id.unusable || id.PID != 4711 || !id.stampRecorded() {
				t.Errorf("%s: %+v", text, id)
			}
			if rel := relate(&id, &scope{boot: "b", bootReal: true, pidNS: 1, timeNS: 2, host: "h"}, time.Time{}); rel.uniq || rel.start {
				t.Errorf("%s: comparable", text)
			}
		}
	}
}

// A damaged number or scope leaves nothing to ask about.
func TestParseIdentityBadScope(t *testing.T) {
	cases := map[string][]string{
		"pid":    {`"+1"`, `"01"`, `" 1"`, `"1.0"`, `"1e3"`, `"x"`, `""`, ``, `"-0"`, `1`, `1.5`, `null`, `true`, `[]`, `{}`},
		"pid_ns": badNumbers,
		"os":     {`null`, `5`, `[]`},
		"boot":   {`null`, `5`}, "boot_src": {`null`, `5`}, "host": {`null`, `5`, `{}`},
	}
	for member, values := range cases {
		for _, value := range values {
			text := here(member, value)
			unusableAs(t, text, member)
			// A second damage, to the stamp, does not make it less damaged.
			unusableAs(t, strings.Replace(text, `"start":"7"`, `"start":"-7"`, 1), "")
		}
	}
}

// unusableAs checks that a text is refused with an error about a member (any
// if empty), and probed as an unusable number.
func unusableAs(t *testing.T, text, member string) {
	t.Helper()
	id, err := ParseIdentity([]byte(text))
	var bad *IdentityError
	if !errors.As(err, &bad) || member != "" && bad.Field != member {
		t.Errorf("%s: error %v", text, err)
	}
	if v := Probe(id); v.Finding != UnusablePID || len(v.Evidence.Calls()) != 0 {
		t.Errorf("%s: probed as %v", text, v.Finding)
	}
}

// Numbers that no process can have are no damage: Probe says what they are.
func TestParseIdentityWidePID(t *testing.T) {
	for text, want := range map[string]int64{
		`"0"`: 0, `"-1"`: -1, `"4294967297"`: 1<<32 + 1, `"9223372036854775807"`: math.MaxInt64,
		`"18446744073709551616"`: math.MaxInt64, `"-9223372036854775808"`: math.MinInt64,
	} {
		id, err := ParseIdentity([]byte(here("pid", text)))
		if err != nil || id.PID != want {
			t.Errorf("%s: %d, %v", text, id.PID, err)
		}
		if v := Probe(id); v.Finding != UnusablePID {
			t.Errorf("%s: probed as %v", text, v.Finding)
		}
	}
}

// Texts that are no identity at all, and what is tolerated.
func TestParseIdentityShape(t *testing.T) {
	good := here("os", `"`+runtime.GOOS+`"`)
	for _, text := range []string{
		``, ` `, `null`, `true`, `7`, `"x"`, `[]`, `[` + good + `]`, `{`, good + `x`, good + good, good[1:],
		"\ufeff" + good, good + "\x00", `{"pid":"1","pid":"1"}`, `{"pid":"1","x":1,"x":2}`, `{"pid":"1","x":{"y":1,"y":2}}`,
		`{"pid":"\ud800"}`, "{\"pid\":\"1\",\"boot\":\"\xff\"}", `{"pid":"1",}`, `{'pid':'1'}`, `{"pid":NaN}`,
	} {
		id, err := ParseIdentity([]byte(text))
		if err == nil || id != (Identity{}) {
			t.Errorf("%q: %+v, %v", text, id, err)
		}
		kept := Identity{PID: 9}
		if err := kept.UnmarshalJSON([]byte(text)); err == nil || kept != (Identity{PID: 9}) {
			t.Errorf("%q: unmarshalled to %+v, %v", text, kept, err)
		}
	}
	want, err := ParseIdentity([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	for member, value := range map[string]string{
		"more": `{"a":[1,null]}`, "PID": `"1"`, "Start": `5`, "start ": `"9"`, "BOOT": `null`,
	} {
		if id, err := ParseIdentity([]byte(here(member, value))); err != nil || id != want {
			t.Errorf("with %s: %+v, %v", member, id, err)
		}
	}
	if id, err := ParseIdentity([]byte("\n " + good + " \n")); err != nil || id != want {
		t.Errorf("with space around: %v", err)
	}
	if id, err := ParseIdentity([]byte(here("start", `"0"`))); err != nil || id.Start != 0 || id.Uniq != 3 {
		t.Errorf("start 0 is not recorded: %+v, %v", id, err)
	}
	if id, err := ParseIdentity([]byte(here("os", `"plan9"`))); err != nil || Probe(id).Finding != ForeignHost {
		t.Errorf("another system: %v", err)
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add([]byte(linuxIdentity))
	f.Add([]byte(here("start", `"-1"`)))
	f.Add([]byte(here("pid", `"18446744073709551616"`)))
	f.Add([]byte(here("boot", `null`)))
	f.Add([]byte(`{"pid":"1","pid":"2"}`))
	f.Add([]byte(`{"pid":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		id, err := ParseIdentity(text)
		if err != nil && (id.Start != 0 || id.Uniq != 0) {
			t.Fatalf("refused, and stamped %+v", id)
		}
		if err != nil && !id.unusable && id != (Identity{}) {
			t.Fatalf("refused, and left %+v", id)
		}
		if err != nil {
			return
		}
		if !utf8.Valid(text) {
			t.Fatal("bad UTF-8 was accepted")
		}
		again, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseIdentity(again); err != nil || back != id {
			t.Fatalf("%s came back as %+v, %v", again, back, err)
		}
	})
}
