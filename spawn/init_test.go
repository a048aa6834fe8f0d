package spawn

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// A program that does not call Init would start itself again and again.
func TestNoInit(t *testing.T) {
	initialized = false
	defer func() { initialized = true }()
	store := sidecar.Store{Dir: filepath.Join(testproc.TempDir(t), "jobs")}
	if _, err := Start(t.Context(), store, Request{Argv: []string{"true"}}); !errors.Is(err, ErrNoInit) {
		t.Errorf("started: %v", err)
	}
	if _, err := os.Stat(store.Dir); err == nil {
		t.Error("something was written")
	}
}
