//go:build unix

package sidecar_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/sidecar"
)

// beside makes a call and its floor in turn, so that what disturbs the one
// disturbs the other, and reports the medians of both and their ratio. Each is
// of so many records.
func beside(b *testing.B, turns, records int, floor, call func(turn int)) {
	b.Helper()
	var floors, calls []float64
	timed := func(list *[]float64, f func(int), turn int) {
		began := time.Now()
		f(turn)
		*list = append(*list, float64(time.Since(began).Nanoseconds())/float64(records))
	}
	for b.Loop() {
		for turn := range turns {
			timed(&floors, floor, turn)
			timed(&calls, call, turn)
		}
	}
	slices.Sort(floors)
	slices.Sort(calls)
	raw, full := floors[len(floors)/2], calls[len(calls)/2]
	b.ReportMetric(full/raw, "ratio")
	b.ReportMetric(raw, "raw-ns")
	b.ReportMetric(full, "record-ns")
	b.ReportMetric(0, "ns/op") // of all turns: of no interest
}

// BenchmarkRead compares reading 10,000 ended records, a hundred a turn, with
// opening, reading and closing their files.
func BenchmarkRead(b *testing.B) {
	const each = 100
	store, ids := benchStore(b)
	paths := make([]string, len(ids))
	for i, id := range ids {
		paths[i] = filepath.Join(store.Dir, id, "job.json")
	}
	read := func(id string) {
		if r := store.Read(id); r.State != sidecar.OK || !r.Record.Ended() {
			b.Fatal(r.Err)
		}
	}
	beside(b, len(ids)/each, each, func(turn int) {
		for _, path := range paths[turn*each:][:each] {
			readRaw(b, path)
		}
	}, func(turn int) {
		for _, id := range ids[turn*each:][:each] {
			read(id)
		}
	})
	b.ReportMetric(testing.AllocsPerRun(1000, func() { read(ids[0]) }), "allocs/record")
}

// readBuffer takes any of the records.
var readBuffer [64 << 10]byte

// readRaw opens, reads and closes a file with system calls alone.
func readRaw(b *testing.B, path string) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := unix.Read(fd, readBuffer[:]); err != nil {
		b.Fatal(err)
	}
	unix.Close(fd)
}

// BenchmarkUpdate compares a durable update with the system calls that no
// durable update can do without.
func BenchmarkUpdate(b *testing.B) {
	s := newStore(b, benchRecord(runID))
	data := benchRecord(runID).Append(nil)
	path, n := filepath.Join(s.Dir, runID), int64(0)
	beside(b, 50, 1, func(int) {
		if err := replaceRaw(path, data); err != nil {
			b.Fatal(err)
		}
	}, func(int) {
		n++
		got, err := s.Update(ctx, runID, set("n", sidecar.Int(n)))
		if err != nil || got.Result != sidecar.Written {
			b.Fatal(got.Result, err)
		}
	})
}

// replaceRaw locks, reads, writes, syncs, renames and syncs.
func replaceRaw(path string, data []byte) error {
	lock, err := unix.Open(path+"/job.lock", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(lock)
	if err := unix.Flock(lock, unix.LOCK_EX); err != nil {
		return err
	}
	old, err := unix.Open(path+"/job.json", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Read(old, readBuffer[:])
	unix.Close(old)
	if err != nil {
		return err
	}
	temp, err := unix.Open(path+"/temp", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = unix.Write(temp, data)
	if err == nil {
		err = unix.Fsync(temp)
	}
	unix.Close(temp)
	if err != nil {
		return err
	}
	if err := unix.Rename(path+"/temp", path+"/job.json"); err != nil {
		return err
	}
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Fsync(dir)
}
