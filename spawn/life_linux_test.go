package spawn

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// state is the letter of a process's state, 0 if it has none.
func state(pid int64) byte {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := strings.LastIndexByte(string(data), ')'); i >= 0 && i+2 < len(data) {
		return data[i+2]
	}
	return 0
}

// Supervisors tell how the work really ended.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		script                        string
		outcome, reason, code, signal string
	}{
		{"exit 0", "succeeded", "null", "0", "null"},
		{"exit 3", "failed", "run.failed.exit_nonzero", "3", "null"},
		{"exit 255", "failed", "run.failed.exit_nonzero", "255", "null"},
		{"kill -KILL $$", "failed", "run.failed.signal", "null", `"SIGKILL"`},
		{"kill -TERM $$", "failed", "run.failed.signal", "null", `"SIGTERM"`},
		{"kill -HUP $$", "failed", "run.failed.signal", "null", `"SIGHUP"`},
		{"kill -PIPE $$", "failed", "run.failed.signal", "null", `"SIGPIPE"`},
	} {
		t.Run(c.script, func(t *testing.T) {
			store := newStore(t)
			h := start(t, store, shell("ulimit -c 0; "+c.script)...)
			job := finished(t, store, h.RunID)
			got := []string{text(job.Outcome), text(job.ReasonCode), string(job.ExitCode), string(job.Signal), string(job.TerminalSource)}
			want := []string{c.outcome, c.reason, c.code, c.signal, `"supervisor_exit"`}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if string(job.FinishedAtPrecision) != `"observed"` {
				t.Errorf("precision %s", job.FinishedAtPrecision)
			}
		})
	}
}

// Signals beyond the named ones end a process too, and are no exit code.
func TestEndByRealTimeSignal(t *testing.T) {
	store := newStore(t)
	h := start(t, store, "sleep", "600")
	send(t, pin(t, h.Identity), 40)
	job := finished(t, store, h.RunID)
	if string(job.ExitCode) != "null" || string(job.Signal) == "null" || text(job.ReasonCode) != "run.failed.signal" {
		t.Errorf("exit code %s, signal %s, reason %s", job.ExitCode, job.Signal, text(job.ReasonCode))
	}
}

// The supervisor is killed: the job goes on, and when it ends nobody knows how.
func TestSupervisorKilled(t *testing.T) {
	store := newStore(t)
	h := start(t, store, "sleep", "600")
	kill(t, h.Supervisor)
	job := status(t, store, h.RunID)
	if job.Status != "running" || !job.Alive || job.Terminal || job.Finding != "identity_confirmed" {
		t.Errorf("without its supervisor the job is %s (%s)", job.Status, job.Finding)
	}
	kill(t, h.Identity)
	job = finished(t, store, h.RunID)
	if text(job.Outcome) != sidecar.Indeterminate || string(job.TerminalSource) != `"mcp_orphan_reaper"` ||
		text(job.ReasonCode) != sidecar.ReasonGone || string(job.FinishedAtPrecision) != `"upper_bound"` {
		t.Errorf("outcome %s, reason %s, source %s", text(job.Outcome), text(job.ReasonCode), job.TerminalSource)
	}
}

// The child is killed while many look: the supervisor, which lives, writes the
// end, however early an observer saw the loss.
func TestChildKilledIsNeverReaped(t *testing.T) {
	for range 10 {
		store := newStore(t)
		h := start(t, store, "sleep", "600")
		p := pin(t, h.Identity)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for job := (reap.Job{}); !job.Terminal; {
					var err error
					if job, err = observer(store).Status(t.Context(), h.RunID); err != nil {
						t.Error(err)
						return
					}
					switch {
					case job.PossiblyOrphaned:
						t.Errorf("%s (%s) while its supervisor lives", job.Status, job.Finding)
					case job.Terminal && string(job.TerminalSource) != `"supervisor_exit"`:
						t.Errorf("ended by %s", job.TerminalSource)
					}
				}
			})
		}
		send(t, p, syscall.SIGKILL)
		wg.Wait()
		if job := status(t, store, h.RunID); string(job.Signal) != `"SIGKILL"` || string(job.LateReport) != "null" {
			t.Errorf("signal %s, late report %s", job.Signal, job.LateReport)
		}
	}
}

// A supervisor that is stopped lives: the end is its to tell, when it goes on.
func TestSupervisorStopped(t *testing.T) {
	store := newStore(t)
	h := start(t, store, "sleep", "600")
	sup := pin(t, h.Supervisor)
	send(t, sup, syscall.SIGSTOP)
	until(t, "the supervisor is stopped", func() bool { return state(h.Supervisor.PID) == 'T' })
	kill(t, h.Identity)
	record := filepath.Join(store.Dir, h.RunID, "job.json")
	before, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	job := status(t, store, h.RunID)
	if job.Status != "ending" || job.Terminal || job.PossiblyOrphaned || job.LivenessConclusion != "process_gone" {
		t.Errorf("%s, terminal %v, orphaned %v", job.Status, job.Terminal, job.PossiblyOrphaned)
	}
	w, err := observer(store).Wait(t.Context(), []string{h.RunID}, reap.WaitOptions{MaxWait: 0.3, Poll: 0.05})
	if err != nil || !w.TimedOut || len(w.Pending) != 1 {
		t.Errorf("wait: %v, %+v", err, w)
	}
	if after, _ := os.ReadFile(record); string(after) != string(before) {
		t.Errorf("the record changed:\n%s", after)
	}
	send(t, sup, syscall.SIGCONT)
	job = finished(t, store, h.RunID)
	if string(job.TerminalSource) != `"supervisor_exit"` || string(job.Signal) != `"SIGKILL"` {
		t.Errorf("ended by %s, signal %s", job.TerminalSource, job.Signal)
	}
}

// The caller is killed right after the start: the job does not depend on it.
func TestSpawnerKilled(t *testing.T) {
	store := newStore(t)
	fifo := filepath.Join(t.TempDir(), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := spawner(store.Dir, "sh", "-c", `read line <"$1"; exit 7`, "sh", fifo)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	ids, err := store.IDs()
	if err != nil || len(ids) != 1 {
		t.Fatalf("jobs %v, %v", ids, err)
	}
	if job := status(t, store, ids[0]); job.Status != "running" {
		t.Fatalf("%s (%s)", job.Status, job.Finding)
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if job := finished(t, store, ids[0]); string(job.ExitCode) != "7" || string(job.TerminalSource) != `"supervisor_exit"` {
		t.Errorf("%s, exit code %s, source %s", job.Status, job.ExitCode, job.TerminalSource)
	}
}

// The hang-up of a terminal does not end a supervisor.
func TestSupervisorHangup(t *testing.T) {
	store := newStore(t)
	h := start(t, store, shell("read line; exit 5")...)
	_ = finished(t, store, h.RunID) // no input: it ends at once
	h = start(t, store, "sleep", "600")
	sup := pin(t, h.Supervisor)
	send(t, sup, syscall.SIGHUP)
	send(t, pin(t, h.Identity), syscall.SIGTERM)
	if job := finished(t, store, h.RunID); string(job.Signal) != `"SIGTERM"` || string(job.TerminalSource) != `"supervisor_exit"` {
		t.Errorf("%s, signal %s, source %s", job.Status, job.Signal, job.TerminalSource)
	}
}
