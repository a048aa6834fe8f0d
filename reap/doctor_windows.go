package reap

import "io/fs"

// checkMode cannot say anything: the mode of a file says nothing here.
func checkMode(fs.FileInfo) (h Health, limit string) {
	return Unchecked, "has permissions that are not looked at"
}
