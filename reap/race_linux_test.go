package reap

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/sidecar"
)

// publications counts how often job.json is replaced, as the kernel saw it
// (inotify(7), IN_MOVED_TO). Two such events in a row would be merged into one,
// so what comes between them is asked for too: the making of the new file.
type publications struct {
	t  *testing.T
	fd int
}

func watchJob(t *testing.T, dir string) publications {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Skipf("no inotify here: %v", err)
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	return publications{t, fd}
}

// count ends the watching: a user has but 128 of it at a time.
func (p publications) count() (n int) {
	p.t.Helper()
	defer unix.Close(p.fd)
	buf := make([]byte, 1<<16)
	for {
		got, err := unix.Read(p.fd, buf)
		if err == unix.EAGAIN {
			return n
		}
		if err != nil {
			p.t.Fatal(err)
		}
		for data := buf[:got]; len(data) > 0; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&data[0]))
			size := unix.SizeofInotifyEvent + int(event.Len)
			name := bytes.TrimRight(data[unix.SizeofInotifyEvent:size], "\x00")
			if event.Mask&unix.IN_MOVED_TO != 0 && string(name) == "job.json" {
				n++
			}
			data = data[size:]
		}
	}
}

// Any number of observers end a lost job once: one finished_at in the world,
// the same in each reply and on disk, in one publication.
func TestRaceOfObservers(t *testing.T) {
	for range 20 {
		w := newWorld(t)
		w.putRecord(started())
		seen := watchJob(t, filepath.Join(w.Store.Dir, runID))
		var ticks atomic.Int64
		w.now = func() time.Time { // each caller has a time of its own
			return time.Date(2026, 8, 1, 12, 0, int(ticks.Add(1)), 0, time.UTC)
		}
		const n = 16
		ends := make([]string, n)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range n {
			wg.Go(func() {
				<-start
				switch i % 3 {
				case 0:
					ends[i] = string(w.status(runID).FinishedAt)
				case 1:
					ends[i] = string(w.list(ListOptions{}).Jobs[0].FinishedAt)
				case 2:
					ends[i] = string(w.look1(runID).Runs[0].FinishedAt)
				}
			})
		}
		close(start)
		wg.Wait()
		if got := seen.count(); got != 1 {
			t.Errorf("%d publications", got)
		}
		ends = append(ends, w.onDisk(runID, "finished_at"))
		if all := slices.Compact(slices.Clone(ends)); len(all) != 1 || all[0] == "null" {
			t.Errorf("several ends: %s", strings.Join(all, " "))
		}
	}
}

// A hook that races observers: one end, whichever it is, and if the hook came
// second its report is kept.
func TestRaceOfHookAndObservers(t *testing.T) {
	for range 20 {
		w := newWorld(t)
		w.putRecord(started())
		var wg sync.WaitGroup
		start := make(chan struct{})
		var won bool
		wg.Go(func() {
			<-start
			got, err := w.MarkTerminal(t.Context(), runID, Report{Status: "completed"})
			if err != nil {
				t.Error(err)
			}
			won = got.Won
		})
		outcomes := make([]string, 8)
		for i := range outcomes {
			wg.Go(func() {
				<-start
				outcomes[i] = str(w.status(runID).Outcome)
			})
		}
		close(start)
		wg.Wait()
		want, late := sidecar.Indeterminate, w.onDisk(runID, "late_report")
		if won {
			want = sidecar.Succeeded
		}
		if all := slices.Compact(outcomes); len(all) != 1 || all[0] != want {
			t.Errorf("hook won: %v, observers saw %v", won, all)
		}
		if (late == "none") != won {
			t.Errorf("hook won: %v, late report %s", won, late)
		}
	}
}
