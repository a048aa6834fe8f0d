//go:build !unix && !windows

package sidecar

import (
	"errors"
	"io/fs"
	"os"
)

// On other systems nothing is known about locks or replacing files, so nothing
// is read or written.

const lockFlags = os.O_RDWR

type dir struct{}

func openDir(string) (*dir, error)                       { return nil, errors.ErrUnsupported }
func (*dir) close()                                      {}
func (*dir) current() error                              { return errors.ErrUnsupported }
func (*dir) exists(string) error                         { return errors.ErrUnsupported }
func (*dir) makeLock() error                             { return errors.ErrUnsupported }
func (*dir) isEntry(string, fs.FileInfo) error           { return errors.ErrUnsupported }
func (*dir) read(string) ([]byte, FileInfo, error)       { return nil, FileInfo{}, errors.ErrUnsupported }
func readPath(string) ([]byte, FileInfo, error)          { return nil, FileInfo{}, errors.ErrUnsupported }
func (*dir) create(string, []byte, FileInfo) error       { return errors.ErrUnsupported }
func (*dir) rename(string, string) error                 { return errors.ErrUnsupported }
func (*dir) remove(string) error                         { return errors.ErrUnsupported }
func (*dir) sync() error                                 { return errors.ErrUnsupported }
func (*dir) names() ([]string, error)                    { return nil, errors.ErrUnsupported }
func syncPath(string) error                              { return errors.ErrUnsupported }
func prober(*os.File) (func(string) bool, func(), error) { return nil, nil, errors.ErrUnsupported }

func isInterrupted(error) bool { return false }
func isReadOnly(error) bool    { return false }
func isNoSpace(error) bool     { return false }
