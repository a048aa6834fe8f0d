package sidecar_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

const runID = "20260801T000000-abcdef"

// record returns a started, unended record, in the peer's order.
func record(id string, more ...sidecar.Field) *sidecar.Record {
	r := sidecar.NewRecord(
		sidecar.Field{Name: "run_id", Value: sidecar.Text(id)},
		sidecar.Field{Name: "pid", Value: sidecar.Int(2147483000)},
		sidecar.Field{Name: "pid_create_time", Value: sidecar.Float(1700000000.25)},
		sidecar.Field{Name: "status", Value: sidecar.Text("running")},
		sidecar.Field{Name: "spawn_state", Value: sidecar.Text("started")},
		sidecar.Field{Name: "finished_at", Value: sidecar.Null()},
		sidecar.Field{Name: "log", Value: sidecar.Null()},
	)
	for _, f := range more {
		r.Set(f.Name, f.Value)
	}
	return r
}

// tempDir returns a directory that is gone after the test.
var tempDir = testproc.TempDir

// newStore returns a store whose one run has the given record.
func newStore(t testing.TB, rec *sidecar.Record) sidecar.Store {
	t.Helper()
	s := sidecar.Store{Dir: tempDir(t)}
	if err := s.Create(runID, rec); err != nil {
		t.Fatal(err)
	}
	return s
}

// plant makes a job directory by hand, with the given bytes as its record.
func plant(t testing.TB, s sidecar.Store, id, text string) string {
	t.Helper()
	dir := filepath.Join(s.Dir, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "job.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantBytes checks the record's bytes on disk.
func wantBytes(t testing.TB, s sidecar.Store, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(s.Dir, runID, "job.json"))
	if err != nil || string(got) != want {
		t.Errorf("record: %v\n%s\nwant\n%s", err, got, want)
	}
}

// wantFiles checks which files the run's directory holds.
func wantFiles(t testing.TB, s sidecar.Store, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Dir, runID))
	if err != nil {
		t.Error(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

// set returns a change that sets one member.
func set(name string, v sidecar.Value) func(*sidecar.Record) error {
	return func(r *sidecar.Record) error {
		r.Set(name, v)
		return nil
	}
}

// wantNoTemp checks that a run's directory holds a record and a lock at most.
func wantNoTemp(t interface{ Errorf(string, ...any) }, dir string, after any) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Errorf("%v: %v", after, err)
	}
	for _, e := range entries {
		if e.Name() != "job.json" && e.Name() != "job.lock" {
			t.Errorf("%v left %s", after, e.Name())
		}
	}
}
