package sidecar_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/sidecar"
)

// TestCrashAtEverySystemCall kills a transaction before each of its system
// calls, and the other kinds of writers before each that could leave something.
// What is left is the old record or the new one, and a free lock; the next
// writer completes the change and removes what was left.
func TestCrashAtEverySystemCall(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(writers)) {
		t.Run(name, func(t *testing.T) { killAtEvery(t, name, name == "reap") })
	}
}

// TestStressCrashAtEverySystemCall leaves out nothing.
func TestStressCrashAtEverySystemCall(t *testing.T) {
	stressed(t)
	for _, name := range slices.Sorted(maps.Keys(writers)) {
		t.Run(name, func(t *testing.T) { killAtEvery(t, name, true) })
	}
}

func killAtEvery(t *testing.T, name string, all bool) {
	t.Helper()
	w := writers[name]
	before, after := w.written(t)
	list := points(t, "write", newStore(t, w.begin()).Dir, name)
	if !all {
		list = slices.DeleteFunc(list, func(p point) bool {
			return !slices.Contains([]string{"openat", "flock", "fchmod", "write", "fsync", "close", "renameat", "renameat2"}, p.call)
		})
	}
	seen := map[string]int{}
	for _, p := range list {
		s := newStore(t, w.begin())
		if out := inject(t, "write", []string{s.Dir, name}, p, "signal=KILL"); out != "" {
			t.Errorf("%v: not killed: %s", p, out)
		}
		left := bytesAt(t, s)
		if left != before && left != after {
			t.Errorf("%v left\n%s", p, left)
		}
		seen[left]++
		completes(t, s, w, p, left == before, after)
	}
	if seen[before] == 0 || seen[after] == 0 {
		t.Errorf("%d calls: %d left the old record, %d the new", len(list), seen[before], seen[after])
	}
	t.Logf("count: killed at %d calls: %d left the old record, %d the new", len(list), seen[before], seen[after])
}

// completes checks that the lock is free, that the same change goes through if
// it was not made, and that the next writer leaves no temporary file.
func completes(t *testing.T, s sidecar.Store, w writer, p point, again bool, after string) {
	t.Helper()
	wantLockFree(t, s, p)
	if again {
		if got, err := w.write(s); err != nil || got.Result != sidecar.Written {
			t.Errorf("%v: the next: %+v, %v", p, got, err)
		}
	}
	wantBytes(t, s, after)
	if got, err := s.Update(ctx, runID, set("next", sidecar.Bool(true))); err != nil || got.Result != sidecar.Written {
		t.Errorf("%v: the next writer: %+v, %v", p, got, err)
	}
	wantFiles(t, s, "job.json", "job.lock")
}

// TestErrorAtEverySystemCall fails each system call of a transaction with each
// error. What is reported is true: nothing was written, or all was.
func TestErrorAtEverySystemCall(t *testing.T) {
	t.Parallel()
	failAtEvery(t, "reap")
}

// TestStressErrorAtEverySystemCall does that to the other kinds of writers.
func TestStressErrorAtEverySystemCall(t *testing.T) {
	stressed(t)
	for _, name := range slices.Sorted(maps.Keys(writers)) {
		t.Run(name, func(t *testing.T) { failAtEvery(t, name) })
	}
}

