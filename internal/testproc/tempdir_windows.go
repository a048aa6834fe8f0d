package testproc

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TempDir is t.TempDir, removed file by file: os.RemoveAll deletes by handle,
// which wine before version 9 does not have.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "jobprobe-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A file that is still open goes when it is closed, and its directory
		// only then.
		for range 100 {
			if err = removeTree(dir); err == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Error(err)
	})
	return dir
}

// removeTree removes what it can, leaves first, and returns what was in the
// way of the root.
func removeTree(dir string) (err error) {
	var paths []string
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		paths = append(paths, path)
		return nil
	})
	for _, path := range slices.Backward(paths) {
		err = os.Remove(path)
	}
	return err
}
