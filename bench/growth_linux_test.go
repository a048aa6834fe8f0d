package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// BenchmarkGrowth is one command from its start to its exit, on a store of so
// many jobs that all live, which is the most work. The floor is what no answer
// about all of them can do without: to open, read and close each record, and
// to open, look at, poll and close a handle of each process. Of status, which
// is asked about one job, it is the start of a program that does nothing.
// Memory is the most that the command had. Run it with -benchtime 1x.
func BenchmarkGrowth(b *testing.B) {
	bin := b.TempDir()
	program, meter := build(b, bin, "..", "./cmd/jobprobe"), meter(build(b, bin, ".", "./spend"))
	empty := filepath.Join(bin, "empty.go")
	if err := os.WriteFile(empty, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	empty = build(b, bin, ".", empty)
	stores := map[int]store{}
	sizes := []int{100, 1_000, 10_000, 100_000}
	for _, jobs := range sizes {
		stores[jobs] = liveJobs(b, jobs)
	}
	for _, c := range []struct {
		name  string
		exit  int
		floor func(store) spent
		argv  func(store) []string
	}{
		{"status", 0, func(store) spent { return meter.spend(b, empty) }, func(s store) []string { return []string{"status", s.ids[len(s.ids)/2]} }},
		{"list", 0, store.lookAll, func(store) []string { return []string{"list", "--limit", "0"} }},
		{"sweep", 0, store.lookAll, func(store) []string { return []string{"sweep"} }},
		{"wait", 124, store.lookAll, func(s store) []string { return append([]string{"wait", "--max-wait", "0s"}, s.ids...) }},
	} {
		for _, jobs := range sizes {
			s := stores[jobs]
			b.Run(fmt.Sprintf("%s/jobs=%d", c.name, jobs), func(b *testing.B) {
				var full, floor spent
				for b.Loop() {
					floor.add(c.floor(s))
					one := meter.spend(b, append([]string{program, "--dir", s.dir, "--json"}, c.argv(s)...)...)
					if one.exit != c.exit {
						b.Fatalf("exit status %d, not %d", one.exit, c.exit)
					}
					full.add(one)
				}
				b.ReportMetric(float64(full.clock.Nanoseconds())/float64(b.N), "ns/op")
				b.ReportMetric(float64(full.cpu.Nanoseconds())/float64(b.N), "cpu-ns/op")
				b.ReportMetric(full.clock.Seconds()/floor.clock.Seconds(), "x-floor")
				b.ReportMetric(full.cpu.Seconds()/floor.cpu.Seconds(), "cpu-x-floor")
				b.ReportMetric(float64(full.memory)/1e6, "peak-MB")
			})
		}
	}
}

// store is a directory of jobs that live.
type store struct {
	dir string
	ids []string
}

// liveJobs is a store of so many jobs, as run records them, whose process is
// this one.
func liveJobs(b *testing.B, jobs int) store {
	b.Helper()
	id, err := jobprobe.Identify(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	identity, err := id.MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	s := store{dir: filepath.Join(b.TempDir(), "jobs")}
	for i := range jobs {
		id := fmt.Sprintf("j%06d", i) // short: a command line has its limit
		s.ids = append(s.ids, id)
		record := sidecar.NewRecord(
			sidecar.Field{Name: "run_id", Value: sidecar.Text(id)},
			sidecar.Field{Name: "pid", Value: sidecar.Int(int64(os.Getpid()))},
			sidecar.Field{Name: "kind", Value: sidecar.Text("command")},
			sidecar.Field{Name: "argv", Value: sidecar.Texts([]string{"/usr/local/bin/worker", "--model", strings.Repeat("x", 600)})},
			sidecar.Field{Name: "cwd", Value: sidecar.Text("/srv/project")},
			sidecar.Field{Name: "label", Value: sidecar.Text("a label")},
			sidecar.Field{Name: "submitted_at", Value: sidecar.Text("2026-08-01T00:00:00.123456+00:00")},
			sidecar.Field{Name: "finished_at", Value: sidecar.Null()},
			sidecar.Field{Name: "status", Value: sidecar.Text("running")},
			sidecar.Field{Name: "spawn_state", Value: sidecar.Text("started")},
			sidecar.Field{Name: "process_identity", Value: identity},
			sidecar.Field{Name: "supervisor", Value: identity},
		)
		if err := os.MkdirAll(filepath.Join(s.dir, id), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, id, "job.json"), record.Append(nil), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// build builds a program of a module, and returns its path.
func build(b *testing.B, dir, module, what string) string {
	b.Helper()
	path := filepath.Join(dir, strings.TrimSuffix(filepath.Base(what), ".go"))
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, what)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return path
}

// meter is the path of the program spend.
type meter string

// spent is what a command took.
type spent struct {
	clock, cpu time.Duration
	memory     int64 // most bytes resident
	exit       int
}

// spend runs a command and says what it took.
func (m meter) spend(b *testing.B, argv ...string) (s spent) {
	b.Helper()
	out, err := exec.Command(string(m), argv...).Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &s.clock, &s.cpu, &s.memory, &s.exit)
	}
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// add adds the time of one more; memory is the most that any had.
func (s *spent) add(one spent) {
	s.clock, s.cpu, s.memory = s.clock+one.clock, s.cpu+one.cpu, max(s.memory, one.memory)
}

// lookAll is the floor of what looks at all jobs.
func (s store) lookAll() spent {
	began, before := time.Now(), processorTime()
	for _, id := range s.ids {
		lookRaw(filepath.Join(s.dir, id, "job.json"), os.Getpid())
	}
	return spent{clock: time.Since(began), cpu: processorTime() - before}
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime))
}

var rawBuffer [64 << 10]byte

// lookRaw reads a record and looks at a process with system calls alone.
func lookRaw(path string, pid int) {
	file, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	if _, err := unix.Read(file, rawBuffer[:]); err != nil {
		panic(err)
	}
	unix.Close(file)
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		panic(err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(process, &stat); err != nil {
		panic(err)
	}
	for err = unix.EINTR; err == unix.EINTR; { // the runtime's own signals
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 0)
	}
	if err != nil {
		panic(err)
	}
	unix.Close(process)
}
