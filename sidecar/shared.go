package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockDelay is the time between two attempts at a lock that is no job's:
// flock(2) cannot be waited for with a deadline.
const lockDelay = 5 * time.Millisecond

// LockShared takes a lock that is no job's, the named file of the store's
// directory, and makes the directory if need be. The file is never removed: that
// would let two holders in. A lock is gone with its holder, however that dies.
// It is waited for until ctx is done or LockWait has passed. The error is a
// [*RefusedError] that names the directory in place of a run.
func (s Store) LockShared(ctx context.Context, name string) (unlock func(), err error) {
	whose := filepath.Base(s.dir())
	if err := os.MkdirAll(s.dir(), 0o700); err != nil {
		return nil, lockRefused(whose, err)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.LockWait, defaultLockWait))
	defer cancel()
	path := filepath.Join(s.dir(), name)
	for {
		lock := flock.New(path, flock.SetFlag(lockFlags), flock.SetPermissions(0o600))
		if _, err := lock.TryLockContext(ctx, lockDelay); err != nil {
			return nil, lockRefused(whose, err)
		}
		// A lock on a file that is no longer at that path excludes nobody.
		mine, err := lock.Stat()
		if err == nil {
			var entry os.FileInfo
			if entry, err = os.Lstat(path); err == nil && os.SameFile(mine, entry) {
				return func() { _ = lock.Close() }, nil
			}
		}
		_ = lock.Close()
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, lockRefused(whose, err)
		}
	}
}

// CreateShared is [Store.Create] for a caller that excludes all other makers
// of this record, by a lock of its own: a directory without a record, as a
// maker leaves that was killed, is made anew. A record that is published and
// not surely durable is no error.
func (s Store) CreateShared(id string, rec *Record) error {
	err := s.Create(id, rec)
	if errors.Is(err, ErrExists) {
		if now := s.Read(id); now.State != Absent {
			return fmt.Errorf("%w: %s", ErrExists, id)
		}
		if err := removeFiles(s.path(id)); err != nil {
			return refused(id, err)
		}
		err = s.Create(id, rec)
	}
	if errors.Is(err, ErrUnsynced) {
		return nil
	}
	return err
}

// removeFiles removes a directory of files, by name: os.RemoveAll deletes by
// handle, which not all that calls itself Windows can do.
func removeFiles(path string) error {
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		if err == nil {
			err = os.Remove(filepath.Join(path, entry.Name()))
		}
	}
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// Sync makes durable which jobs the store's directory holds. The operating
// system's error is returned; where directories cannot be synced, nil.
func (s Store) Sync() error { return syncPath(s.dir()) }
