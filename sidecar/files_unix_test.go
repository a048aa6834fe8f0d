//go:build unix

package sidecar_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/sidecar"
)

// stranded makes a job directory without a record, and returns the path that
// the record would have.
func stranded(t *testing.T) (sidecar.Store, string) {
	t.Helper()
	s := sidecar.Store{Dir: tempDir(t)}
	dir := filepath.Join(s.Dir, runID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return s, filepath.Join(dir, "job.json")
}

// TestCaseF4IrregularRecord has a link, or what else is no regular file, in the
// record's place, and a file too large to be one. Opening a FIFO that nobody
// writes to would wait for ever, and reading the large one take a gigabyte.
func TestCaseF4IrregularRecord(t *testing.T) {
	victim := filepath.Join(tempDir(t), "victim")
	text := string(record(runID).Append(nil))
	if err := os.WriteFile(victim, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"symlink":  func(path string) error { return os.Symlink(victim, path) },
		"dangling": func(path string) error { return os.Symlink("nowhere", path) },
		"loop":     func(path string) error { return os.Symlink("job.json", path) },
		"fifo":     func(path string) error { return unix.Mkfifo(path, 0o600) },
		"dir":      func(path string) error { return os.Mkdir(path, 0o700) },
		"device":   func(path string) error { return os.Symlink("/dev/zero", path) },
		"mount":    func(path string) error { return os.Symlink("/proc/version", path) },
		"socket": func(path string) error {
			// The path of a socket has a short limit (unix(7)).
			t.Chdir(filepath.Dir(path))
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "job.json", Net: "unix"})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		},
		"huge": func(path string) error {
			if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 1<<30)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := stranded(t)
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			var got sidecar.Reading
			used := allocated(func() { got = s.Read(runID) })
			if got.State != sidecar.Unreadable || got.Record != nil || got.Err == nil || !strings.Contains(got.Err.Error(), path) {
				t.Errorf("%v, %v", got.State, got.Err)
			}
			used += allocated(func() { _, err = s.Update(context.Background(), runID, set("a", sidecar.Int(1))) })
			wantRefused(t, err, sidecar.RecordUnreadable)
			if used > 1<<20 {
				t.Errorf("took %d bytes of memory", used)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("the entry was replaced: %v", err)
			}
			if ids, err := s.IDs(); len(ids) != 1 || err != nil {
				t.Errorf("listed as %v, %v", ids, err)
			}
		})
	}
	if got, err := os.ReadFile(victim); string(got) != text {
		t.Errorf("victim: %v, %s", err, got)
	}
}

// TestLinkedDirectory has a job's directory elsewhere, as an operator may.
func TestLinkedDirectory(t *testing.T) {
	elsewhere := newStore(t, record(runID))
	s := sidecar.Store{Dir: tempDir(t)}
	if err := os.Symlink(filepath.Join(elsewhere.Dir, runID), filepath.Join(s.Dir, runID)); err != nil {
		t.Fatal(err)
	}
	if ids, err := s.IDs(); len(ids) != 1 || err != nil || s.Read(runID).State != sidecar.OK {
		t.Errorf("%v, %v, %v", ids, err, s.Read(runID).Err)
	}
	got, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1)))
	if err != nil || got.Result != sidecar.Written {
		t.Error(got.Result, err)
	}
	wantBytes(t, elsewhere, string(got.Record.Append(nil)))
	if err := s.Create(runID, record(runID)); !errors.Is(err, sidecar.ErrExists) {
		t.Error(err)
	}
}

func TestReadUnderFile(t *testing.T) {
	s := sidecar.Store{Dir: tempDir(t)}
	if err := os.WriteFile(filepath.Join(s.Dir, runID), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// ENOTDIR is not ENOENT: something is there that nobody understands.
	if got := s.Read(runID); got.State != sidecar.Unreadable || !errors.Is(got.Err, unix.ENOTDIR) {
		t.Errorf("%v, %v", got.State, got.Err)
	}
	if err := s.Create(runID, record(runID)); !errors.Is(err, sidecar.ErrExists) {
		t.Error(err)
	}
}

// TestPlantedLock puts what is no lock file in the lock's place.
func TestPlantedLock(t *testing.T) {
	victim := filepath.Join(tempDir(t), "victim")
	for name, make := range map[string]func(path string) error{
		"symlink":  func(path string) error { return os.Symlink(victim, path) },
		"dangling": func(path string) error { return os.Symlink("nowhere", path) },
		"fifo":     func(path string) error { return unix.Mkfifo(path, 0o600) },
		"dir":      func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, record(runID))
			if err := make(filepath.Join(s.Dir, runID, "job.lock")); err != nil {
				t.Fatal(err)
			}
			_, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1)))
			wantRefused(t, err, sidecar.LockUnavailable)
			wantBytes(t, s, string(record(runID).Append(nil)))
			wantFiles(t, s, "job.json", "job.lock")
			if got := s.Read(runID); got.State != sidecar.OK {
				t.Errorf("reading needs no lock: %v, %v", got.State, got.Err)
			}
		})
	}
	if _, err := os.Lstat(victim); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock was made through the link: %v", err)
	}
}

