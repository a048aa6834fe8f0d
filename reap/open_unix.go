//go:build unix

package reap

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
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