// TestWritersMakeTheSameCalls shows that what holds for one kind of writer at a
// system call holds for all.
func TestWritersMakeTheSameCalls(t *testing.T) {
	t.Parallel()
	want := points(t, "write", newStore(t, record(runID)).Dir, "reap")
	for name, w := range writers {
		if diff := cmp.Diff(want, points(t, "write", newStore(t, w.begin()).Dir, name), cmp.AllowUnexported(point{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	t.Logf("count: %d kinds of writers make the same %d calls", len(writers), len(want))
}

func failAtEvery(t *testing.T, name string) {
	t.Helper()
	w := writers[name]
	before, after := w.written(t)
	list := points(t, "write", newStore(t, w.begin()).Dir, name)
	for _, fault := range faults {
		seen := map[string]int{}
		for _, p := range list {
			s := newStore(t, w.begin())
			out := inject(t, "write", []string{s.Dir, name}, p, "error="+fault)
			result, rest, _ := strings.Cut(out, " ")
			_, why, _ := strings.Cut(rest, " ")
			seen[result]++
			seen[why]++
			want := before
			switch result {
			case "written", "written_unsynced":
				want = after
			case "not_done":
			default:
				t.Errorf("%s at %v: %q", fault, p, out)
			}
			if got := bytesAt(t, s); got != want {
				t.Errorf("%s at %v: %q, but the record is\n%s", fault, p, out, got)
			}
			wantReason(t, fault, p, result, why)
			if p.call != "unlinkat" {
				wantNoTemp(t, filepath.Join(s.Dir, runID), p)
			}
			completes(t, s, w, p, want == before, after)
		}
		delete(seen, "-")
		t.Logf("count: %s at %d calls: %v", fault, len(list), seen)
		if seen["not_done"] == 0 && fault != "EINTR" || seen["written"] == 0 {
			t.Errorf("%s: the faults did not reach the transaction: %v", fault, seen)
		}
	}
}

// wantReason checks that the outcome names the error: where it struck before
// the record was replaced, and what it was where that has a name of its own.
func wantReason(t *testing.T, fault string, p point, result, why string) {
	t.Helper()
	// The second sync is the directory's.
	publishes := slices.Contains([]string{"write", "fchmod", "renameat", "renameat2"}, p.call) || p == point{"fsync", 1}
	switch {
	case fault == "EINTR" && result != "written", // one is nothing: the call is repeated
		fault != "EINTR" && publishes && result != "not_done",
		fault != "EINTR" && p == point{"fsync", 2} && result != "written_unsynced",
		result != "not_done" && why != "-":
		t.Errorf("%s at %v: %s %s", fault, p, result, why)
	case result != "not_done":
		return
	}
	named := map[string]string{"ENOSPC": "no_space", "EDQUOT": "no_space", "EROFS": "read_only"}[fault]
	switch {
	case publishes && named == "" && why != "io_error", publishes && named != "" && why != named,
		why != named && why != "unreadable" && (named != "" || why != "io_error" && why != "lock_unavailable"):
		t.Errorf("%s at %v is told as %q", fault, p, why)
	}
}

// TestOrderOfPublishing checks that contents are durable before a name leads to
// them, and the name after that.
func TestOrderOfPublishing(t *testing.T) {
	var order []string
	for _, p := range points(t, "write", newStore(t, record(runID)).Dir, "reap") {
		switch p.call {
		case "write", "fchmod", "fsync", "renameat", "renameat2", "unlinkat":
			order = append(order, strings.TrimSuffix(p.call, "2"))
		}
	}
	want := []string{"fchmod", "write", "fsync", "renameat", "fsync"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
}

// TestCaseF26DirectorySyncFails fails the second sync, which comes after the rename.
func TestCaseF26DirectorySyncFails(t *testing.T) {
	list := points(t, "write", newStore(t, record(runID)).Dir, "reap")
	var syncs []point
	for _, p := range list {
		if p.call == "fsync" {
			syncs = append(syncs, p)
		}
	}
	if len(syncs) != 2 {
		t.Fatalf("syncs %v in %v", syncs, list)
	}
	for _, fault := range []string{"EIO", "EINVAL", "EOPNOTSUPP"} {
		s := newStore(t, record(runID))
		if out := inject(t, "write", []string{s.Dir, "reap"}, syncs[1], "error="+fault); out != "written_unsynced true -" {
			t.Errorf("%s: %q", fault, out)
		}
		_, after := writers["reap"].written(t)
		wantBytes(t, s, after)
	}
	s := newStore(t, record(runID))
	if out := inject(t, "write", []string{s.Dir, "reap"}, point{"fsync", 1}, "error=EINTR"); out != "written true -" {
		t.Errorf("one interrupt: %q", out)
	}
	cmd := strace(t, "write", []string{newStore(t, record(runID)).Dir, "reap"}, "-o", "/dev/null", "-e", "inject=fsync:error=EINTR")
	if out, err := cmd.Output(); err != nil || string(out) != "not_done false io_error\n" {
		t.Errorf("interrupts without end: %q, %v", out, err)
	}
}

// TestCaseF19LockFaults fails the lock's creation and its acquisition.
func TestCaseF19LockFaults(t *testing.T) {
	before, _ := writers["reap"].written(t)
	points(t, "write", newStore(t, record(runID)).Dir, "reap") // skips where strace cannot work
	for fault, want := range map[string]string{
		"flock:error=ENOLCK":       "not_done false lock_unavailable",
		"flock:error=EOPNOTSUPP":   "not_done false lock_unavailable",
		"flock:error=ENOSYS":       "not_done false lock_unavailable",
		"flock:error=EBADF":        "not_done false lock_unavailable",
		"flock:error=EINTR":        "not_done false lock_unavailable",
		"flock:error=EINTR:when=1": "written true -",
	} {
		s := newStore(t, record(runID))
		cmd := strace(t, "write", []string{s.Dir, "reap"}, "-o", "/dev/null", "-e", "inject="+fault)
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v", fault, out, err)
		}
		if strings.HasPrefix(want, "not_done") {
			wantBytes(t, s, before)
		}
		if got := s.Read(runID); got.State != sidecar.OK {
			t.Errorf("%s: reading needs no lock: %v", fault, got.Err)
		}
	}
	for fault, want := range map[string]string{
		"EACCES": "lock_unavailable", "EMFILE": "lock_unavailable", "EROFS": "read_only",
		"ENOSPC": "no_space", "EDQUOT": "no_space",
	} {
		s := newStore(t, record(runID))
		cmd := strace(t, "write", []string{s.Dir, "reap"}, "-o", "/dev/null",
			"-P", filepath.Join(s.Dir, runID, "job.lock"), "-e", "inject=openat:error="+fault)
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "not_done false "+want {
			t.Errorf("opening the lock, %s: %q, %v", fault, out, err)
		}
		wantBytes(t, s, before)
		wantNoTemp(t, filepath.Join(s.Dir, runID), fault)
	}
}

// TestCreateFaults kills and fails the creation of a run at each system call.
func TestCreateFaults(t *testing.T) {
	t.Parallel()
	failCreation(t, "EIO", "ENOSPC", "EROFS")
}

func TestStressCreateFaults(t *testing.T) {
	stressed(t)
	failCreation(t, faults...)
}

func failCreation(t *testing.T, faults ...string) {
	t.Helper()
	store := func() sidecar.Store { return sidecar.Store{Dir: filepath.Join(tempDir(t), "jobs")} }
	want := string(record(runID).Append(nil))
	list := points(t, "create", store().Dir)
	for _, p := range list {
		s := store()
		if out := inject(t, "create", []string{s.Dir}, p, "signal=KILL"); out != "" {
			t.Errorf("%v: not killed: %s", p, out)
		}
		if got := bytesAt(t, s); got != "" && got != want {
			t.Errorf("%v left\n%s", p, got)
		}
		for _, fault := range faults {
			s := store()
			out := inject(t, "create", []string{s.Dir}, p, "error="+fault)
			state := s.Read(runID).State
			switch {
			// An interrupted sync is repeated, and a directory that may not be
			// read is not synced.
			case out == "created" && p.call == "fsync" && fault != "EINTR" && fault != "EACCES":
				t.Errorf("%s at %v: created, and it is not known to be durable", fault, p)
			case out == "created" || out == "unsynced":
				if state != sidecar.OK || bytesAt(t, s) != want {
					t.Errorf("%s at %v: %q, and the record is %v", fault, p, out, state)
				}
			case strings.HasPrefix(out, "refused "):
				if _, err := os.Lstat(filepath.Join(s.Dir, runID)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s at %v: %q, and a trace is left: %v", fault, p, out, err)
				}
			default:
				t.Errorf("%s at %v: %q", fault, p, out)
			}
		}
	}
	t.Logf("count: killed at %d calls of a creation, and failed each with %v", len(list), faults)
}
