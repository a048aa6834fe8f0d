//go:build !linux && !darwin && !windows

package jobprobe

import (
	"errors"
	"os"
	"testing"
)

func TestUnsupported(t *testing.T) {
	if _, err := Identify(os.Getpid()); !errors.Is(err, ErrUnidentified) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Identify: %v", err)
	}
	if v := Probe(Identity{PID: int64(os.Getpid())}); v.Finding != UnsupportedPlatform || v.Conclusion != Unknown || !v.Alive {
		t.Errorf("self: %v, %v, alive %v", v.Finding, v.Conclusion, v.Alive)
	}
	want := UnsupportedPlatform
	if seesAllProcesses() {
		want = PIDAbsent
	}
	if v := Probe(Identity{PID: 1<<31 - 1}); v.Finding != want {
		t.Errorf("a free number: %v, want %v", v.Finding, want)
	}
}
