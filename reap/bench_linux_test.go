package reap

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// benchRecord is a record of about 2 KB, as run writes them, of a job whose
// process is the given one.
func benchRecord(b testing.TB, id string, who jobprobe.Identity, more ...sidecar.Field) *sidecar.Record {
	b.Helper()
	identity, err := who.MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	rec := sidecar.NewRecord(
		sidecar.Field{Name: "run_id", Value: sidecar.Text(id)},
		sidecar.Field{Name: "pid", Value: sidecar.Int(who.PID)},
		set("pid_create_time", "1700000000.25"),
		sidecar.Field{Name: "pgid", Value: sidecar.Int(who.PID)},
		set("kind", `"command"`),
		sidecar.Field{Name: "argv", Value: sidecar.Texts([]string{"/usr/local/bin/worker", "--model", strings.Repeat("x", 600)})},
		set("cwd", `"/srv/project"`), set("submit_cwd", `"/srv/project"`), set("label", `"a label"`),
		set("notify_command", "null"), set("notify_target", "null"), set("notify_sender", "null"),
		set("submitted_at", `"2026-08-01T00:00:00.123456+00:00"`), set("finished_at", "null"),
		set("status", `"running"`), set("spawn_state", `"started"`), set("log", `"/srv/jobs/console.log"`),
		sidecar.Field{Name: "process_identity", Value: identity},
		sidecar.Field{Name: "supervisor", Value: identity},
	)
	for _, f := range more {
		rec.Set(f.Name, f.Value)
	}
	return rec
}

// benchStore is a store of n such jobs.
func benchStore(b testing.TB, n int, who jobprobe.Identity, more ...sidecar.Field) (o Observer, ids []string) {
	b.Helper()
	o = New(filepath.Join(b.TempDir(), "jobs"))
	for i := range n {
		id := fmt.Sprintf("20260801T%06d-abcdef", i)
		ids = append(ids, id)
		writeFile(b, filepath.Join(o.Store.Dir, id, "job.json"), string(benchRecord(b, id, who, more...).Append(nil)))
	}
	return o, ids
}

