package spawn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// A program is killed and started again: it finds the jobs that live, pinned,
// and learns from each how it ended, whoever there is to tell.
func TestAdopt(t *testing.T) {
	store := newStore(t)
	began := func(argv ...string) Handle {
		cmd := spawner(store.Dir, argv...)
		return spawned(t, cmd) // the spawner ends with its input
	}
	told := began("sleep", "600")
	untold := began("sleep", "600")
	ending := began("sleep", "600")
	done := began("true")
	gone := began("sleep", "600")
	finished(t, store, done.RunID)
	kill(t, untold.Supervisor)
	kill(t, gone.Supervisor)
	kill(t, gone.Identity)
	sup := pin(t, ending.Supervisor)
	send(t, sup, syscall.SIGSTOP)
	until(t, "the supervisor is stopped", func() bool { return state(ending.Supervisor.PID) == 'T' })
	kill(t, ending.Identity)
	me, err := jobprobe.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	req := Request{Argv: []string{"true"}, Dir: "/"}
	if err := store.Create("starting", preparing(store, "starting", &req, me, time.Now())); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(store.Dir, told.RunID, ".."), "{}") // no job

	live, open, err := Adopt(t.Context(), observer(store))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*Live{}
	for _, l := range live {
		found[l.Job.RunID] = l
		defer l.Close()
	}
	if len(found) != 3 || len(open) != 1 || open[0].RunID != "starting" {
		t.Fatalf("live %v, open %+v", found, open)
	}
	if job := status(t, store, gone.RunID); string(job.TerminalSource) != `"mcp_orphan_reaper"` {
		t.Errorf("the lost job was ended by %s", job.TerminalSource)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := found[told.RunID].Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if found[ending.RunID].Process != nil {
		t.Error("a process that is gone was pinned")
	}
	send(t, sup, syscall.SIGCONT)
	for _, c := range []struct {
		h               Handle
		outcome, source string
	}{
		{told, sidecar.Failed, `"supervisor_exit"`},
		{untold, sidecar.Indeterminate, `"mcp_orphan_reaper"`},
		{ending, sidecar.Failed, `"supervisor_exit"`},
	} {
		l := found[c.h.RunID]
		if l.Process != nil {
			send(t, l.Process, syscall.SIGTERM)
		}
		job, err := l.Wait(t.Context())
		if err != nil || !job.Terminal || text(job.Outcome) != c.outcome || string(job.TerminalSource) != c.source {
			t.Errorf("%s, outcome %s by %s, %v", job.Status, text(job.Outcome), job.TerminalSource, err)
		}
	}
	if live, _, err := Adopt(t.Context(), observer(store)); err != nil || len(live) != 0 {
		t.Errorf("afterwards %v live, %v", live, err)
	}
}
