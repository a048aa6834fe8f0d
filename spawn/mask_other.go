//go:build unix && !linux

package spawn

// unblockSignals leaves the mask as it is: there is no call for it without cgo.
func unblockSignals() {}
