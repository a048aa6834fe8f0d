package sidecar_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/sidecar"
)

// TestCaseF14Containers lets processes of two pid namespaces, each of them pid
// 1 of its own, add a member at the same time.
func TestCaseF14Containers(t *testing.T) {
	asRoot(t)
	s := newStore(t, record(runID))
	var adding sync.WaitGroup
	for i := range 2 {
		cmd := helper(t, "add", s.Dir, fmt.Sprintf("key-%d", i), fmt.Sprint(i))
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		adding.Go(func() {
			if out, err := cmd.Output(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	adding.Wait()
	wantKeys(t, s, 2)
}

// TestCaseF16HolderDies kills the holder of a lock. Its lock is gone with it,
// and the file is still the same: there is nothing to break or to clean up.
func TestCaseF16HolderDies(t *testing.T) {
	s := newStore(t, record(runID))
	s.LockWait = time.Hour
	lock := filepath.Join(s.Dir, runID, "job.lock")
	holder := helper(t, "hold", lock)
	stop := start(t, holder)
	before, err := os.Stat(lock)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan string, 1)
	done := make(chan error)
	go func() {
		_, err := s.WithSteps(func(point string) {
			select {
			case waiting <- point:
			default:
			}
		}).Update(context.Background(), runID, set("key-0", sidecar.Int(0)))
		done <- err
	}()
	<-waiting
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if after, err := os.Stat(lock); err != nil || !os.SameFile(before, after) {
		t.Errorf("another lock file: %v", err)
	}
	wantKeys(t, s, 1)
}

// TestCaseF22LockIsWritable looks at how the lock is open while it is held.
func TestCaseF22LockIsWritable(t *testing.T) {
	s := newStore(t, record(runID))
	lock := filepath.Join(s.Dir, runID, "job.lock")
	held := 0
	_, err := s.Update(context.Background(), runID, func(*sidecar.Record) error {
		fds, err := os.ReadDir("/proc/self/fd")
		for _, fd := range fds {
			if path, _ := os.Readlink("/proc/self/fd/" + fd.Name()); path != lock {
				continue
			}
			held++
			info, err := os.ReadFile("/proc/self/fdinfo/" + fd.Name())
			var flags int
			for line := range strings.Lines(string(info)) {
				fmt.Sscanf(line, "flags: %o", &flags)
			}
			if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR || flags&unix.O_CLOEXEC == 0 {
				t.Errorf("flags %o, %v", flags, err)
			}
		}
		return err
	})
	if err != nil || held != 1 {
		t.Errorf("%d descriptors of the lock, %v", held, err)
	}
}
