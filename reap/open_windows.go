package reap

import (
	"io/fs"
	"os"
)

// openNoFollow opens a file for reading that is no symbolic link. A link put
// in its place between the two calls is followed.
func openNoFollow(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// descriptors is how many handles this process may have open: there is no
// limit that matters here.
func descriptors() int { return manyDescriptors }
