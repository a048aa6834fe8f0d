//go:build linux || windows

package spawn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// newStore is an empty store. Whatever jobs it has in the end are killed.
func newStore(t *testing.T) sidecar.Store {
	t.Helper()
	return storeAt(t, filepath.Join(testproc.TempDir(t), "jobs"))
}

func storeAt(t *testing.T, dir string) sidecar.Store {
	t.Helper()
	store := sidecar.Store{Dir: dir}
	t.Cleanup(func() {
		ids, _ := store.IDs()
		for _, id := range ids {
			rec := store.Read(id).Record
			if rec == nil {
				continue
			}
			for _, name := range []string{"supervisor", "process_identity"} {
				raw, _ := rec.Raw(name)
				if who, err := jobprobe.ParseIdentity(raw); err == nil && who.PID != int64(os.Getpid()) {
					endProcess(t, who)
				}
			}
		}
	})
	return store
}

// endProcess kills a process, if it is still that one, and waits for it.
func endProcess(t *testing.T, who jobprobe.Identity) {
	t.Helper()
	p, err := jobprobe.Open(who)
	if err != nil {
		return
	}
	defer p.Close()
	_ = p.Signal(syscall.SIGKILL)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := p.Wait(ctx); err != nil {
		t.Errorf("pid %d does not end: %v", who.PID, err)
	}
}

// observer looks at a store.
func observer(store sidecar.Store) reap.Observer {
	return reap.Observer{Store: store, RunsDir: filepath.Join(filepath.Dir(store.Dir), "runs")}
}

func status(t *testing.T, store sidecar.Store, id string) reap.Job {
	t.Helper()
	job, err := observer(store).Status(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// finished waits for a job's end and returns how it then stands.
func finished(t *testing.T, store sidecar.Store, id string) reap.Job {
	t.Helper()
	w, err := observer(store).Wait(t.Context(), []string{id}, reap.WaitOptions{MaxWait: 30, Poll: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	job := status(t, store, id)
	if !w.AllTerminal {
		t.Fatalf("no end: %s (%s), supervisor gone or stuck", job.Status, job.Finding)
	}
	return job
}

// console is what a job printed.
func console(t *testing.T, store sidecar.Store, id string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(store.Dir, id, reap.ConsoleName))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// began starts a job that must start, and returns once it has printed a line.
func began(t *testing.T, store sidecar.Store, req Request) Handle {
	t.Helper()
	h, err := Start(t.Context(), store, req)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the job has begun", func() bool { return strings.Contains(console(t, store, h.RunID), "\n") })
	return h
}

// ending is how a job stands, in one line.
func ending(job reap.Job) string {
	return fmt.Sprintln(job.Status, text(job.Outcome), text(job.ReasonCode),
		string(job.ExitCode), string(job.Signal), string(job.TerminalSource))
}

// pin holds a process of a job until the end of the test.
func pin(t *testing.T, who jobprobe.Identity) *jobprobe.Process {
	t.Helper()
	p, err := jobprobe.Open(who)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// send sends a signal that must arrive.
func send(t *testing.T, p *jobprobe.Process, sig syscall.Signal) {
	t.Helper()
	if err := p.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// kill kills a process and returns when it is dead.
func kill(t *testing.T, who jobprobe.Identity) {
	t.Helper()
	p := pin(t, who)
	send(t, p, syscall.SIGKILL)
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// until waits for something that the system does in its own time.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}
