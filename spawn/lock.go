package spawn

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/jobprobe/jobprobe/sidecar"
)

const (
	// lockWait bounds the wait for a lock, if the store sets no other bound.
	lockWait = 10 * time.Second
	// lockDelay is the time between two attempts: flock(2) cannot be waited
	// for with a deadline.
	lockDelay = 5 * time.Millisecond
)

// lockFile takes one of the locks of a store that are no job's. They lie beside
// its claims and are never removed: that would let two holders in. A lock is
// gone with its holder, however that dies. The error is a
// [*sidecar.RefusedError] that names the claims in place of a run.
func lockFile(ctx context.Context, store sidecar.Store, name string) (unlock func(), err error) {
	refused := func(err error) error {
		reason := sidecar.LockUnavailable
		switch {
		case errors.Is(err, syscall.EROFS):
			reason = sidecar.ReadOnly
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			reason = sidecar.NoSpace
		}
		return &sidecar.RefusedError{RunID: claimsDir, Reason: reason, Err: err}
	}
	dir := claimsOf(store).Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, refused(err)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(store.LockWait, lockWait))
	defer cancel()
	path := filepath.Join(dir, name)
	for {
		lock := flock.New(path, flock.SetFlag(os.O_RDWR|os.O_CREATE|noFollow), flock.SetPermissions(0o600))
		if _, err := lock.TryLockContext(ctx, lockDelay); err != nil {
			return nil, refused(err)
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
			return nil, refused(err)
		}
	}
}
