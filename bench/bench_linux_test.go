// Package bench compares a probe with what other libraries answer for the
// same pid, and measures how cost grows with the number of jobs. It is a
// module of its own, so that what it needs is no dependency.
package bench

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	gopsutil "github.com/shirou/gopsutil/v4/process"

	"github.com/jobprobe/jobprobe"
)

// turnCalls is how many calls a turn is of.
const turnCalls = 64

// BenchmarkAlive asks whether a live child is still that process: by pidfs
// inode, by start ticks, and as well as other libraries can. Each is asked in
// turns with the probe by inode, and the best turn of either counts: what
// disturbs the machine only ever adds.
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
	recorded, err := gopsutil.NewProcess(int32(pid))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := recorded.CreateTime(); err != nil {
		b.Fatal(err)
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		b.Fatal(err)
	}

	probe := func() bool { return jobprobe.Probe(id).Finding == jobprobe.IdentityConfirmed }
	for _, way := range []struct {
		name string
		ask  func() bool
	}{
		{"jobprobe/ticks", func() bool { return jobprobe.Probe(ticks).Finding == jobprobe.IdentityConfirmed }},
		{"gopsutil/IsRunning", func() bool {
			_, err := recorded.IsRunning() // now and then it says no: only its time counts
			return err == nil
		}},
		{"gopsutil/PidExists", func() bool {
			exists, err := gopsutil.PidExists(int32(pid))
			return err == nil && exists
		}},
		{"procfs/Stat", func() bool {
			proc, err := fs.Proc(pid)
			if err != nil {
				return false
			}
			stat, err := proc.Stat()
			return err == nil && stat.Starttime == id.Start
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			inTurns(b, func() time.Duration { return turn(b, probe) }, func() time.Duration { return turn(b, way.ask) })
			b.ReportMetric(testing.AllocsPerRun(turnCalls, func() { way.ask() }), "allocs/call")
		})
	}
	for _, question := range []string{"is_running", "pid_exists"} {
		b.Run("psutil/"+question, func(b *testing.B) {
			inTurns(b, func() time.Duration { return bestTurn(b, probe) }, func() time.Duration { return psutilTurn(b, question, pid) })
		})
	}
}

// turn is how long so many answers take.
func turn(b *testing.B, ask func() bool) time.Duration {
	began := time.Now()
	for range turnCalls {
		if !ask() {
			b.Fatal("the child is alive")
		}
	}
	return time.Since(began)
}

// bestTurn is the best of as many turns as psutil makes.
func bestTurn(b *testing.B, ask func() bool) time.Duration {
	best := time.Hour
	for range 100 {
		best = min(best, turn(b, ask))
	}
	return best
}

// inTurns reports the best turns of the probe and of another way, for each
// call, and how many times the probe's the other is.
func inTurns(b *testing.B, probe, other func() time.Duration) {
	probed, asked := time.Hour, time.Hour
	for b.Loop() {
		probed, asked = min(probed, probe()), min(asked, other())
	}
	b.ReportMetric(float64(probed.Nanoseconds())/turnCalls, "pidfs-ns")
	b.ReportMetric(float64(asked.Nanoseconds())/turnCalls, "call-ns")
	b.ReportMetric(float64(asked)/float64(probed), "x-pidfs")
	b.ReportMetric(0, "ns/op") // of two turns: of no interest
}

// psutilTurn is the best of the turns that Python's psutil makes in a process
// of its own.
func psutilTurn(b *testing.B, question string, pid int) time.Duration {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import psutil").Run() != nil {
			continue
		}
		out, err := exec.Command(python, "ask_psutil.py", question, strconv.Itoa(pid), strconv.Itoa(turnCalls)).Output()
		if err != nil {
			b.Fatal(err)
		}
		ns, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			b.Fatal(err)
		}
		return time.Duration(ns)
	}
	b.Skip("python3-psutil is not installed")
	return 0
}
