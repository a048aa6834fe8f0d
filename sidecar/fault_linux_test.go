package sidecar_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/sidecar"
)

const namespaceEnv = "SIDECAR_TEST_NAMESPACE"

// inNamespace runs the rest of the test in a mount namespace of its own, by
// running the test again in a child; it reports true in the child.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceEnv) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	// The runtime also makes every mount private (clone(2), CLONE_NEWNS).
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("needs a mount namespace: unshare: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in a mount namespace: %v\n%s", err, out)
	}
	return false
}

// small mounts a file system of 64 KiB and returns a store in it.
func small(t *testing.T) sidecar.Store {
	t.Helper()
	dir := tempDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return sidecar.Store{Dir: dir}
}

// big is a record of 40 KB: there is no room for a second one.
func big() *sidecar.Record {
	return record(runID, sidecar.Field{Name: "pad", Value: sidecar.Text(strings.Repeat("x", 40000))})
}

// TestCaseF12FullFileSystem has no room for a second record beside the first.
func TestCaseF12FullFileSystem(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s := small(t)
	before := string(big().Append(nil))
	if err := s.Create(runID, big()); err != nil {
		t.Fatal(err)
	}
	// The first write is cut short without an error, the second fails.
	got, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1)))
	wantRefused(t, err, sidecar.NoSpace)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "no_space") || got.Result != sidecar.NotDone {
		t.Error(got.Result, err)
	}
	wantBytes(t, s, before)
	wantFiles(t, s, "job.json", "job.lock")
	// A leftover holds space that the next writer needs.
	if err := os.Remove(filepath.Join(s.Dir, runID, "job.lock")); err != nil {
		t.Fatal(err)
	}
	other := "other"
	rec := big()
	rec.Set("run_id", sidecar.Text(other))
	if err := s.Create(other, rec); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a second run: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, other)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

func TestLeftoverHoldsSpace(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s := small(t)
	if err := s.Create(runID, record(runID)); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(s.Dir, runID, ".job.json.1.deadbeef.tmp")
	if err := os.WriteFile(left, make([]byte, 40000), 0o600); err != nil {
		t.Fatal(err)
	}
	pad := sidecar.Text(strings.Repeat("x", 40000))
	if got, err := s.Update(context.Background(), runID, set("pad", pad)); err != nil || got.Result != sidecar.Written {
		t.Error(got.Result, err)
	}
	wantFiles(t, s, "job.json", "job.lock")
}

// TestCaseF27FullForLock has no space for the lock file itself.
func TestCaseF27FullForLock(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s := small(t)
	// Few inodes: the store's, the job's, and the record's.
	if err := unix.Mount("", s.Dir, "", unix.MS_REMOUNT, "size=64k,nr_inodes=4"); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(runID, record(runID)); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if err := os.WriteFile(filepath.Join(s.Dir, string(rune('a'+i))), nil, 0o600); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			break
		}
	}
	_, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1)))
	wantRefused(t, err, sidecar.NoSpace)
	wantBytes(t, s, string(record(runID).Append(nil)))
}

// TestCaseF27ReadOnlyFileSystem reads, and changes nothing, with a lock file and
// without.
func TestCaseF27ReadOnlyFileSystem(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s := small(t)
	if err := s.Create(runID, record(runID)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1))); err != nil {
		t.Fatal(err)
	}
	for _, locked := range []bool{true, false} {
		if !locked {
			if err := os.Remove(filepath.Join(s.Dir, runID, "job.lock")); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Mount("", s.Dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		_, err := s.Update(context.Background(), runID, set("b", sidecar.Int(1)))
		wantRefused(t, err, sidecar.ReadOnly)
		if got := s.Read(runID); got.State != sidecar.OK {
			t.Errorf("reading: %v, %v", got.State, got.Err)
		}
		other := record("other")
		var refused *sidecar.RefusedError
		if err := s.Create("other", other); !errors.As(err, &refused) || refused.Reason != sidecar.ReadOnly {
			t.Errorf("creation: %v", err)
		}
		if err := unix.Mount("", s.Dir, "", unix.MS_REMOUNT, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Update(context.Background(), runID, set("b", sidecar.Int(1))); err != nil {
		t.Errorf("writable again: %v", err)
	}
}

// TestReadOnlyAfterLock has a lock that can be had, being a mount of its own,
// in a directory that cannot be written to.
func TestReadOnlyAfterLock(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s := newStore(t, record(runID))
	job := filepath.Join(s.Dir, runID)
	lock := filepath.Join(job, "job.lock")
	for _, file := range []string{lock, filepath.Join(s.Dir, "lock")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []struct {
		from, to string
		flags    uintptr
	}{
		{job, job, unix.MS_BIND},
		{filepath.Join(s.Dir, "lock"), lock, unix.MS_BIND},
		{"", job, unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY},
	} {
		if err := unix.Mount(m.from, m.to, "", m.flags, ""); err != nil {
			t.Fatal(err)
		}
		if m.from != "" {
			t.Cleanup(func() { unix.Unmount(m.to, 0) })
		}
	}
	_, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1)))
	wantRefused(t, err, sidecar.ReadOnly)
	if !strings.Contains(err.Error(), "create") {
		t.Errorf("refused before the replace: %v", err)
	}
	wantBytes(t, s, string(record(runID).Append(nil)))
}
