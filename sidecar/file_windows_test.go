package sidecar_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/jobprobe/jobprobe/sidecar"
)

// replacesOpen skips where no file can be replaced while somebody has it open:
// under wine before version 9, and on file systems without POSIX renames.
func replacesOpen(t *testing.T) {
	t.Helper()
	dir := tempDir(t)
	for _, name := range []string{"old", "new"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	reader, err := root.Open("old")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := root.Rename("new", "old"); err != nil {
		t.Skipf("this system replaces no file that is open: %v", err)
	}
}

// TestRecordBusy holds the record open as programs do that forbid everything
// but reading. The replace is given up after its tries, and nothing is left.
func TestRecordBusy(t *testing.T) {
	s := newStore(t, record(runID))
	name, err := windows.UTF16PtrFromString(filepath.Join(s.Dir, runID, "job.json"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Update(ctx, runID, set("a", sidecar.Int(1)))
	if err := windows.CloseHandle(h); err != nil {
		t.Error(err)
	}
	wantRefused(t, err, sidecar.RecordBusy)
	if got.Result != sidecar.NotDone {
		t.Error(got.Result)
	}
	wantBytes(t, s, string(record(runID).Append(nil)))
	wantFiles(t, s, "job.json", "job.lock")
	if got, err := s.Update(ctx, runID, set("a", sidecar.Int(1))); err != nil || got.Result != sidecar.Written {
		t.Errorf("once it is closed: %v, %v", got.Result, err)
	}
}

// TestCaseF7DirectorySync has no directory sync: the change is told as made.
func TestCaseF7DirectorySync(t *testing.T) {
	s := newStore(t, record(runID))
	if got, err := s.Update(ctx, runID, set("a", sidecar.Int(1))); err != nil || got.Result != sidecar.Written {
		t.Error(got.Result, err)
	}
}

// TestCaseF8LockBesideRecord reads while the lock is held. A lock here keeps
// others from reading what is locked, so it must be on another file.
func TestCaseF8LockBesideRecord(t *testing.T) {
	s := newStore(t, record(runID))
	if _, err := s.Update(ctx, runID, func(*sidecar.Record) error {
		if got := s.Read(runID); got.State != sidecar.OK {
			t.Errorf("%v: %v", got.State, got.Err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
