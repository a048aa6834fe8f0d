package sidecar

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

// lockFlags open the lock, created if need be.
const lockFlags = os.O_RDWR | os.O_CREATE

// replaceTries bounds how often a replace is tried: with delays that double
// from a millisecond to 64, about half a second in all.
const replaceTries = 13

// dir is an open directory of one job. os.Root opens with FILE_SHARE_DELETE,
// so a reader does not keep the record from being replaced, and its Rename has
// POSIX semantics: it replaces a file that others have open.
type dir struct {
	path string
	root *os.Root
	info fs.FileInfo
}

func openDir(path string) (*dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &dir{path, root, info}, nil
}

// close ignores the error: nothing is written through a directory's handle.
func (d *dir) close() { _ = d.root.Close() }

// current returns errMoved unless the path still leads to this directory.
func (d *dir) current() error {
	now, err := os.Stat(d.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, d.info) {
		return errMoved
	}
	return err
}

// exists returns nil if the name is an entry, of whatever type.
func (d *dir) exists(name string) error {
	_, err := d.root.Lstat(name)
	return err
}

// makeLock does nothing: who owns a new file is the directory's to say.
func (d *dir) makeLock() error { return nil }

// isEntry returns errLost unless the name is an entry for the file that info
// is about.
func (d *dir) isEntry(name string, info fs.FileInfo) error {
	entry, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(entry, info) {
		return errLost
	}
	return err
}

// readPath reads the record of the job whose directory is at path.
func readPath(path string) ([]byte, FileInfo, error) {
	d, err := openDir(path)
	if err != nil {
		return nil, FileInfo{}, err
	}
	defer d.close()
	return d.read(recordName)
}

// read reads a regular file. os.Root follows links inside the directory, so a
// link is looked for before and the opened file compared with what was seen.
func (d *dir) read(name string) ([]byte, FileInfo, error) {
	entry, err := d.root.Lstat(name)
	if err != nil {
		return nil, FileInfo{}, err
	}
	if !entry.Mode().IsRegular() {
		return nil, FileInfo{}, &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, FileInfo{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, FileInfo{}, err
	}
	info := FileInfo{Mode: st.Mode().Perm(), Size: st.Size(), ModTime: st.ModTime()}
	if !st.Mode().IsRegular() {
		return nil, FileInfo{}, &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && len(data) > maxRecord {
		err = &fs.PathError{Op: "read", Path: name, Err: errTooLarge}
	}
	return data, info, err
}

// create makes a new file and returns when its contents are on the disk
// (FlushFileBuffers). Its access rights are the directory's to give.
func (d *dir) create(name string, data []byte, _ FileInfo) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// rename replaces a file. A program that opened it without FILE_SHARE_DELETE
// forbids that for as long as it has it open: scanners and indexers do, for
// moments, so the replace is tried again.
func (d *dir) rename(from, to string) error {
	delay := time.Millisecond
	for try := 1; ; try++ {
		err := d.root.Rename(from, to)
		if !isShared(err) {
			return err
		}
		if try == replaceTries {
			return fmt.Errorf("%w: %w", errBusy, err)
		}
		time.Sleep(delay)
		delay = min(2*delay, 64*time.Millisecond)
	}
}

// isShared reports whether another opener may be the reason of an error.
func isShared(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) ||
		errors.Is(err, windows.ERROR_ACCESS_DENIED) ||
		errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}

// remove falls back to the path: not every file system can delete what an open
// directory holds by name.
func (d *dir) remove(name string) error {
	if d.root.Remove(name) == nil {
		return nil
	}
	return os.Remove(filepath.Join(d.path, name))
}

// sync does nothing: Windows has no directory sync. See the package comment.
func (d *dir) sync() error { return nil }

// names lists the entries.
func (d *dir) names() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// syncPath does nothing, as sync.
func syncPath(string) error { return nil }

// prober returns a func that reports whether a job of the store has a record,
// or may have one.
func prober(store *os.File) (holds func(id string) bool, done func(), err error) {
	root, err := os.OpenRoot(store.Name())
	if err != nil {
		return nil, nil, err
	}
	return func(id string) bool {
		_, err := root.Lstat(id + `\` + recordName)
		return !errors.Is(err, fs.ErrNotExist)
	}, func() { root.Close() }, nil
}

func isInterrupted(error) bool  { return false }
func isReadOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }
func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) ||
		errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}
