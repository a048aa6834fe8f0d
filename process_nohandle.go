//go:build !darwin && !windows

package jobprobe

import (
	"errors"
	"fmt"
)

// errNoHandle is returned where a process cannot be pinned.
var errNoHandle = fmt.Errorf("pinning a process: %w", errors.ErrUnsupported)
