// Package bench compares a probe with what other libraries answer for the
// same pid. It is a module of its own, so that they are no dependencies.
package bench

import (
	"os/exec"
	"testing"

	"github.com/prometheus/procfs"
	gopsutil "github.com/shirou/gopsutil/v4/process"

	"github.com/jobprobe/jobprobe"
)

// BenchmarkAlive asks whether a live child is still that process: by pidfs
// inode, by start ticks, and as well as the other libraries can. A ratio is
// the time of the library to that of the probe by inode.
func BenchmarkAlive(b *testing.B) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	id, err := jobprobe.Identify(pid)
	if err != nil {
		b.Fatal(err)
	}
	ticks := id
	ticks.Uniq = 0

	var floor float64
	measure := func(name string, ask func() bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !ask() {
					b.Fatal("the child is alive")
				}
			}
			ns := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			if name == "jobprobe/pidfs" {
				floor = ns
			}
			if floor > 0 {
				b.ReportMetric(ns/floor, "x-pidfs")
			}
		})
	}
	alive := func(id jobprobe.Identity) func() bool {
		return func() bool { return jobprobe.Probe(id).Finding == jobprobe.IdentityConfirmed }
	}
	measure("jobprobe/pidfs", alive(id))
	measure("jobprobe/ticks", alive(ticks))

	recorded, err := gopsutil.NewProcess(int32(pid))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := recorded.CreateTime(); err != nil {
		b.Fatal(err)
	}
	measure("gopsutil/IsRunning", func() bool {
		running, err := recorded.IsRunning()
		return err == nil && running
	})
	measure("gopsutil/PidExists", func() bool {
		exists, err := gopsutil.PidExists(int32(pid))
		return err == nil && exists
	})
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		b.Fatal(err)
	}
	measure("procfs/Stat", func() bool {
		proc, err := fs.Proc(pid)
		if err != nil {
			return false
		}
		stat, err := proc.Stat()
		return err == nil && stat.Starttime == id.Start
	})
}
