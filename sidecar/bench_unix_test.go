//go:build unix

package sidecar_test

import (
	"context"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/sidecar"
)

// BenchmarkRead compares reading 10,000 records with opening, reading and
// closing their files, in one run.
func BenchmarkRead(b *testing.B) {
	store, ids := benchStore(b)
	b.Run("raw", func(b *testing.B) { readRaw(b, store.Dir, ids) })
	b.Run("record", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, id := range ids {
				if r := store.Read(id); r.State != sidecar.OK {
					b.Fatal(r.Err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/record")
	})
}

// readRaw opens, reads and closes each record with system calls alone.
func readRaw(b *testing.B, dir string, ids []string) {
	buf := make([]byte, 64<<10)
	for b.Loop() {
		for _, id := range ids {
			fd, err := unix.Open(dir+"/"+id+"/job.json", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := unix.Read(fd, buf); err != nil {
				b.Fatal(err)
			}
			unix.Close(fd)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/record")
}

// BenchmarkUpdate compares a durable update with the system calls that no
// durable update can do without, in one run.
func BenchmarkUpdate(b *testing.B) {
	s := newStore(b, benchRecord(runID))
	n := int64(0)
	b.Run("raw", func(b *testing.B) {
		data := benchRecord(runID).Append(nil)
		path := filepath.Join(s.Dir, runID)
		for b.Loop() {
			if err := replaceRaw(path, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			got, err := s.Update(context.Background(), runID, set("n", sidecar.Int(n)))
			if err != nil || got.Result != sidecar.Written {
				b.Fatal(got.Result, err)
			}
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
	_, err = unix.Read(old, make([]byte, 64<<10))
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