// TestCaseF3PlantedTemp puts links where a careless writer would stage its file, and
// a directory that looks like a leftover.
func TestCaseF3PlantedTemp(t *testing.T) {
	s := newStore(t, record(runID))
	victim := filepath.Join(tempDir(t), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.Dir, runID)
	for _, name := range []string{"job.json.tmp", ".job.json.tmp", "job.json~", ".job.json.1.00000000.tmp"} {
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".job.json.2.00000000.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1))); err != nil || got.Result != sidecar.Written {
		t.Error(got.Result, err)
	}
	if got, err := os.ReadFile(victim); string(got) != "precious" {
		t.Errorf("victim: %v, %q", err, got)
	}
	wantFiles(t, s, ".job.json.2.00000000.tmp", ".job.json.tmp", "job.json", "job.json.tmp", "job.json~", "job.lock")
}

func TestCaseF5KeepsMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o644, 0o666, 0o400} {
		for _, mask := range []int{0o022, 0o077, 0} {
			s := newStore(t, record(runID))
			path := filepath.Join(s.Dir, runID, "job.json")
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			old := unix.Umask(mask)
			_, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1)))
			unix.Umask(old)
			if err != nil {
				t.Error(err)
			}
			if got := s.Read(runID); got.File.Mode != mode {
				t.Errorf("mode %v under umask %o became %v", mode, mask, got.File.Mode)
			}
		}
	}
}

const nobody = 65534

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a file that belongs to another user")
	}
}

func TestCaseF5KeepsOwner(t *testing.T) {
	asRoot(t)
	s := newStore(t, record(runID))
	path := filepath.Join(s.Dir, runID, "job.json")
	if err := os.Chown(path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1))); err != nil {
		t.Error(err)
	}
	got := s.Read(runID).File
	if !got.HasOwner || got.UID != nobody || got.GID != nobody || got.Mode != 0o640 {
		t.Errorf("%+v", got)
	}
}

// TestCaseF5NarrowsMode rewrites root's record as a user who may not give files
// away.
func TestCaseF5NarrowsMode(t *testing.T) {
	asRoot(t)
	s := newStore(t, record(runID))
	dir := filepath.Join(s.Dir, runID)
	openPath(t, dir)
	if err := os.Chmod(filepath.Join(dir, "job.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := helper(t, "add", s.Dir, "key-0", "0")
	cmd.Env = append(cmd.Env, nobodyEnv+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := s.Read(runID)
	if got.State != sidecar.OK || got.File.UID != nobody || got.File.Mode != 0o600 {
		t.Errorf("%v, %+v", got.State, got.File)
	}
	if n, ok := got.Record.Int("key-0"); n != 0 || !ok {
		t.Error("the update is missing")
	}
}

// openPath opens the way to a directory, which is closed to others if it is a
// temporary one.
func openPath(t *testing.T, path string) {
	t.Helper()
	for ; path != "/" && path != os.TempDir(); path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

// A lock that root makes by looking first does not lock the owner out.
func TestRootsLockIsTheOwners(t *testing.T) {
	asRoot(t)
	s := newStore(t, record(runID))
	dir := filepath.Join(s.Dir, runID)
	openPath(t, dir)
	if err := os.Chown(filepath.Join(dir, "job.json"), nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(ctx, runID, set("a", sidecar.Int(1))); err != nil {
		t.Fatal(err)
	}
	cmd := helper(t, "add", s.Dir, "key-0", "0")
	cmd.Env = append(cmd.Env, nobodyEnv+"=1")
	if out, err := cmd.Output(); err != nil {
		t.Errorf("the owner: %v: %s", err, out)
	}
}

func TestUnreadableStore(t *testing.T) {
	asRoot(t)
	s := newStore(t, record(runID))
	if err := os.Chmod(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := helper(t, "look", s.Dir)
	cmd.Env = append(cmd.Env, nobodyEnv+"=1")
	out, err := cmd.Output()
	if err != nil || strings.TrimSpace(string(out)) != "unreadable denied lock_unavailable" {
		t.Errorf("%q, %v", out, err)
	}
}
