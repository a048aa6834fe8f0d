package sidecar_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/sidecar"
)

func TestIDs(t *testing.T) {
	s := sidecar.Store{Dir: filepath.Join(tempDir(t), "jobs")}
	if ids, err := s.IDs(); len(ids) != 0 || err != nil {
		t.Errorf("no store: %v, %v", ids, err)
	}
	for _, id := range []string{"b", "a", "c", "-bad"} {
		plant(t, s, id, "damaged")
	}
	for _, dir := range []string{"empty", "d/job.json"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ids, err := s.IDs()
	if diff := cmp.Diff([]string{"d", "c", "b", "a"}, ids); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if ids, err := (sidecar.Store{Dir: filepath.Join(s.Dir, "file")}).IDs(); err == nil {
		t.Errorf("a store that is a file has %v", ids)
	}
}

func TestCreate(t *testing.T) {
	s := sidecar.Store{Dir: filepath.Join(tempDir(t), "state", "jobs")}
	rec := record(runID)
	if err := s.Create(runID, rec); err != nil {
		t.Fatal(err)
	}
	wantBytes(t, s, string(rec.Append(nil)))
	wantFiles(t, s, "job.json")
	for path, want := range map[string]fs.FileMode{
		filepath.Dir(s.Dir): 0o700, s.Dir: 0o700, filepath.Join(s.Dir, runID): 0o700,
		filepath.Join(s.Dir, runID, "job.json"): 0o600,
	} {
		if info, err := os.Stat(path); err != nil || unixModes && info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := s.Create(runID, record(runID, sidecar.Field{Name: "second", Value: sidecar.Null()})); !errors.Is(err, sidecar.ErrExists) {
		t.Errorf("a second creation: %v", err)
	}
	wantBytes(t, s, string(rec.Append(nil)))
}

func TestCreateRefusals(t *testing.T) {
	s := sidecar.Store{Dir: tempDir(t)}
	wantRefused(t, s.Create(runID, record("another")), sidecar.NamesAnotherRun)
	wantRefused(t, s.Create(runID, sidecar.NewRecord()), sidecar.NamesAnotherRun)
	if err := s.Create(runID, record(runID, sidecar.Field{Name: "bad", Value: sidecar.Value("{")})); err == nil {
		t.Error("a record that is no JSON was accepted")
	}
	huge := sidecar.Field{Name: "huge", Value: sidecar.Text(strings.Repeat("x", 16<<20))}
	if err := s.Create(runID, record(runID, huge)); !errors.Is(err, sidecar.ErrTooLarge) {
		t.Errorf("a huge record: %v", err)
	}
	if entries, err := os.ReadDir(s.Dir); len(entries) != 0 || err != nil {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestCreateHasOneWinner(t *testing.T) {
	s := sidecar.Store{Dir: filepath.Join(tempDir(t), "a", "b")}
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for i := range cap(errs) {
		wg.Go(func() {
			errs <- s.Create(runID, record(runID, sidecar.Field{Name: "n", Value: sidecar.Int(int64(i))}))
		})
	}
	wg.Wait()
	close(errs)
	won := 0
	for err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, sidecar.ErrExists):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d winners", won)
	}
	if got := s.Read(runID); got.State != sidecar.OK {
		t.Error(got.State, got.Err)
	}
}
