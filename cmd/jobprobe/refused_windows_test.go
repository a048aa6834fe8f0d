package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// TestRecordBusy holds a record open as programs do that forbid everything but
// reading, and reports its end.
func TestRecordBusy(t *testing.T) {
	dir := testproc.TempDir(t)
	path := filepath.Join(dir, "busy", "job.json")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"run_id": "busy", "finished_at": null}`), 0o600); err != nil {
		t.Fatal(err)
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	out, code := cliCall(t, dir, "--json", "hook", "--run-id", "busy")
	if err := windows.CloseHandle(h); err != nil {
		t.Error(err)
	}
	if code != exitRefused || !strings.Contains(out, `"reason_code":"record_busy"`) {
		t.Errorf("exit status %d: %s", code, out)
	}
	if out, code := cliCall(t, dir, "--json", "hook", "--run-id", "busy"); code != exitOK || !strings.Contains(out, `"result":"written"`) {
		t.Errorf("once it is closed: exit status %d: %s", code, out)
	}
}
