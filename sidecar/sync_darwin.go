package sidecar

import (
	"errors"

	"golang.org/x/sys/unix"
)

// syncFD makes a file or directory durable. On macOS fsync(2) leaves the data
// in the drive's cache; F_FULLFSYNC (fcntl(2)) also asks the drive. File
// systems without it say ENOTSUP, and fsync is then all there is.
func syncFD(fd int) error {
	return uninterrupted(func() error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
		if errors.Is(err, unix.ENOTSUP) {
			return unix.Fsync(fd)
		}
		return err
	})
}
