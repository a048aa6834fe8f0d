//go:build !linux

package jobprobe

import "pgregory.net/rapid"

// drawOSScope has nothing to draw: there is one kind of kernel.
func drawOSScope(*rapid.T) osScope { return osScope{} }
