package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// program is this program as a process of its own.
func program(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = append([]string{"jobprobe", "--json", "--dir", dir}, args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// inText is the program that answers in text.
func inText(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program(t, dir, args...)
	cmd.Args = append(cmd.Args[:1], cmd.Args[2:]...)
	return cmd
}

// handle is what run prints.
type handle struct {
	RunID      string            `json:"run_id"`
	Process    jobprobe.Identity `json:"process_identity"`
	Supervisor jobprobe.Identity `json:"supervisor"`
}

// lost starts a job and kills its supervisor and itself.
func lost(t *testing.T, dir string) handle {
	t.Helper()
	h := live(t, dir)
	h.kill(t)
	return h
}

// kill kills a job's supervisor, and then its process.
func (h *handle) kill(t *testing.T) {
	t.Helper()
	for _, id := range []jobprobe.Identity{h.Supervisor, h.Process} {
		p, err := jobprobe.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
}

// ending is what a reply or a record says of a job's end.
type ending struct {
	FinishedAt string `json:"finished_at"`
	Outcome    string `json:"outcome"`
	Source     string `json:"terminal_source"`
}

// Any number of processes look at a lost job at once: it ends once, and each
// of them says the same.
func TestRaceOfProcesses(t *testing.T) {
	for round := range 20 {
		dir := filepath.Join(t.TempDir(), "jobs")
		h := lost(t, dir)
		const n = 8
		var replies [n]ending
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				args := [][]string{{"status", h.RunID}, {"list", "--limit", "1"}, {"wait", "--max-wait", "0s", h.RunID}}[i%3]
				out, err := program(t, dir, args...).Output()
				if code, ok := err.(*exec.ExitError); ok && args[0] == "wait" && code.ExitCode() == exitGone {
					err = nil
				}
				var reply struct {
					ending
					Jobs, Runs []ending
				}
				if err == nil {
					err = json.Unmarshal(out, &reply)
				}
				if err != nil {
					t.Errorf("%v: %v in %s", args, err, out)
					return
				}
				replies[i] = append(append(reply.Jobs, reply.Runs...), reply.ending)[0]
			})
		}
		wg.Wait()
		rec := sidecar.Store{Dir: dir}.Read(h.RunID).Record
		want := ending{Outcome: "indeterminate", Source: sidecar.SourceReaper}
		want.FinishedAt, _ = rec.Text("finished_at")
		for i, got := range replies {
			if got.Outcome == "" {
				got.Outcome = want.Outcome
			}
			if got != want || got.FinishedAt == "" {
				t.Errorf("round %d: reply %d says %+v, on disk is %+v", round, i, got, want)
			}
		}
	}
}

// Processes that observe jobs while a run tells its own end: the first one
// stands, and a run that was told of is never lost.
func TestRaceOfHookAndProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	for range 5 {
		h := lost(t, dir)
		var told struct{ Recorded, Late bool }
		var wg sync.WaitGroup
		wg.Go(func() {
			out, err := program(t, dir, "hook", "--run-id", h.RunID, "--status", "completed").Output()
			if err == nil {
				err = json.Unmarshal(out, &told)
			}
			if err != nil {
				t.Errorf("hook: %v", err)
			}
		})
		for i := range 4 {
			wg.Go(func() {
				if out, err := program(t, dir, []string{"list", "sweep"}[i%2]).Output(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		wg.Wait()
		rec := sidecar.Store{Dir: dir}.Read(h.RunID).Record
		source, _ := rec.Text("terminal_source")
		late, _ := rec.Object("late_report")
		want := map[bool]string{true: sidecar.SourceHook, false: sidecar.SourceReaper}[told.Recorded]
		if source != want || told.Late == told.Recorded || (late != nil) != told.Late {
			t.Errorf("hook recorded %s, late %s, the record says %s, late report %v",
				strconv.FormatBool(told.Recorded), strconv.FormatBool(told.Late), source, late != nil)
		}
	}
}
