package spawn

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// spawnerEnv makes this binary a program that starts one job and prints its
// handle: a caller of Start that can be killed, or be another user.
const spawnerEnv = "JOBPROBE_TEST_SPAWNER"

// claimEnv is the claim that it asks for. roleEnv makes this binary a supervisor
// where its name cannot be given, as under a tracer.
const (
	claimEnv = "JOBPROBE_TEST_CLAIM"
	roleEnv  = "JOBPROBE_TEST_ROLE"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Unsetenv(roleEnv)
		os.Args[0] = role
	}
	Init()
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // or each process of a race build ends a second later
	}
	if dir := os.Getenv(spawnerEnv); dir != "" {
		os.Unsetenv(spawnerEnv)
		os.Exit(spawnerMain(dir, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// spawnerMain starts a job and stays until its input ends.
func spawnerMain(dir string, argv []string) int {
	h, err := Start(context.Background(), sidecar.Store{Dir: dir}, Request{Argv: argv, Claim: os.Getenv(claimEnv)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(h); err != nil {
		return 2
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// spawner is the command that runs spawnerMain. It is named by a path that
// works for every user.
func spawner(dir string, argv ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", argv...)
	cmd.Args[0] = "spawner"
	cmd.Env = append(os.Environ(), spawnerEnv+"="+dir)
	cmd.Dir = "/"
	return cmd
}

// newStore is an empty store. Whatever jobs it has in the end are killed.
func newStore(t *testing.T) sidecar.Store {
	t.Helper()
	return storeAt(t, filepath.Join(t.TempDir(), "jobs"))
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

// start starts a job that must start.
func start(t *testing.T, store sidecar.Store, argv ...string) Handle {
	t.Helper()
	h, err := Start(t.Context(), store, Request{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func shell(script string) []string { return []string{"sh", "-c", script} }

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

// output runs a job to its successful end and returns what it printed.
func output(t *testing.T, store sidecar.Store, argv ...string) string {
	t.Helper()
	h := start(t, store, argv...)
	if job := finished(t, store, h.RunID); text(job.Outcome) != reap.Succeeded {
		t.Fatalf("%s: exit code %s, signal %s\n%s", job.Status, job.ExitCode, job.Signal, console(t, store, h.RunID))
	}
	return console(t, store, h.RunID)
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
