//go:build unix

package reap

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkMode says what others can do with the store's directory.
func checkMode(info fs.FileInfo) (h Health, limit string) {
	mode := info.Mode().Perm()
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return Unchecked, ""
	case int(st.Uid) != os.Geteuid():
		return Doubtful, "belongs to another user: only that user can signal its jobs and notify of their ends"
	case mode&0o022 != 0:
		return Doubtful, fmt.Sprintf("has mode %04o: others can remove and rename jobs", mode)
	case mode&0o077 != 0:
		return Doubtful, fmt.Sprintf("has mode %04o: others can see which jobs there are", mode)
	}
	return Healthy, ""
}
