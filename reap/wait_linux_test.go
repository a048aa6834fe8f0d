package reap

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// held counts this process's descriptors and goroutines.
func held(t *testing.T) (files, goroutines int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries), runtime.NumGoroutine()
}

// A wait does not wait for its next look: the exit of the process ends it, and
// so does a change of the record. Were it not so, the window would close first.
func TestWaitWakes(t *testing.T) {
	for name, fields := range map[string]func(testproc.T, jobprobe.Identity) []sidecar.Field{
		"ours": stamped, "the peer's": plainly,
		"no time": func(t testproc.T, id jobprobe.Identity) []sidecar.Field {
			return append(plainly(t, id), set("pid_create_time", "null"))
		},
	} {
		for what, wake := range map[string]func(*pack, *prey) string{
			"exit": func(k *pack, p *prey) string { p.reap(); return sidecar.Indeterminate },
			"hook": func(k *pack, p *prey) string {
				_, err := k.Hook(context.Background(), runID, Report{Status: "completed"})
				must(t, err)
				return sidecar.Succeeded
			},
		} {
			k := newPack(t)
			p := session(t, scriptIdle).ready()
			k.record(fields(t, whoIs(t, p.pid))...)
			resting := make(chan struct{})
			looks := 0
			o := k.Observer
			o.step = func(now step) {
				if now == stepProbed {
					if looks++; looks == 1 {
						close(resting)
					}
				}
			}
			answer := make(chan Waiting, 1)
			go func() {
				w, err := o.Wait(t.Context(), []string{runID}, WaitOptions{MaxWait: 25, Poll: 60})
				if err != nil {
					t.Error(err)
				}
				answer <- w
			}()
			<-resting
			outcome := wake(k, p)
			if w := <-answer; !w.AllTerminal || str(w.Runs[0].Outcome) != outcome {
				t.Errorf("%s, %s: all terminal %t, outcome %s, want %s", name, what, w.AllTerminal, str(w.Runs[0].Outcome), outcome)
			}
		}
	}
}

// A wait leaves no descriptor and no goroutine behind, however it ended.
func TestWaitLeavesNothing(t *testing.T) {
	o, ids := benchStore(t, 30, self(t)) // live
	lost := func(id string) {
		rec := benchRecord(t, id, jobprobe.Identity{}, set("pid", fmt.Sprint(absentPID)), set("process_identity", "null"), set("supervisor", "null"))
		writeFile(t, o.recordPath(id), string(rec.Append(nil)))
	}
	for _, id := range ids[1:10] {
		lost(id)
	}
	swept, err := o.Sweep(t.Context(), false)
	if err != nil || len(swept.Ended) != 9 {
		t.Fatal(swept, err)
	}
	// One more, whose end cannot be written.
	lost(ids[0])
	o.Store.LockWait = time.Millisecond
	defer holdLock(t, filepath.Join(o.Store.Dir, ids[0], "job.lock"))()
	ids = append(ids, ids[0], "nobody", "", "../x")
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.Wait(t.Context(), ids, WaitOptions{}); err != nil { // what is opened once for all is open
		t.Fatal(err)
	}
	// What earlier tests forgot to close is not this one's.
	files, goroutines := held(t)
	for settled := 0; settled < 3; settled++ {
		runtime.GC()
		if now, _ := held(t); now != files {
			files, settled = now, 0
		}
	}
	for name, wait := range map[string]func() (Waiting, error){
		"look":   func() (Waiting, error) { return o.Wait(t.Context(), ids, WaitOptions{}) },
		"window": func() (Waiting, error) { return o.Wait(t.Context(), ids, WaitOptions{MaxWait: 0.1, Poll: 0.05}) },
		"any": func() (Waiting, error) {
			return o.Wait(t.Context(), ids, WaitOptions{MaxWait: 60, Poll: 60, Any: true})
		},
		"given up":  func() (Waiting, error) { return o.Wait(given, ids, WaitOptions{MaxWait: 60, Poll: 60}) },
		"no job":    func() (Waiting, error) { return o.Wait(t.Context(), nil, WaitOptions{MaxWait: 60, Poll: 60}) },
		"all ended": func() (Waiting, error) { return o.Wait(t.Context(), ids[1:10], WaitOptions{MaxWait: 60, Poll: 60}) },
	} {
		for range 3 {
			if _, err := wait(); err != nil && given.Err() == nil {
				t.Errorf("%s: %v", name, err)
			}
			// The runtime takes a moment to forget a goroutine that is over.
			left := 0
			for range 1_000_000 {
				if left = runtime.NumGoroutine(); left <= goroutines {
					break
				}
				runtime.Gosched()
			}
			if now, _ := held(t); now > files || left > goroutines {
				stacks := make([]byte, 1<<16)
				t.Errorf("%s: %d descriptors and %d goroutines, had %d and %d\n%s", name,
					now, left, files, goroutines, stacks[:runtime.Stack(stacks, true)])
			}
		}
	}
}

// With few descriptors a wait pins fewer processes, and looks at all of them.
func TestWaitWithFewDescriptors(t *testing.T) {
	want := []string{"40 pending of 40", "40 ended of 40"}
	if diff := cmp.Diff(want, killStage(t, nil, "few-descriptors")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func fewDescriptorsStage(s *testproc.Stage) {
	k := newPack(s)
	p := session(s, scriptIdle).ready()
	var ids []string
	for i := range 40 {
		id := fmt.Sprintf("job-%02d", i)
		k.record(append(stamped(s, whoIs(s, p.pid)), set("run_id", `"`+id+`"`))...)
		must(s, os.Rename(filepath.Dir(k.path()), filepath.Join(k.Store.Dir, id)))
		ids = append(ids, id)
	}
	must(s, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}))
	o := k.Observer
	var killed sync.Once
	wait := func(window float64) Waiting {
		w, err := o.Wait(context.Background(), ids, WaitOptions{MaxWait: window, Poll: 0.05})
		must(s, err)
		for _, run := range w.Runs {
			if run.Error != nil {
				s.Fatalf("%s: %v", run.RunID, run.Error)
			}
		}
		return w
	}
	w := wait(0.5)
	s.Say("%d pending of %d", len(w.Pending), len(w.Runs))
	looks := atomic.Int64{}
	o.step = func(now step) {
		if now == stepProbed && looks.Add(1) > int64(len(ids)) {
			killed.Do(p.reap)
		}
	}
	w = wait(60)
	s.Say("%d ended of %d", len(w.Runs)-len(w.Pending)-len(w.StoppedWithoutEnd), len(w.Runs))
}

// Root writes the end of somebody else's job, and leaves the record theirs.
func TestRootKeepsTheOwner(t *testing.T) {
	needRoot(t)
	k := newPack(t)
	k.record(set("pid", fmt.Sprint(absentPID)), set("pid_create_time", "1700000000.25"))
	chown(t, k.path())
	must(t, os.Chmod(k.path(), 0o640))
	before := k.Store.Read(runID).File
	job, err := k.Status(t.Context(), runID)
	must(t, err)
	after := k.Store.Read(runID)
	if !job.Terminal || after.State != sidecar.OK || after.File.ModTime.Equal(before.ModTime) {
		t.Errorf("not written: %+v", job)
	}
	if after.File.UID != nobody || after.File.GID != nobody || after.File.Mode != 0o640 {
		t.Errorf("the record is now of %d:%d with mode %o", after.File.UID, after.File.GID, after.File.Mode)
	}
}
