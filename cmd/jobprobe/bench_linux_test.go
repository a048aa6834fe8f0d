package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/reap"
)

// BenchmarkRun is one run command, from its start to the first instruction of
// the work, before which the job's identity is on disk. Beside it stands what no
// such command can do without: the same number of starts of a program that does
// nothing (the command, the supervisor, the holder, and the work that takes its
// place) and the same durable updates. At most one and a half times that.
func BenchmarkRun(b *testing.B) {
	dir := b.TempDir()
	first := filepath.Join(dir, "first")
	if err := unix.Mkfifo(first, 0o600); err != nil {
		b.Fatal(err)
	}
	begun, err := os.OpenFile(first, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer begun.Close()
	build := func(name, what string) string {
		path := filepath.Join(dir, name)
		if strings.HasPrefix(what, "package") {
			source := path + ".go"
			if err := os.WriteFile(source, []byte(what), 0o600); err != nil {
				b.Fatal(err)
			}
			what = source
		}
		cmd := exec.Command("go", "build", "-trimpath", "-o", path, what)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return path
	}
	empty, program := build("empty", "package main\nfunc main() {}\n"), build("jobprobe", ".")
	work := build("work", fmt.Sprintf(`package main
		import "syscall"
		func main() { fd, _ := syscall.Open(%q, syscall.O_WRONLY, 0); syscall.Write(fd, []byte{1}) }`, first))
	jobs := filepath.Join(dir, "jobs")
	record := bytes.Repeat([]byte("x"), 2000)
	var full, bare, starts []time.Duration
	for b.Loop() {
		for range 100 {
			start := time.Now()
			cmd := exec.Command(program, "--dir", jobs, "run", "--", work)
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			if _, err := begun.Read(make([]byte, 1)); err != nil {
				b.Fatal(err)
			}
			full = append(full, time.Since(start))
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
			ended(b, jobs)
			start = time.Now()
			for range 4 {
				if err := exec.Command(empty).Run(); err != nil {
					b.Fatal(err)
				}
			}
			started := time.Since(start)
			if err := durable(filepath.Join(jobs, fmt.Sprintf("bare-%d", len(bare))), record); err != nil {
				b.Fatal(err)
			}
			bare, starts = append(bare, time.Since(start)), append(starts, started)
		}
	}
	ms := func(samples []time.Duration, share float64) float64 {
		slices.Sort(samples)
		return samples[int(share*float64(len(samples)-1))].Seconds() * 1000
	}
	for name, share := range map[string]float64{"min": 0, "p50": 0.5} {
		b.ReportMetric(ms(full, share)/ms(bare, share), "ratio-"+name)
		b.ReportMetric(ms(full, share), "run-ms-"+name)
		b.ReportMetric(ms(bare, share), "floor-ms-"+name)
		b.ReportMetric(ms(starts, share), "floor-starts-ms-"+name)
	}
	b.ReportMetric(0, "ns/op")
}

// ended returns when the newest job of a store has its end.
func ended(b *testing.B, dir string) {
	b.Helper()
	obs := reap.New(dir)
	ids, err := obs.Store.IDs()
	if err != nil {
		b.Fatal(err)
	}
	for _, id := range ids {
		if strings.HasPrefix(id, "bare") {
			continue
		}
		if w, err := obs.Wait(b.Context(), []string{id}, reap.WaitOptions{MaxWait: 60}); err != nil || !w.AllTerminal {
			b.Fatal(id, w, err)
		}
		return
	}
}

// durable makes a directory with a file that is on disk, and replaces that
// once, under a lock.
func durable(dir string, data []byte) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	publish := func() error {
		path := filepath.Join(dir, "job.json")
		f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Write(data); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := os.Rename(f.Name(), path); err != nil {
			return err
		}
		return syncDir(dir)
	}
	if err := publish(); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "job.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	return publish()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
