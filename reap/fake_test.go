package reap

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// The processes that the record of most tests here names.
const (
	childPID      = 4242
	supervisorPID = 4243
)

// runEnv names the job in the processes that tests start from this binary.
const runEnv = "JOBPROBE_TEST_RUN_ID"

// runID is the job that most tests here observe. It is not that of another
// test run on this machine, whose processes carry its marker.
var runID = cmp.Or(os.Getenv(runEnv), fmt.Sprintf("20260801T000000-%06x", os.Getpid()&0xFFFFFF))

func init() { os.Setenv(runEnv, runID) }

// world is a store in a temporary directory, observed through fakes: probes
// answer from a table by pid, and each look at the clock is a second later.
type world struct {
	Observer
	t *testing.T

	mu     sync.Mutex
	seen   map[int64]jobprobe.Finding
	probes map[int64]int
	clock  time.Time
}

// newWorld has a dead child and no process else.
func newWorld(t *testing.T) *world {
	t.Helper()
	home := testproc.TempDir(t)
	w := &world{
		Observer: New(filepath.Join(home, "mcp", "jobs")), t: t,
		seen:   map[int64]jobprobe.Finding{childPID: jobprobe.PIDAbsent, supervisorPID: jobprobe.PIDAbsent},
		probes: map[int64]int{},
		clock:  time.Date(2026, 8, 1, 12, 0, 0, 123456000, time.UTC),
	}
	w.probe = func(id jobprobe.Identity, _ time.Time) jobprobe.Liveness {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.probes[id.PID]++
		return verdict(w.seen[id.PID])
	}
	w.now = func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.clock = w.clock.Add(time.Second)
		return w.clock
	}
	return w
}

// verdict is what a probe with this finding answers. Alive follows the table
// of findings in the package documentation: only what is conclusively gone,
// or could not be asked about, is not worth waiting for.
func verdict(f jobprobe.Finding) jobprobe.Liveness {
	alive := f != jobprobe.UnusablePID && f.Conclusion() != jobprobe.ProcessGone
	return jobprobe.Liveness{Alive: alive, Conclusion: f.Conclusion(), Finding: f}
}

// set is a field of a record in JSON text.
func set(name, text string) sidecar.Field {
	return sidecar.Field{Name: name, Value: sidecar.Value(text)}
}

// process is the identity of a process that only fakes know.
func process(pid int64) string {
	return fmt.Sprintf(`{"os": "linux", "pid": "%d", "start": "77", "start_unit": "boot_ticks"}`, pid)
}

// started is a record of ours: started, not ended, without a supervisor.
func started(more ...sidecar.Field) *sidecar.Record {
	rec := sidecar.NewRecord(
		set("run_id", `"`+runID+`"`), set("pid", fmt.Sprint(childPID)),
		set("pid_create_time", "1700000000.25"), set("pgid", fmt.Sprint(childPID)),
		set("kind", `"command"`), set("label", `"a label"`),
		set("submitted_at", `"2026-08-01T00:00:00+00:00"`), set("finished_at", "null"),
		set("status", `"running"`), set("spawn_state", `"started"`),
		set("process_identity", process(childPID)),
	)
	for _, f := range more {
		rec.Set(f.Name, f.Value)
	}
	return rec
}

// supervised is a record whose supervisor would report its end.
func supervised(more ...sidecar.Field) *sidecar.Record {
	return started(append(more, set("supervisor", process(supervisorPID)))...)
}

// put writes the bytes of a record as some other program left them.
func (w *world) put(id, data string) {
	w.t.Helper()
	dir := filepath.Join(w.Store.Dir, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "job.json"), []byte(data), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) putRecord(rec *sidecar.Record) { w.put(rec.RunID(), string(rec.Append(nil))) }

// bytes returns the record as it stands on disk.
func (w *world) bytes(id string) []byte {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Store.Dir, id, "job.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	return data
}

// untouched fails unless a job's directory holds its record, of these bytes,
// and nothing else.
func (w *world) untouched(id string, want []byte) {
	w.t.Helper()
	if got := w.bytes(id); !bytes.Equal(got, want) {
		w.t.Errorf("the record changed:\n%s\nfrom:\n%s", got, want)
	}
	entries, err := os.ReadDir(filepath.Join(w.Store.Dir, id))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "job.json" {
			w.t.Errorf("the observation left %s behind", e.Name())
		}
	}
}

func (w *world) status(id string) Job {
	w.t.Helper()
	job, err := w.Status(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return job
}

func (w *world) list(opt ListOptions) Listing {
	w.t.Helper()
	l, err := w.List(w.t.Context(), opt)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// look waits with an empty window: one observation of each id.
func (w *world) look1(ids ...string) Waiting {
	w.t.Helper()
	got, err := w.Wait(w.t.Context(), ids, WaitOptions{Poll: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// asked is how often a process was probed.
func (w *world) asked(pid int64) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.probes[pid]
}

// sees changes what probes of a process answer from now on.
func (w *world) sees(pid int64, f jobprobe.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[pid] = f
}

// str is a pointer's text, "null" for nil.
func str(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// onDisk returns the text of a member of the record as it stands.
func (w *world) onDisk(id, name string) string {
	w.t.Helper()
	r := w.Store.Read(id)
	if r.State != sidecar.OK {
		w.t.Fatalf("record is %v: %v", r.State, r.Err)
	}
	if raw, ok := r.Record.Raw(name); ok {
		return string(raw)
	}
	return "none"
}

// symlink plants a symbolic link, or says why there is none: a system without
// them, or one that promises it and makes nothing.
func symlink(target, path string) error {
	if err := os.Symlink(target, path); err != nil {
		return err
	}
	_, err := os.Lstat(path)
	return err
}
