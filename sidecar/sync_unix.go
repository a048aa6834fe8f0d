//go:build unix && !darwin

package sidecar

import "golang.org/x/sys/unix"

// syncFD makes a file or directory durable (fsync(2)).
func syncFD(fd int) error {
	return uninterrupted(func() error { return unix.Fsync(fd) })
}
