package sidecar_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// golden returns the directory of recorded cases of the peer program.
func golden(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("JOBPROBE_GOLDEN")
	if dir == "" {
		t.Skip("JOBPROBE_GOLDEN is not set")
	}
	return dir
}

func goldenFile(t *testing.T, name, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(golden(t), name, file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestGoldenBytes reads each record that the peer wrote and writes it again.
func TestGoldenBytes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden(t), "*", "after.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	read := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sidecar.Parse(bytes.Clone(data))
		if err != nil {
			continue // the S1 and X14 cases are damaged on purpose
		}
		read++
		if got := r.Append(nil); !bytes.Equal(got, data) {
			t.Errorf("%s became\n%s", file, got)
		}
	}
	if read < len(files)/2 {
		t.Errorf("%d of %d records could be read", read, len(files))
	}
}

// TestGoldenStates reads every case: the damaged ones are damaged, no other is.
func TestGoldenStates(t *testing.T) {
	damaged := map[string]sidecar.DamagedError{
		"S1-array":       {State: sidecar.WrongShape, Reason: "not a JSON object"},
		"S1-number":      {State: sidecar.WrongShape, Reason: "not a JSON object"},
		"S1-string":      {State: sidecar.WrongShape, Reason: "not a JSON object"},
		"S1-empty":       {State: sidecar.Unreadable, Reason: "empty"},
		"S1-not-utf8":    {State: sidecar.Unreadable, Reason: `invalid character '\xff' at start of value`},
		"S1-truncated":   {State: sidecar.Unreadable, Offset: 22, Reason: "unexpected EOF"},
		"X14-nan-record": {State: sidecar.Unreadable, Offset: 75, Reason: `invalid character 'N' at start of value`},
	}
	files, err := filepath.Glob(filepath.Join(golden(t), "*", "before.json"))
	if err != nil || len(files) <= len(damaged) {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		s := sidecar.Store{Dir: tempDir(t)}
		plant(t, s, runID, string(goldenFile(t, name, "before.json")))
		got := s.Read(runID)
		var what sidecar.DamagedError
		if e, ok := errors.AsType[*sidecar.DamagedError](got.Err); ok {
			what = *e
		}
		want, bad := damaged[name]
		if what != want || bad && got.State != want.State || !bad && got.State != sidecar.OK {
			t.Errorf("%s: %v, %+v; want %+v", name, got.State, what, want)
		}
	}
}

// TestGoldenTransitions makes the peer's transitions on the peer's records.
func TestGoldenTransitions(t *testing.T) {
	reap := func(s sidecar.Store, at time.Time) (sidecar.Transition, error) {
		return s.Reap(context.Background(), runID, sidecar.Reaping{Finding: jobprobe.PIDAbsent, At: at})
	}
	for name, transit := range map[string]func(sidecar.Store, time.Time) (sidecar.Transition, error){
		"L1-pid-absent": reap, "R1-old-shape": reap, "R5-notice-delivered": reap,
		"D2-hook-first": func(s sidecar.Store, at time.Time) (sidecar.Transition, error) {
			return s.EndByHook(context.Background(), runID, sidecar.HookEnd{Status: "timed_out", At: at})
		},
	} {
		s := sidecar.Store{Dir: tempDir(t)}
		plant(t, s, runID, string(goldenFile(t, name, "before.json")))
		after := goldenFile(t, name, "after.json")
		finished, _ := mustParse(t, string(after)).Text("finished_at")
		at, ok := sidecar.ParseTime(finished)
		if !ok {
			t.Fatalf("%s: finished_at %q", name, finished)
		}
		got, err := transit(s, at)
		if err != nil || !got.Won || got.Result != sidecar.Written {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		wantBytes(t, s, string(after))
		if again, err := reap(s, at.Add(time.Hour)); err != nil || again.Won || again.Result != sidecar.Unchanged {
			t.Errorf("%s, again: %+v, %v", name, again, err)
		}
		wantBytes(t, s, string(after))
	}
}
