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
// longer the job's. errLost: that became so under the lock's holder.
var (
	errHeld   = errors.New("held by another process")
	errMissed = errors.New("lock missed")
	errLost   = errors.New("the lock file was replaced")
)

// hold is a job's directory, opened, and its lock, taken.
type hold struct {
	*dir
	lock *flock.Flock
}

// lock takes the exclusive lock of one job. The lock is flock(2) on job.lock,
// as the peer takes it; LockFileEx on Windows. It belongs to the open file, so
// it also excludes other callers in this process, and it is gone with its
// holder, however that dies. The file is never removed: a removed lock file
// lets two holders in.
//
// flock(2) cannot be waited for with a deadline, so it is polled. The returned
// error is a [*RefusedError].
func (s Store) lock(ctx context.Context, id string) (*hold, error) {
	wait := s.LockWait
	if wait == 0 {
		wait = defaultLockWait
	}
	until := time.Now().Add(wait)
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		if ctx.Err() != nil {
			return nil, &RefusedError{id, LockUnavailable, context.Cause(ctx)}
		}
		s.step.reach("lock")
		h, err := tryLock(s.path(id))
		if err == nil {
			return h, nil
		}
		if !errors.Is(err, errMissed) && !isInterrupted(err) {
			return nil, lockRefused(id, err)
		}
		left := time.Until(until)
		if left <= 0 {
			if errors.Is(err, errMissed) {
				err = errHeld
			}
			return nil, &RefusedError{id, LockUnavailable, fmt.Errorf("%w for %v", err, wait)}
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(delay, left)):
		}
	}
}

// tryLock opens the directory and tries its lock once. A directory without a
// record is no job: nothing is created in it.
func tryLock(path string) (*hold, error) {
	d, err := openDir(path)
	if err != nil {
		return nil, err
	}
	if err := d.exists(recordName); err != nil {
		d.close()
		return nil, err
	}
	if err := d.makeLock(); err != nil {
		d.close()
		return nil, err
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
		return nil, err
	}
	h := &hold{d, lock}
	err = h.check()
	if err == nil {
		return h, nil
	}
	h.release()
	if errors.Is(err, errMoved) || errors.Is(err, errLost) {
		err = errMissed
	}
	return nil, err
}

// check makes sure that the lock is what others would lock too: a regular file
// that is the entry of this directory, while the path leads to this directory.
func (h *hold) check() error {
	if err := h.current(); err != nil {
		return err
	}
	info, err := h.lock.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "lock", Path: h.lock.Path(), Err: errNotRegular}
	}
	return h.isEntry(lockName, info)
}

// release gives the lock back. Whether that worked is no part of the outcome:
// what was published is published. The library closes the file only after it
// has unlocked it, hence another try after an error.
func (h *hold) release() {
	for range maxInterrupts {
		if h.lock.Unlock() == nil {
			break
		}
	}
	h.close()
}

// lockRefused names the reason why a lock could not be taken. ENOENT is of the
// directory, since opening would have made the file.
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
