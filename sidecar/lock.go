package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const (
	// defaultLockWait bounds the wait for a lock when the store says nothing.
	defaultLockWait = 10 * time.Second
	// The lock is asked for again after firstDelay, then ever more rarely.
	firstDelay, lastDelay = time.Millisecond, 25 * time.Millisecond
)

// errHeld is the reason of a wait that was too long. errMissed sends the
// caller round again: the lock was held, or the file that got locked is no
// longer the job's.
var (
	errHeld   = errors.New("held by another process")
	errMissed = errors.New("lock missed")
)

// lock takes the exclusive lock of one job and returns the job's directory,
// opened. The lock is flock(2) on job.lock, as the peer takes it; LockFileEx
// on Windows. It belongs to the open file, so it also excludes other callers
// in this process, and it is gone with its holder, however that dies. The file
// is never removed: a removed lock file lets two holders in.
//
// flock(2) cannot be waited for with a deadline, so it is polled. The returned
// error is a [*RefusedError].
func (s Store) lock(ctx context.Context, id string) (*dir, func(), error) {
	wait := s.LockWait
	if wait == 0 {
		wait = defaultLockWait
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%w for %v", errHeld, wait))
	defer cancel()
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		if ctx.Err() != nil {
			return nil, nil, &RefusedError{id, LockUnavailable, context.Cause(ctx)}
		}
		d, unlock, err := tryLock(s.path(id))
		if err == nil {
			return d, unlock, nil
		}
		if !errors.Is(err, errMissed) && !isInterrupted(err) {
			return nil, nil, lockRefused(id, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// tryLock opens the directory and tries its lock once. A directory without a
// record is no job: nothing is created in it.
func tryLock(path string) (*dir, func(), error) {
	d, err := openDir(path)
	if err != nil {
		return nil, nil, err
	}
	if err := d.exists(recordName); err != nil {
		d.close()
		return nil, nil, err
	}
	// Read-write, because NFSv4 wants a writable file for an exclusive lock.
	lock := flock.New(filepath.Join(path, lockName),
		flock.SetFlag(lockFlags), flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err == nil && !held {
		err = errMissed
	}
	if err != nil {
		d.close()
		return nil, nil, err
	}
	unlock := func() {
		// Only EINTR leaves a lock in place, and it says nothing is wrong.
		for range maxInterrupts {
			if !isInterrupted(lock.Unlock()) {
				break
			}
		}
		d.close()
	}
	if err := d.locked(lock); err != nil {
		unlock()
		return nil, nil, err
	}
	return d, unlock, nil
}

// locked checks what the path of the lock led to: a regular file that is still
// the entry of this directory, while the path still leads to this directory.
func (d *dir) locked(lock *flock.Flock) error {
	info, err := lock.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "lock", Path: lock.Path(), Err: errNotRegular}
	}
	if d.current() != nil || !d.isEntry(lockName, info) {
		return errMissed
	}
	return nil
}

// lockRefused names the reason why a lock could not be taken.
func lockRefused(id string, err error) error {
	reason := LockUnavailable
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason = RecordAbsent
	case isNoSpace(err):
		reason = NoSpace
	case isReadOnly(err):
		reason = ReadOnly
	}
	return &RefusedError{id, reason, err}
}
