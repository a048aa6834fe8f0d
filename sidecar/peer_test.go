package sidecar_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/jobprobe/jobprobe/sidecar"
)

// TestLossless changes one member of a record in which everything is odd that
// the peer could write or keep: the rest survives byte for byte.
func TestLossless(t *testing.T) {
	before := `{
  "zulu": 9007199254740993,
  "run_id": "` + runID + `",
  "alpha": 1E5,
  "one": 1.0,
  "minus": -0,
  "huge": 1e999,
  "digits": ` + strings.Repeat("1234567890", 40) + `,
  "status": "running",
  "finished_at": null,
  "nested": {
    "z": [
      [],
      {},
      [
        1.50,
        {
          "pid": 9007199254740993
        }
      ]
    ],
    "a": false
  },
  "text": "\u00e9 \ud83d\ude00 \u2028 \u007f / \" \\ \b\f\n\r\t \u0000",
  "lone": "\udc00\ud800",
  "\u00fcnkn\u00f6wn [{,:\ud800": "",
  "": true,
  "run-id": "last"
}`
	s := sidecar.Store{Dir: tempDir(t)}
	plant(t, s, runID, before)
	if got, err := s.Update(ctx, runID, set("status", sidecar.Text("ended"))); err != nil || got.Result != sidecar.Written {
		t.Fatal(got.Result, err)
	}
	wantBytes(t, s, strings.Replace(before, `"running"`, `"ended"`, 1))
	if got, err := s.Update(ctx, runID, set("added", sidecar.Float(2))); err != nil || got.Result != sidecar.Written {
		t.Fatal(got.Result, err)
	}
	wantBytes(t, s, strings.TrimSuffix(strings.Replace(before, `"running"`, `"ended"`, 1), "\n}")+",\n  \"added\": 2.0\n}")
}

// TestPeerRecords reads and writes again whatever the peer could have written.
func TestPeerRecords(t *testing.T) { rapid.Check(t, survives) }

// FuzzPeerRecord lets the fuzzer choose what the peer has written.
func FuzzPeerRecord(f *testing.F) { f.Fuzz(rapid.MakeFuzz(survives)) }

// survives draws a record, and checks that a change of one member is all that
// changes in it.
func survives(t *rapid.T) {
	members := drawMembers(t, 3)
	text := laidOut('{', members, '}', 0)
	r, err := sidecar.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if got := string(r.Append(nil)); got != text {
		t.Fatalf("became\n%s\nwas\n%s", got, text)
	}
	r.Set("one member more", sidecar.Bool(true)) // longer than any that is drawn
	if got, want := string(r.Append(nil)), laidOut('{', append(members, `"one member more": true`), '}', 0); got != want {
		t.Fatalf("with a member more\n%s\nwant\n%s", got, want)
	}
}

// laidOut is Python's json.dumps of a container, with an indent of 2.
func laidOut(first byte, items []string, last byte, depth int) string {
	if len(items) == 0 {
		return string([]byte{first, last})
	}
	line := "\n" + strings.Repeat("  ", depth)
	return string(first) + line + "  " + strings.Join(items, ","+line+"  ") + line + string(last)
}

// drawMembers draws the members of an object some levels deep, each key once.
func drawMembers(t *rapid.T, levels int) (members []string) {
	for _, key := range rapid.SliceOfNDistinct(rapid.Custom(drawText), 0, 6, rapid.ID[string]).Draw(t, "keys") {
		members = append(members, key+": "+drawValue(t, levels-1))
	}
	return members
}

// drawValue draws a value in the peer's layout.
func drawValue(t *rapid.T, levels int) string {
	const depth = 3
	kinds := []string{"word", "number", "text", "array", "object"}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); {
	case kind == "word" || levels == 0:
		return rapid.SampledFrom([]string{"null", "true", "false", "[]", "{}"}).Draw(t, "word")
	case kind == "number":
		return rapid.StringMatching(`-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,4})?`).Draw(t, "number")
	case kind == "text":
		return drawText(t)
	case kind == "array":
		var items []string
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			items = append(items, drawValue(t, levels-1))
		}
		return laidOut('[', items, ']', depth-levels)
	}
	return laidOut('{', drawMembers(t, levels), '}', depth-levels)
}

// drawText draws a string, as code units: the peer's may hold lone surrogates.
func drawText(t *rapid.T) string {
	short := map[uint16]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	unit := rapid.OneOf(rapid.Uint16Range('A', 0x7f), rapid.Uint16(), rapid.Uint16Range(0, ' '),
		rapid.Uint16Range(0xd800, 0xdfff), rapid.SampledFrom([]uint16{'"', '\\', '/', '{', '}', '[', ']', ',', ':'}))
	var b strings.Builder
	for _, u := range rapid.SliceOfN(unit, 0, 8).Draw(t, "text") {
		switch escape, ok := short[u]; {
		case ok:
			b.WriteString(escape)
		case u >= ' ' && u < 0x7f:
			b.WriteByte(byte(u))
		default:
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return `"` + b.String() + `"`
}
