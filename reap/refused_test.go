package reap

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/jobprobe/jobprobe/sidecar"
)

// lockJob takes a job's lock, as another program would.
func (w *world) lockJob(id string) (unlock func()) {
	w.t.Helper()
	lock := flock.New(filepath.Join(w.Store.Dir, id, "job.lock"))
	if err := lock.Lock(); err != nil {
		w.t.Fatal(err)
	}
	return func() { _ = lock.Unlock() }
}

// refusedEnd fails unless status, list and wait all say that the end is due,
// was not written, and why.
func refusedEnd(w *world, reason string) {
	w.t.Helper()
	before := w.bytes(runID)
	job := w.status(runID)
	if job.Terminal || job.Outcome != nil || !job.PossiblyOrphaned || str(job.Refused) != reason || string(job.FinishedAt) != "null" {
		w.t.Errorf("status: terminal %v, outcome %s, orphaned %v, refused %s", job.Terminal, str(job.Outcome), job.PossiblyOrphaned, str(job.Refused))
	}
	if rows := w.list(ListOptions{}).Jobs; rows[0].Terminal || str(rows[0].Refused) != reason {
		w.t.Errorf("list: terminal %v, refused %s", rows[0].Terminal, str(rows[0].Refused))
	}
	if got := w.look1(runID); got.AllTerminal || len(got.StoppedWithoutEnd) != 1 {
		w.t.Errorf("wait: all terminal %v, stopped without end %v", got.AllTerminal, got.StoppedWithoutEnd)
	}
	if after := w.bytes(runID); string(after) != string(before) {
		w.t.Errorf("written:\n%s", after)
	}
}

// nextLookEnds fails unless the next observation completes what was refused.
func nextLookEnds(w *world) {
	w.t.Helper()
	job := w.status(runID)
	if !job.Terminal || job.Refused != nil || str(job.Outcome) != sidecar.Indeterminate {
		w.t.Errorf("next look: terminal %v, refused %s", job.Terminal, str(job.Refused))
	}
}

func TestPoint13LockHeld(t *testing.T) {
	w := newWorld(t)
	w.Store.LockWait = 20 * time.Millisecond
	w.putRecord(started())
	unlock := w.lockJob(runID)
	refusedEnd(w, "lock_unavailable")
	unlock()
	nextLookEnds(w)
}

// The lock cannot be made at all: something that is no file is in its place.
func TestPoint13LockImpossible(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"symlink":   func(path string) error { return symlink(filepath.Join(filepath.Dir(path), "elsewhere"), path) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putRecord(started())
			path := filepath.Join(w.Store.Dir, runID, "job.lock")
			if err := plant(path); err != nil {
				t.Skipf("no %s here: %v", name, err)
			}
			refusedEnd(w, "lock_unavailable")
			if _, err := os.Lstat(filepath.Join(w.Store.Dir, runID, "elsewhere")); err == nil {
				t.Error("the lock was made through a symbolic link")
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			nextLookEnds(w)
		})
	}
}

func TestRecordTooNew(t *testing.T) {
	w := newWorld(t)
	w.putRecord(started(set("contract_version", "99")))
	refusedEnd(w, "too_new")
}

// A caller that gives up is told so, and nothing is written afterwards.
func TestCancelled(t *testing.T) {
	w := newWorld(t)
	w.putRecord(started())
	before := w.bytes(runID)
	unlock := w.lockJob(runID)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if job, err := w.Status(ctx, runID); err != nil || job.Terminal || str(job.Refused) != "lock_unavailable" {
		t.Errorf("status: %v, terminal %v, refused %s", err, job.Terminal, str(job.Refused))
	}
	if _, err := w.List(ctx, ListOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
	if _, err := w.Wait(ctx, []string{runID}, WaitOptions{MaxWait: 600, Poll: 60}); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
	if after := w.bytes(runID); string(after) != string(before) {
		t.Errorf("written:\n%s", after)
	}
}

// Hooks are refused too, and say why.
func TestHookRefused(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want sidecar.Refusal
	}{
		"damaged":     {`{"run_id": "` + runID, sidecar.RecordUnreadable},
		"wrong shape": {`[]`, sidecar.RecordWrongShape},
		"no run id":   {`{"status": "running"}`, sidecar.NamesAnotherRun},
		"too new":     {`{"run_id": "` + runID + `", "contract_version": 2}`, sidecar.TooNew},
	} {
		w := newWorld(t)
		w.put(runID, c.data)
		got, err := w.MarkTerminal(t.Context(), runID, Report{Status: "completed"})
		refused, ok := errors.AsType[*sidecar.RefusedError](err)
		if !ok || refused.Reason != c.want || got.Won {
			t.Errorf("%s: won %v, %v", name, got.Won, err)
		}
		if after := w.bytes(runID); string(after) != c.data {
			t.Errorf("%s: written:\n%s", name, after)
		}
	}
	w := newWorld(t)
	if _, err := w.MarkTerminal(t.Context(), "../"+runID, Report{Status: "completed"}); !errors.Is(err, sidecar.ErrRunID) {
		t.Errorf("an id that is a path: %v", err)
	}
}
