//go:build !linux && !darwin && !windows

package jobprobe

import (
	"context"
	"os"
)

// pin cannot be had: these systems offer no handle, and no identity to verify
// one against.
type pin struct{}

func openPin(id Identity) (*pin, Liveness, error) { return nil, Probe(id), errNoHandle }

func (*pin) probe(*Evidence) Finding    { return UnsupportedPlatform }
func (*pin) wait(context.Context) error { return errNoHandle }
func (*pin) exit() Exit                 { return Exit{} }
func (*pin) signal(os.Signal) error     { return errNoHandle }
func (*pin) close() error               { return nil }
