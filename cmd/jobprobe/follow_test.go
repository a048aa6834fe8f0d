package main

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// The last lines are found in a file as they are in a text, wherever the pieces
// that are read of it begin.
func TestTailOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		for _, length := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 65535, 65536, 65537, 70000}), 0, 6).Draw(t, "lines") {
			text = append(append(text, bytes.Repeat([]byte("x"), length)...), '\n')
		}
		if len(text) > 0 && rapid.Bool().Draw(t, "open end") {
			text = text[:len(text)-1]
		}
		n := rapid.IntRange(1, 8).Draw(t, "n")
		got, err := tailOffset(bytes.NewReader(text), n)
		if want := lastLines(text, n); err != nil || got != int64(want) {
			t.Fatalf("%d lines of %d bytes begin at %d, want %d (%v)", n, len(text), got, want, err)
		}
	})
}
