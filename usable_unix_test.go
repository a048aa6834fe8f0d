//go:build unix

package jobprobe

import "testing"

// A number beyond pid_t is refused before any system call: the kernel would
// cut it to another one.
func TestD1(t *testing.T) {
	for _, pid := range []int64{0, -1, -7, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 4711, 1<<63 - 1, -1 << 63} {
		v := Probe(Identity{PID: pid, Start: 1, StartUnit: startUnit})
		if v.Finding != UnusablePID || v.Conclusion != Unknown || v.Alive || len(v.Evidence.Calls()) != 0 {
			t.Errorf("%d: got %v, %v, alive %v after %d calls", pid, v.Finding, v.Conclusion, v.Alive, len(v.Evidence.Calls()))
		}
	}
	for _, pid := range []int64{1, 2, 99999, 1<<31 - 1} {
		if !usablePID(pid) {
			t.Errorf("%d is a number a process can have", pid)
		}
	}
}
