//go:build unix

package reap

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openNoFollow opens a file for reading that is no symbolic link, without
// waiting for what it may be instead of a file (open(2)).
func openNoFollow(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) { // a link; EMLINK on FreeBSD
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	return f, err
}

// descriptors is how many files this process may have open (getrlimit(2)).
func descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), manyDescriptors))
}
