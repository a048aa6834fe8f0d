//go:build !windows

package testproc

import "testing"

// TempDir is t.TempDir.
func TempDir(t testing.TB) string {
	t.Helper()
	return t.TempDir()
}
