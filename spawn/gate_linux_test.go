package spawn

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

const gateRun = "20260801T000000-abcdef"

// gate is a job that is prepared and has no supervisor yet. Its work writes a
// file.
type gate struct {
	t     *testing.T
	store sidecar.Store
	ran   string
	task  task
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{t: t, store: newStore(t), ran: filepath.Join(t.TempDir(), "ran")}
	self, err := jobprobe.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	req := Request{Argv: shell(`echo >>"$1"; exit 3`), Dir: "/"}
	req.Argv = append(req.Argv, "sh", g.ran)
	if err := g.store.Create(gateRun, preparing(g.store, gateRun, &req, self, time.Now())); err != nil {
		t.Fatal(err)
	}
	g.task = task{Dir: g.store.Dir, RunID: gateRun, Argv: req.Argv, Cwd: "/", Env: jobEnv(nil, g.store.Dir, gateRun)}
	return g
}

// supervisor is the command that the job's supervisor is.
func (g *gate) supervisor() *exec.Cmd {
	g.t.Helper()
	var spec bytes.Buffer
	if err := g.task.writeTo(&spec); err != nil {
		g.t.Fatal(err)
	}
	return &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{superviseName, gateRun}, Dir: "/",
		Stdin: &spec, SysProcAttr: detached()[0],
	}
}

// hold takes the job's lock, so that nobody can attach.
func (g *gate) hold() (release func()) {
	g.t.Helper()
	return g.lock(gateRun)
}

// lock takes the lock of a job of the store.
func (g *gate) lock(id string) (release func()) {
	g.t.Helper()
	lock := flock.New(filepath.Join(g.store.Dir, id, "job.lock"))
	if err := lock.Lock(); err != nil {
		g.t.Fatal(err)
	}
	return func() { _ = lock.Unlock() }
}

// runs is how often the work has begun.
func (g *gate) runs() int {
	data, _ := os.ReadFile(g.ran)
	return len(data)
}

// holder waits until the supervisor has its holder, and pins that.
func (g *gate) holder(supervisor int) *jobprobe.Process {
	g.t.Helper()
	return pinChild(g.t, supervisor, holdName)
}

// pinChild waits until a process has a child of a name, and pins that.
func pinChild(t *testing.T, parent int, name string) *jobprobe.Process {
	t.Helper()
	var pid int
	until(t, "there is a "+name, func() bool {
		children, _ := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children")
		for _, path := range children {
			data, _ := os.ReadFile(path)
			for _, word := range strings.Fields(string(data)) {
				line, _ := os.ReadFile("/proc/" + word + "/cmdline")
				if bytes.HasPrefix(line, []byte(name+"\x00")) {
					pid, _ = strconv.Atoi(word)
				}
			}
		}
		return pid != 0
	})
	id, err := jobprobe.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return pin(t, id)
}

// A record that somebody closed before the supervisor attached: the work never
// runs, and the record stays as it was.
func TestClosedBeforeAttach(t *testing.T) {
	for name, change := range map[string]func(g *gate) error{
		"hook": func(g *gate) error {
			_, err := g.store.EndByHook(t.Context(), gateRun, sidecar.HookEnd{Status: "cancelled", At: time.Now()})
			return err
		},
		"spawn failure": func(g *gate) error {
			_, err := g.store.SpawnFailed(t.Context(), gateRun, sidecar.SpawnFailure{Reason: "gave up", At: time.Now()})
			return err
		},
		"kill": func(g *gate) error {
			_, err := g.store.EndByKill(t.Context(), gateRun, sidecar.KillEnd{At: time.Now()})
			return err
		},
		"another supervisor": func(g *gate) error {
			self, err := jobprobe.Identify(os.Getpid())
			if err == nil {
				_, err = g.store.Attach(t.Context(), gateRun, sidecar.Attachment{PID: self.PID, Identity: self})
			}
			return err
		},
		"removed": func(g *gate) error { return os.RemoveAll(filepath.Join(g.store.Dir, gateRun)) },
		"damaged": func(g *gate) error {
			return os.WriteFile(filepath.Join(g.store.Dir, gateRun, "job.json"), []byte("{"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t)
			if err := change(g); err != nil {
				t.Fatal(err)
			}
			record := filepath.Join(g.store.Dir, gateRun, "job.json")
			before, _ := os.ReadFile(record)
			out, err := g.supervisor().Output()
			if err == nil {
				t.Error("the supervisor succeeded")
			}
			var rep struct{ Error string }
			if json.Unmarshal(out, &rep) != nil || rep.Error == "" {
				t.Errorf("report %q", out)
			}
			if after, _ := os.ReadFile(record); string(after) != string(before) {
				t.Errorf("the record changed:\n%s", after)
			}
			if g.runs() != 0 {
				t.Error("the work ran")
			}
		})
	}
}