func self(b testing.TB) jobprobe.Identity {
	b.Helper()
	id, err := jobprobe.Identify(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// The benchmarks here take samples of their own: run them with -benchtime 1x.
// A metric that ends in p50 or p99 is a quantile, one in min the least.

// BenchmarkList lists 10,000 jobs on one core. At most 25 us for each that
// has ended and 40 us for each that lives, of processor time: that is what
// the clock says where nobody else works.
func BenchmarkList(b *testing.B) {
	for name, more := range map[string][]sidecar.Field{
		"live":  nil,
		"ended": {set("finished_at", `"2026-08-01T00:00:09+00:00"`), set("status", `"completed"`)},
	} {
		b.Run(name, func(b *testing.B) {
			const jobs = 10_000
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			o, _ := benchStore(b, jobs, self(b), more...)
			var clock, used []time.Duration
			for b.Loop() {
				for range 10 {
					start, before := time.Now(), cpu(b)
					if l, err := o.List(b.Context(), ListOptions{}); err != nil || len(l.Jobs) != jobs {
						b.Fatal(len(l.Jobs), err)
					}
					clock, used = append(clock, time.Since(start)), append(used, cpu(b)-before)
				}
			}
			b.ReportMetric(quantile(clock, 0)/jobs, "us/job-min")
			b.ReportMetric(quantile(used, 0)/jobs, "cpu-us/job-min")
			b.ReportMetric(quantile(used, 0.5)/jobs, "cpu-us/job-p50")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// quantile returns a sample in microseconds: 0 is the least, 0.5 the median.
func quantile(samples []time.Duration, share float64) float64 {
	slices.Sort(samples)
	return float64(samples[int(share*float64(len(samples)-1))].Nanoseconds()) / 1000
}

// BenchmarkWait is the processor time of one wait of 10 s for 1,000 live
// jobs: less than 100 ms.
func BenchmarkWait(b *testing.B) {
	o, ids := benchStore(b, 1000, self(b))
	var used []time.Duration
	for b.Loop() {
		before := cpu(b)
		if w, err := o.Wait(b.Context(), ids, WaitOptions{MaxWait: 10, Poll: 1}); err != nil || len(w.Pending) != len(ids) {
			b.Fatal(len(w.Pending), err)
		}
		used = append(used, cpu(b)-before)
	}
	b.ReportMetric(quantile(used, 0.5)/1000, "cpu-ms-p50")
	b.ReportMetric(0, "ns/op")
}

// cpu is the processor time that this process has used.
func cpu(b testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime))
}

// BenchmarkWake is the time from the death of a process to the return of a
// wait with the durable end, beside the least that it takes: a poll of the
// pidfd that returns, and one durable update of a record. At most twice that,
// at the median.
func BenchmarkWake(b *testing.B) {
	o := New(filepath.Join(b.TempDir(), "jobs"))
	var waits, floors []time.Duration
	for b.Loop() {
		for range 200 {
			// Each has a new directory, whose lock is to be made.
			id := fmt.Sprintf("20260801T%06d-", len(waits))
			waits = append(waits, o.waitForDeath(b, id+"abcdef"))
			floors = append(floors, o.pollForDeath(b, id+"fedcba"))
		}
	}
	b.ReportMetric(quantile(waits, 0.5)/quantile(floors, 0.5), "ratio-p50")
	b.ReportMetric(quantile(waits, 0.5), "wait-us-p50")
	b.ReportMetric(quantile(waits, 0.99), "wait-us-p99")
	b.ReportMetric(quantile(floors, 0.5), "floor-us-p50")
	b.ReportMetric(quantile(floors, 0.99), "floor-us-p99")
	b.ReportMetric(0, "ns/op")
}

// lonely writes the record of a job without a supervisor.
func (o Observer) lonely(b testing.TB, id string, who jobprobe.Identity) {
	b.Helper()
	writeFile(b, o.recordPath(id), string(benchRecord(b, id, who, set("supervisor", "null")).Append(nil)))
}

func (o Observer) waitForDeath(b *testing.B, id string) time.Duration {
	return dying(b, func(who jobprobe.Identity, ready func()) {
		o.lonely(b, id, who)
		ready()
		w, err := o.Wait(b.Context(), []string{id}, WaitOptions{MaxWait: 60, Poll: 60})
		if err != nil || !w.AllTerminal {
			b.Error(err, w.Pending)
		}
	})
}

func (o Observer) pollForDeath(b *testing.B, id string) time.Duration {
	return dying(b, func(who jobprobe.Identity, ready func()) {
		o.lonely(b, id, who)
		fd, err := unix.PidfdOpen(int(who.PID), 0)
		if err != nil {
			b.Error(err)
		}
		defer unix.Close(fd)
		ready()
		for err = unix.EINTR; err == unix.EINTR; {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		}
		if err == nil {
			_, err = o.Store.Update(b.Context(), id, func(rec *sidecar.Record) error {
				rec.Set("finished_at", sidecar.Text(sidecar.FormatTime(time.Now())))
				return nil
			})
		}
		if err != nil {
			b.Error(err)
		}
	})
}

// dying starts a process, kills it when watch is ready and asleep, and
// returns how long after that watch returned.
func dying(b *testing.B, watch func(who jobprobe.Identity, ready func())) time.Duration {
	b.Helper()
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	who, err := jobprobe.Identify(cmd.Process.Pid)
	if err != nil {
		b.Fatal(err)
	}
	watching, seen := make(chan struct{}), make(chan time.Time, 1)
	go func() {
		watch(who, func() { close(watching) })
		seen <- time.Now()
	}()
	<-watching
	time.Sleep(5 * time.Millisecond) // until it sleeps: one that does not would be faster
	died := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	took := (<-seen).Sub(died)
	_ = cmd.Wait() // killed, as it should be
	return took
}

// BenchmarkProcess is one status command from its start to its exit, beside
// a program that does nothing. At most four times that.
func BenchmarkProcess(b *testing.B) {
	dir := b.TempDir()
	writeFile(b, filepath.Join(dir, "empty.go"), "package main\n\nfunc main() {}\n")
	build := func(name, what string) string {
		path := filepath.Join(dir, name)
		cmd := exec.Command("go", "build", "-trimpath", "-o", path, what)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return path
	}
	empty, program := build("empty", filepath.Join(dir, "empty.go")), build("jobprobe", "../cmd/jobprobe")
	o, ids := benchStore(b, 1, self(b))
	run := func(argv ...string) (took, used time.Duration) {
		cmd := exec.Command(argv[0], argv[1:]...)
		start := time.Now()
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		took = time.Since(start)
		u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		return took, time.Duration(syscall.TimevalToNsec(u.Utime) + syscall.TimevalToNsec(u.Stime))
	}
	var full, bare, fullUsed, bareUsed []time.Duration
	for b.Loop() {
		for range 200 {
			took, used := run(program, "--dir", o.Store.Dir, "status", ids[0])
			full, fullUsed = append(full, took), append(fullUsed, used)
			took, used = run(empty)
			bare, bareUsed = append(bare, took), append(bareUsed, used)
		}
	}
	for _, m := range []struct {
		name  string
		share float64
	}{{"min", 0}, {"p50", 0.5}} {
		b.ReportMetric(quantile(full, m.share)/quantile(bare, m.share), "ratio-"+m.name)
		b.ReportMetric(quantile(full, m.share), "status-us-"+m.name)
		b.ReportMetric(quantile(bare, m.share), "empty-us-"+m.name)
	}
	b.ReportMetric(quantile(fullUsed, 0.5)/quantile(bareUsed, 0.5), "cpu-ratio-p50")
	b.ReportMetric(0, "ns/op")
}
