//go:build !windows

package jobprobe

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// errnoOf returns the number in an error of x/sys, 0 for none. An error
// without a number is EIO: no error may look like success.
func errnoOf(err error) uint32 {
	if err == nil {
		return 0
	}
	if errno, ok := err.(syscall.Errno); ok && errno != 0 {
		return uint32(errno)
	}
	return uint32(unix.EIO)
}

func errnoName(errno uint32) string {
	if name := unix.ErrnoName(syscall.Errno(errno)); name != "" {
		return name
	}
	return "errno " + strconv.Itoa(int(errno))
}
