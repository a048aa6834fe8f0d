package main

import (
	"strings"
	"testing"

	"github.com/clipperhouse/displaywidth"
	"pgregory.net/rapid"
)

// A table fits the screen, cuts its free text first, by display width, and
// nothing at all where there is no screen.
func TestTableFits(t *testing.T) {
	rows := func() [][]string {
		return [][]string{
			{"RUN ID", "STATUS", "REASON", "LABEL"},
			{"20260101T000000-abcdef", "exited", "process_gone_without_outcome", "日本語のとても長い名前です"},
			{"20260101T000000-fedcba", "running", "", "e\u0301te\u0301"},
		}
	}
	for _, test := range []struct {
		screen screen
		want   string
	}{
		{screen{}, "" +
			"RUN ID                  STATUS   REASON                        LABEL\n" +
			"20260101T000000-abcdef  exited   process_gone_without_outcome  日本語のとても長い名前です\n" +
			"20260101T000000-fedcba  running                                e\u0301te\u0301\n"},
		{screen{width: 80}, "" +
			"RUN ID                  STATUS   REASON                        LABEL\n" +
			"20260101T000000-abcdef  exited   process_gone_without_outcome  日本語のとても長…\n" +
			"20260101T000000-fedcba  running                                e\u0301te\u0301\n"},
		{screen{width: 60}, "" +
			"RUN ID                  STATUS   REASON             LABEL\n" +
			"20260101T000000-abcdef  exited   process_gone_wit…  日本語…\n" +
			"20260101T000000-fedcba  running                     e\u0301te\u0301\n"},
		{screen{width: 40}, "" +
			"RUN ID                  STATUS   REASON\n" +
			"20260101T000000-abcdef  exited   proces…\n" +
			"20260101T000000-fedcba  running\n"},
	} {
		if got := test.screen.layout(rows(), 3, 2); got != test.want {
			t.Errorf("%d columns:\n%s\nwant\n%s", test.screen.width, got, test.want)
		}
	}
}

// No line is wider than the screen, whatever is in it.
func TestTableNeverWiderThanTheScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.SliceOfN(rapid.String(), 1, 6), 1, 5).Draw(t, "rows")
		s := screen{width: rapid.IntRange(1, 100).Draw(t, "width")}
		for line := range strings.Lines(s.layout(rows, rapid.SliceOfN(rapid.IntRange(0, 0), 0, 1).Draw(t, "cut")...)) {
			if width := displaywidth.String(strings.TrimSuffix(line, "\n")); width > s.width {
				t.Fatalf("%d columns on %d: %q", width, s.width, line)
			}
		}
	})
}

// Only words of state have a colour, and only where there are colours.
func TestTableColours(t *testing.T) {
	rows := [][]string{{"id", "running", "x"}}
	if got := (screen{width: 80}).layout(rows); strings.Contains(got, "\x1b") {
		t.Errorf("without colours: %q", got)
	}
	if got, want := (screen{width: 80, colour: true}).layout(rows), "id  "+moving+"running"+normal+"  x\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
