//go:build unix

package sidecar

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockFlags open the lock: created if need be, never through a symbolic link
// (O_NOFOLLOW, open(2)). O_CLOEXEC is os.OpenFile's own.
const lockFlags = os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW

// dir is an open directory of one job. Names are resolved relative to it
// (openat(2)), so they stay in it whatever becomes of its path.
type dir struct {
	path string
	fd   int
	stat unix.Stat_t
}

// openDir opens a job's directory and remembers which one it is. O_DIRECTORY
// makes anything else ENOTDIR (open(2)).
func openDir(path string) (*dir, error) {
	fd, err := openAt(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	d := &dir{path: path, fd: fd}
	if d.stat, err = statFD(fd); err != nil {
		d.close()
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return d, nil
}

// close ignores the error: nothing is written through a directory's
// descriptor, and close(2) must not be repeated.
func (d *dir) close() { _ = unix.Close(d.fd) }

// current returns errMoved unless the path still leads to this directory.
func (d *dir) current() error {
	now, err := statAt(unix.AT_FDCWD, d.path, 0)
	switch {
	case err == unix.ENOENT, err == unix.ENOTDIR:
		return errMoved
	case err != nil:
		return &fs.PathError{Op: "stat", Path: d.path, Err: err}
	case now.Dev != d.stat.Dev || now.Ino != d.stat.Ino:
		return errMoved
	}
	return nil
}

// exists returns nil if the name is an entry, of whatever type.
func (d *dir) exists(name string) error {
	_, err := statAt(d.fd, name, unix.AT_SYMLINK_NOFOLLOW)
	return d.wrap("stat", name, err)
}

// isEntry returns errLost unless the name is an entry for the file that info
// is about.
func (d *dir) isEntry(name string, info fs.FileInfo) error {
	st, err := statAt(d.fd, name, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && err != unix.ENOENT {
		return d.wrap("stat", name, err)
	}
	file, ok := info.Sys().(*syscall.Stat_t)
	if err != nil || !ok || uint64(file.Dev) != uint64(st.Dev) || uint64(file.Ino) != uint64(st.Ino) {
		return errLost
	}
	return nil
}

// read reads a regular file of the directory.
func (d *dir) read(name string) ([]byte, FileInfo, error) {
	data, info, err := readAt(d.fd, name)
	return data, info, d.wrap("read", name, err)
}

// readPath reads the record of the job whose directory is at path.
func readPath(path string) ([]byte, FileInfo, error) {
	name := path + "/" + recordName
	data, info, err := readAt(unix.AT_FDCWD, name)
	if err != nil {
		err = &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, info, err
}

// readAt reads a regular file. O_NOFOLLOW refuses a symbolic link, and
// O_NONBLOCK keeps open(2) from waiting for a FIFO's writer; neither changes
// the reading of a regular file.
func readAt(dirfd int, name string) (data []byte, info FileInfo, err error) {
	fd, err := openAt(dirfd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, info, err
	}
	defer unix.Close(fd)
	st, err := statFD(fd)
	if err != nil {
		return nil, info, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, info, errNotRegular
	}
	info = FileInfo{
		Mode: fs.FileMode(st.Mode & 0o777), Size: st.Size, ModTime: time.Unix(st.Mtim.Unix()),
		UID: st.Uid, GID: st.Gid, HasOwner: true,
	}
	if st.Size > maxRecord {
		return nil, info, errTooLarge
	}
	data, err = readAll(fd, int(st.Size))
	return data, info, err
}

// readAll reads to the end of the file, which should come after size bytes. A
// read that fills less than its buffer just there has met the end.
func readAll(fd, size int) ([]byte, error) {
	buf := make([]byte, size+1)
	n := 0
	for {
		var got int
		err := uninterrupted(func() (err error) {
			got, err = unix.Read(fd, buf[n:])
			return err
		})
		if err != nil {
			return nil, err
		}
		n += got
		switch {
		case got == 0 || n == size:
			return buf[:n], nil
		case n > maxRecord:
			return nil, errTooLarge
		case n == len(buf):
			buf = append(buf, make([]byte, n)...)
		}
	}
}

// create makes a new file with the owner and mode of another, and returns when
// its contents are on the disk. O_EXCL also refuses a symbolic link (open(2)).
func (d *dir) create(name string, data []byte, like FileInfo) error {
	fd, err := openAt(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)
	if err != nil {
		return d.wrap("create", name, err)
	}
	err = fill(fd, data, like)
	// Some file systems report a failed write only here. After EINTR the
	// descriptor is closed all the same (close(2)).
	closed := unix.Close(fd)
	if err == nil && closed != unix.EINTR {
		err = closed
	}
	return d.wrap("write", name, err)
}

// fill gives a new file its owner and contents, and syncs it.
func fill(fd int, data []byte, like FileInfo) error {
	if like.HasOwner {
		if err := keepOwner(fd, like); err != nil {
			return err
		}
	}
	// write(2) may write less than asked for, near a full disk above all.
	for len(data) > 0 {
		var n int
		err := uninterrupted(func() (err error) {
			n, err = unix.Write(fd, data)
			return err
		})
		if err != nil {
			return err
		}
		if n <= 0 {
			return io.ErrShortWrite
		}
		data = data[n:]
	}
	return syncFD(fd)
}

// keepOwner gives a file the owner and mode of the record it will replace. If
// the owner cannot be kept, what others could do is not kept either; where the
// file system keeps no modes, the file stays as narrow as it was made.
func keepOwner(fd int, like FileInfo) error {
	st, err := statFD(fd)
	if err != nil {
		return err
	}
	mode := uint32(like.Mode.Perm())
	if st.Uid != like.UID || st.Gid != like.GID {
		// Before chmod: a wider mode must not meet another owner.
		if uninterrupted(func() error { return unix.Fchown(fd, int(like.UID), int(like.GID)) }) != nil {
			mode &= 0o600
		}
	}
	err = uninterrupted(func() error { return unix.Fchmod(fd, mode) })
	if err == unix.EPERM || err == unix.EOPNOTSUPP {
		return nil
	}
	return err
}

// makeLock makes a lock file that is missing for the owner of the record, whom
// one of root's own would lock out. Anybody else's file is as it should be.
func (d *dir) makeLock() error {
	if os.Geteuid() != 0 {
		return nil
	}
	fd, err := openAt(d.fd, lockName, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)
	if err == unix.EEXIST {
		return nil
	}
	if err != nil {
		return d.wrap("create", lockName, err)
	}
	defer unix.Close(fd)
	st, err := statAt(d.fd, recordName, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return d.wrap("stat", recordName, err)
	}
	// Where owners cannot be set, the lock is root's.
	_ = uninterrupted(func() error { return unix.Fchown(fd, int(st.Uid), int(st.Gid)) })
	return nil
}

// rename replaces the file to. A reader has the old one or the new one, and
// there is no instant without either (rename(2)).
func (d *dir) rename(from, to string) error {
	return d.wrap("rename", from, uninterrupted(func() error { return unix.Renameat(d.fd, from, d.fd, to) }))
}

// remove removes an entry that is no directory (unlink(2)).
func (d *dir) remove(name string) error {
	return d.wrap("remove", name, uninterrupted(func() error { return unix.Unlinkat(d.fd, name, 0) }))
}

// sync makes the directory's entries durable.
func (d *dir) sync() error { return syncFD(d.fd) }

// names lists the entries. It opens the directory anew, because reading moves
// a descriptor's position.
func (d *dir) names() ([]string, error) {
	fd, err := openAt(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	return f.Readdirnames(-1)
}

// syncPath makes the entries of the directory at path durable; fsync(2) of a
// file alone does not.
func syncPath(path string) error {
	d, err := openDir(path)
	if err != nil {
		return err
	}
	defer d.close()
	return d.sync()
}

// prober returns a func that reports whether a job of the store has a record,
// or may have one: only ENOENT and ENOTDIR say that it has none. It costs one
// fstatat(2) relative to the opened store.
func prober(store *os.File) (holds func(id string) bool, done func(), err error) {
	fd := int(store.Fd())
	return func(id string) bool {
		_, err := statAt(fd, id+"/"+recordName, unix.AT_SYMLINK_NOFOLLOW)
		return err != unix.ENOENT && err != unix.ENOTDIR
	}, func() {}, nil
}

// wrap adds to an error what was done to which file.
func (d *dir) wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: d.path + "/" + name, Err: err}
}

// openAt is openat(2), close-on-exec. A file that it makes is 0600.
func openAt(dirfd int, name string, flags int) (fd int, err error) {
	err = uninterrupted(func() (err error) {
		fd, err = unix.Openat(dirfd, name, flags|unix.O_CLOEXEC, 0o600)
		return err
	})
	return fd, err
}

// statFD and statAt are fstat(2) and fstatat(2).
func statFD(fd int) (st unix.Stat_t, err error) {
	err = uninterrupted(func() error { return unix.Fstat(fd, &st) })
	return st, err
}

func statAt(dirfd int, name string, flags int) (st unix.Stat_t, err error) {
	err = uninterrupted(func() error { return unix.Fstatat(dirfd, name, &st, flags) })
	return st, err
}

// uninterrupted repeats a call that a signal interrupted (EINTR), a bounded
// number of times. A local disk interrupts few of them (signal(7)); file systems
// that are programs or servers, all.
func uninterrupted(call func() error) error {
	var err error
	for range maxInterrupts {
		if err = call(); err != unix.EINTR {
			return err
		}
	}
	return err
}

// What errno(3) means here. Quotas are space, too.
func isInterrupted(err error) bool { return errors.Is(err, unix.EINTR) }
func isReadOnly(err error) bool    { return errors.Is(err, unix.EROFS) }
func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
