package sidecar

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Errors of this package's own that file operations return.
var (
	errNotDir     = errors.New("not a directory")
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = errors.New("larger than 16 MiB")
	// errMoved: the path no longer leads to the directory that was opened.
	errMoved = errors.New("the job's directory was moved or removed")
	// errBusy: other programs kept the file open in a way that forbids it.
	errBusy = errors.New("in use by another program")
)

// maxInterrupts bounds how often one system call is repeated after EINTR.
const maxInterrupts = 100

// publish replaces the record of an opened directory. The caller holds the
// job's lock, or has just made the directory. Each step has its reason:
//
//   - leftovers of crashed writers go first: they may hold the space needed;
//   - the new file has a random name, O_EXCL, so that nobody's file is followed
//     or overwritten, and the old record's owner and mode;
//   - it is synced before the rename, so that the name never leads to less than
//     the whole record;
//   - check is asked once more, so that a job which was moved away meanwhile is
//     not written to, one that was removed not brought back, and a record whose
//     lock file was taken away not overwritten;
//   - rename(2) replaces the record in one step;
//   - the directory is synced, which makes the rename itself durable. By then
//     the record is published: a failure here is no failure of the change.
//
// On an error the old record is in place and no temporary file is left, unless
// the system also refuses to remove it.
func publish(d *dir, data []byte, like FileInfo, check func() error, step steps) (synced bool, err error) {
	sweep(d)
	step.reach("swept")
	temp := tempName()
	if err := d.create(temp, data, like); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			_ = d.remove(temp)
		}
		return false, err
	}
	step.reach("created")
	err = check()
	if err == nil {
		step.reach("checked")
		err = d.rename(temp, recordName)
	}
	if err != nil {
		_ = d.remove(temp)
		return false, err
	}
	step.reach("renamed")
	return d.sync() == nil, nil
}

// steps is told when a transaction has come to a point where another one may
// come between, or where it may die. It is nil but in tests.
type steps func(point string)

func (s steps) reach(point string) {
	if s != nil {
		s(point)
	}
}

// tempName returns ".job.json.<pid>.<8 hex>.tmp", the peer's pattern.
func tempName() string {
	var random [4]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	return "." + recordName + "." + strconv.Itoa(os.Getpid()) + "." + hex.EncodeToString(random[:]) + ".tmp"
}

// isTemp reports whether name is one that tempName makes.
func isTemp(name string) bool {
	middle, ok := strings.CutPrefix(name, "."+recordName+".")
	if !ok {
		return false
	}
	middle, ok = strings.CutSuffix(middle, ".tmp")
	if !ok {
		return false
	}
	pid, random, ok := strings.Cut(middle, ".")
	return ok && pid != "" && strings.Trim(pid, "0123456789") == "" &&
		len(random) == 8 && strings.Trim(random, "0123456789abcdef") == ""
}

// sweep removes what crashed writers left. Under the lock every temporary file
// is a leftover. What cannot be removed stays for the next writer.
func sweep(d *dir) {
	names, err := d.names()
	if err != nil {
		return
	}
	for _, name := range names {
		if isTemp(name) {
			_ = d.remove(name)
		}
	}
}
