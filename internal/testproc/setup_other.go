//go:build !linux

package testproc

import "syscall"

// Prepare has nothing to offer outside Linux.
func Prepare(s *Stage, setup string) { s.Skipf("setup %q needs Linux", setup) }

func isolated(*syscall.SysProcAttr) bool { return false }

func storm() {}

func deadLeader(s *Stage) { s.Skipf("dead-leader needs Linux") }
