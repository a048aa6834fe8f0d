package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The files of a job that this package touches.
const (
	recordName = "job.json"
	lockName   = "job.lock"
)

// maxRecord is the size in bytes of the largest record that is read or written.
const maxRecord = 16 << 20

// Store is a directory of jobs, each a directory named by its run id. It is a
// value: it opens nothing, may be copied, and its directory need not exist.
// A job's directory may be a symbolic link; the files in it may not.
type Store struct {
	// Dir is the directory of the jobs; empty means the current directory.
	Dir string
	// LockWait is the longest wait for a job's lock; zero means 10 seconds.
	LockWait time.Duration

	step steps // told of each step of a transaction; for tests
}

// FileInfo is what the system said about the opened record, for callers that
// must know whom they would act for.
type FileInfo struct {
	Mode    fs.FileMode // permission bits
	Size    int64       // in bytes
	ModTime time.Time
	// UID and GID are the owner's, if HasOwner; Windows has none to tell.
	UID, GID uint32
	HasOwner bool
}

// Reading is what [Store.Read] found. Record is set only if State is [OK].
type Reading struct {
	State  State
	Record *Record
	// File is set if a regular file was opened, whatever it holds.
	File FileInfo
	// Err says why State is not [OK]: a [*DamagedError] for the contents, else
	// the operating system's error. It is nil for [OK].
	Err error
}

// dir returns the store's directory.
func (s Store) dir() string {
	if s.Dir == "" {
		return "."
	}
	return s.Dir
}

// path returns the directory of a run whose id is valid.
func (s Store) path(id string) string { return s.dir() + string(filepath.Separator) + id }

// Read reads one record. It takes no lock, waits for nobody, and never blocks:
// what is not a regular file (a symbolic link, a FIFO, a directory, a device)
// is [Unreadable], and so is a file of more than 16 MiB. Only ENOENT is
// [Absent]. An id that is not valid is [Unread], with [ErrRunID].
func (s Store) Read(id string) Reading {
	if !ValidRunID(id) {
		return Reading{Err: fmt.Errorf("%w: %q", ErrRunID, id)}
	}
	return reading(readPath(s.path(id)))
}

// reading judges what was read. A record that does not exist, one that could not
// be read and one that makes no sense are different answers.
func reading(data []byte, info FileInfo, err error) Reading {
	r := Reading{File: info, Err: err}
	var damaged *DamagedError
	switch {
	case err == nil:
		r.Record, r.Err = Parse(data)
		r.State = OK
		if errors.As(r.Err, &damaged) {
			r.State = damaged.State
		}
	case errors.Is(err, fs.ErrNotExist):
		r.State = Absent
	default:
		r.State = Unreadable
	}
	return r
}

// IDs returns the runs of the store, newest first (by name, descending): each
// directory of a valid name that holds a job.json, or of which that cannot be
// found out. A store that does not exist has none; one that cannot be read is
// an error. Records are not read.
func (s Store) IDs() ([]string, error) {
	dir, err := os.Open(s.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(entries))
	holds, done, err := prober(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, entry := range entries {
		if !entry.Type().IsRegular() && ValidRunID(entry.Name()) && holds(entry.Name()) {
			ids = append(ids, entry.Name())
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	return ids, nil
}

// Create makes the directory of a new run and publishes its first record. Of
// any number of callers one wins; the others get [ErrExists]. The store's own
// directories are made as needed. Directories are 0700 and the record is 0600,
// less the umask.
//
// On nil the record is durable. On [ErrUnsynced] it is published and will
// survive a crash of the process, not surely a loss of power. On any other
// error, a [*RefusedError] for what the system refused, no trace of the run
// is left.
func (s Store) Create(id string, rec *Record) error {
	if !ValidRunID(id) {
		return fmt.Errorf("%w: %q", ErrRunID, id)
	}
	if rec.RunID() != id {
		return &RefusedError{id, NamesAnotherRun, fmt.Errorf("run_id is %q", rec.RunID())}
	}
	data, _, err := encode(rec)
	if err != nil {
		return err
	}
	rooted, err := makeDirs(s.dir())
	if err != nil {
		return refused(id, err)
	}
	path := s.path(id)
	if err := os.Mkdir(path, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %s", ErrExists, id)
		}
		return refused(id, err)
	}
	synced, err := s.publishNew(path, data)
	if err != nil {
		os.Remove(path) // empty again, so the id is free again
		return refused(id, err)
	}
	if !rooted || !synced || syncPath(s.dir()) != nil {
		return fmt.Errorf("%w: %s", ErrUnsynced, id)
	}
	return nil
}

// publishNew puts the first record into a new job directory.
func (s Store) publishNew(path string, data []byte) (synced bool, err error) {
	d, err := openDir(path)
	if err != nil {
		return false, err
	}
	defer d.close()
	return publish(d, data, FileInfo{}, d.current, s.step)
}

// makeDirs makes a directory and its missing parents, 0700, and syncs the parent
// of each one made: a record is no more durable than its path. A parent that may
// not be read cannot be synced, and is left to the system.
func makeDirs(path string) (synced bool, err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return true, nil
	}
	parent := filepath.Dir(path)
	synced = true
	if parent != path {
		if synced, err = makeDirs(parent); err != nil {
			return false, err
		}
	}
	err = os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return false, &fs.PathError{Op: "mkdir", Path: path, Err: errNotDir}
		}
		return synced, nil
	}
	if err != nil {
		return false, err
	}
	err = syncPath(parent)
	return synced && (err == nil || errors.Is(err, fs.ErrPermission)), nil
}
