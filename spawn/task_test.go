package spawn

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A task arrives as it was given, whatever bytes are in it.
func TestTask(t *testing.T) {
	text := rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })
	list := rapid.SliceOfN(text, 1, -1)
	rapid.Check(t, func(t *rapid.T) {
		want := task{
			Dir: text.Draw(t, "dir"), Argv: list.Draw(t, "argv"), Env: list.Draw(t, "env"), Notifier: list.Draw(t, "notifier"),
			Timeout: 1<<62 + 1, LogMax: rapid.Int64().Draw(t, "log"), HideArgv: rapid.Bool().Draw(t, "hide"),
		}
		var sent bytes.Buffer
		if err := want.writeTo(&sent); err != nil {
			t.Fatal(err)
		}
		got, err := readTask(&sent)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}