// A supervisor that is killed while its command is held takes the command with
// it: the gate closes, and the work never runs.
func TestSupervisorKilledBeforeRelease(t *testing.T) {
	g := newGate(t)
	release := g.hold()
	sup := g.supervisor()
	if err := sup.Start(); err != nil {
		t.Fatal(err)
	}
	holder := g.holder(sup.Process.Pid)
	_ = sup.Process.Kill()
	_ = sup.Wait()
	if _, err := holder.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	release()
	if g.runs() != 0 {
		t.Error("the work ran")
	}
	if job := status(t, g.store, gateRun); job.Terminal || string(job.SpawnState) != `"preparing"` {
		t.Errorf("%s, spawn state %s", job.Status, job.SpawnState)
	}
}

// A supervisor waits for the lock, and the work with it: it runs once, after
// the commit.
func TestHeldUntilCommitted(t *testing.T) {
	g := newGate(t)
	release := g.hold()
	sup := g.supervisor()
	if err := sup.Start(); err != nil {
		t.Fatal(err)
	}
	g.holder(sup.Process.Pid)
	if g.runs() != 0 || string(status(t, g.store, gateRun).SpawnState) != `"preparing"` {
		t.Error("the work ran before its record said so")
	}
	release()
	if err := sup.Wait(); err != nil {
		t.Error(err)
	}
	job := status(t, g.store, gateRun)
	if g.runs() != 1 || string(job.ExitCode) != "3" || string(job.TerminalSource) != `"supervisor_exit"` {
		t.Errorf("the work ran %d times; %s, exit code %s, source %s", g.runs(), job.Status, job.ExitCode, job.TerminalSource)
	}
}

// Nobody reads the supervisor's report any more: its caller was killed, or its
// context was cancelled. The job is supervised all the same.
func TestCallerGoneBeforeReport(t *testing.T) {
	g := newGate(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	sup := g.supervisor()
	sup.Stdout = w
	err = sup.Run()
	w.Close()
	if err != nil {
		t.Errorf("the supervisor: %v", err)
	}
	job := finished(t, g.store, gateRun)
	if string(job.ExitCode) != "3" || string(job.TerminalSource) != `"supervisor_exit"` {
		t.Errorf("%s, exit code %s, source %s", job.Status, job.ExitCode, job.TerminalSource)
	}
}

// A command that is killed while it is held has an end that says so.
func TestHolderKilled(t *testing.T) {
	g := newGate(t)
	release := g.hold()
	sup := g.supervisor()
	if err := sup.Start(); err != nil {
		t.Fatal(err)
	}
	holder := g.holder(sup.Process.Pid)
	if err := holder.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	release()
	_ = sup.Wait()
	job := finished(t, g.store, gateRun)
	if g.runs() != 0 || text(job.Outcome) != "failed" {
		t.Errorf("the work ran %d times; %s, outcome %s, reason %s", g.runs(), job.Status, text(job.Outcome), text(job.ReasonCode))
	}
}

// What is no task makes no job.
func TestSupervisorWithoutTask(t *testing.T) {
	for _, in := range []string{"", "{", "[]", `{"dir": 7}`} {
		cmd := exec.Cmd{Path: "/proc/self/exe", Args: []string{superviseName, gateRun}, Dir: "/", Stdin: strings.NewReader(in)}
		if err := cmd.Run(); err == nil {
			t.Errorf("task %q was accepted", in)
		}
	}
}
