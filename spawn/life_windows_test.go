package spawn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// This binary is also the work of the jobs: with "work" and what to do.
func init() {
	if len(os.Args) < 3 || os.Args[1] != "work" {
		return
	}
	switch os.Args[2] {
	case "exit":
		code, _ := strconv.Atoi(os.Args[3])
		fmt.Println("ready")
		os.Exit(code)
	case "record":
		dir, id := os.Getenv("JOBPROBE_DIR"), os.Getenv("JOBPROBE_RUN_ID")
		rec := sidecar.Store{Dir: dir}.Read(id).Record
		state, _ := rec.Text("spawn_state")
		pid, _ := rec.Int("pid")
		fmt.Println(state, pid == int64(os.Getpid()))
		_, err := os.Stdin.Read(make([]byte, 1))
		fmt.Println(err == io.EOF)
	case "print":
		for i := range 5000 {
			fmt.Println(i)
		}
	case "stay":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "nested":
		Init()
		store := sidecar.Store{Dir: os.Getenv("JOBPROBE_DIR")}
		h, err := Start(context.Background(), store, Request{Argv: []string{os.Args[0], "work", "stay"}})
		fmt.Println(h.RunID, err)
		time.Sleep(time.Hour)
	case "tree":
		cmd := exec.Command(os.Args[0], "work", "stay")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_, _ = bufio.NewReader(out).ReadString('\n')
		fmt.Println(cmd.Process.Pid)
		time.Sleep(time.Hour)
	}
	os.Exit(0)
}

// doing is what starts this binary as a job.
func doing(t *testing.T, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{self, "work"}, args...)
}

// The work's first instruction finds its record started, with its own number,
// and has no input.
func TestRecordIsThereBeforeTheWork(t *testing.T) {
	store := newStore(t)
	h := began(t, store, Request{Argv: doing(t, "record")})
	finished(t, store, h.RunID)
	if got := strings.Fields(console(t, store, h.RunID)); fmt.Sprint(got) != "[started true true]" {
		t.Errorf("the job says %q", got)
	}
	if h.Identity.PID != h.PID || h.PID == 0 || h.Supervisor.PID == 0 {
		t.Errorf("%+v", h)
	}
}

// Supervisors tell how the work really ended. 259 is also the code of a process
// that runs.
func TestEnds(t *testing.T) {
	for code, want := range map[int]string{
		0:   `completed succeeded null 0 null "supervisor_exit"`,
		3:   `failed failed run.failed.exit_nonzero 3 null "supervisor_exit"`,
		259: `failed failed run.failed.exit_nonzero 259 null "supervisor_exit"`,
	} {
		store := newStore(t)
		h := began(t, store, Request{Argv: doing(t, "exit", strconv.Itoa(code))})
		if got := strings.TrimSpace(ending(finished(t, store, h.RunID))); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// tree starts a job that has started another process, and pins that.
func tree(t *testing.T, store sidecar.Store, req Request) (Handle, *jobprobe.Process) {
	t.Helper()
	req.Argv = doing(t, "tree")
	h := began(t, store, req)
	pid, err := strconv.Atoi(strings.TrimSpace(console(t, store, h.RunID)))
	if err != nil {
		t.Fatal(err)
	}
	child, err := jobprobe.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return h, pin(t, child)
}

// gone waits for the end of a process that has been killed.
func gone(t *testing.T, p *jobprobe.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := p.Wait(ctx); err != nil {
		t.Errorf("it lives on: %v", err)
		_ = p.Signal(syscall.SIGKILL)
	}
}

// A job is killed from another process than its supervisor, with all that it
// has started: whether the supervisor lives or not.
func TestKillEndsTheTree(t *testing.T) {
	for _, supervised := range []bool{true, false} {
		store := newStore(t)
		h, child := tree(t, store, Request{})
		if !supervised {
			kill(t, h.Supervisor)
		}
		reply, err := observer(store).Kill(t.Context(), h.RunID, reap.KillOptions{})
		if err != nil || !reply.Killed || !reply.Recorded {
			t.Fatalf("%+v, %v", reply, err)
		}
		gone(t, child)
		want := `killed cancelled null null null "mcp_kill"`
		if got := strings.TrimSpace(ending(finished(t, store, h.RunID))); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A job that another job has started is no part of it.
func TestKillSparesOtherJobs(t *testing.T) {
	store := newStore(t)
	h := began(t, store, Request{Argv: doing(t, "nested")})
	id, said, _ := strings.Cut(strings.TrimSpace(console(t, store, h.RunID)), " ")
	if said != "<nil>" {
		t.Fatal(id, said)
	}
	kill := func(id string) {
		t.Helper()
		reply, err := observer(store).Kill(t.Context(), id, reap.KillOptions{})
		if err != nil || !reply.Killed || !reply.Recorded {
			t.Errorf("%+v, %v", reply, err)
		}
		finished(t, store, id)
	}
	kill(h.RunID)
	rec := store.Read(id).Record
	for _, name := range []string{"supervisor", "process_identity"} {
		raw, _ := rec.Raw(name)
		if who, err := jobprobe.ParseIdentity(raw); err != nil || jobprobe.Probe(who).Conclusion != jobprobe.Alive {
			t.Errorf("the %s of the other job is gone (%v)", name, err)
		}
	}
	kill(id)
}

// A job whose time is up is ended with all that it has started.
func TestTimeoutEndsTheTree(t *testing.T) {
	store := newStore(t)
	h, child := tree(t, store, Request{Timeout: 2 * time.Second, Grace: time.Millisecond})
	gone(t, child)
	want := `timed_out failed run.timed_out.deadline 1 null "supervisor_exit"`
	if got := strings.TrimSpace(ending(finished(t, store, h.RunID))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The supervisor is killed: the job and what it has started go on, and when it
// ends nobody knows how.
func TestSupervisorKilled(t *testing.T) {
	store := newStore(t)
	h, child := tree(t, store, Request{})
	kill(t, h.Supervisor)
	if job := status(t, store, h.RunID); job.Status != "running" || job.Finding != "identity_confirmed" {
		t.Errorf("without its supervisor the job is %s (%s)", job.Status, job.Finding)
	}
	kill(t, h.Identity)
	if child.Probe().Conclusion != jobprobe.Alive {
		t.Error("a process died with its parent")
	}
	send(t, child, syscall.SIGKILL)
	want := `exited indeterminate ` + sidecar.ReasonGone + ` null null "mcp_orphan_reaper"`
	if got := strings.TrimSpace(ending(finished(t, store, h.RunID))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A supervisor that is killed while its command is held takes it along: the
// work never runs, and its record can be closed.
func TestSupervisorKilledBeforeRelease(t *testing.T) {
	store := newStore(t)
	task := task{Dir: store.Dir, RunID: "held", Argv: doing(t, "exit", "0"), Cwd: testproc.TempDir(t)}
	if err := os.MkdirAll(filepath.Join(store.Dir, "held"), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := startWork(&task)
	if err != nil {
		t.Fatal(err)
	}
	id, err := jobprobe.Identify(w.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p := pin(t, id)
	w.job.Close() // as the system does with every handle of a process that ends
	gone(t, p)
	w.out.Close()
	if got := console(t, store, "held"); got != "" {
		t.Errorf("the work ran: %q", got)
	}
}

// What cannot start has a record that says so.
func TestFailedStart(t *testing.T) {
	store := newStore(t)
	_, err := Start(t.Context(), store, Request{Argv: []string{"no-such-command"}, HideArgv: true})
	failed, ok := errors.AsType[*FailedError](err)
	if !ok || failed.Err != nil || strings.Contains(err.Error(), "no-such-command") {
		t.Fatalf("%v", err)
	}
	if job := status(t, store, failed.RunID); string(job.SpawnState) != `"failed"` || !job.Terminal {
		t.Errorf("%s, %s", job.Status, job.SpawnState)
	}
}

// A claim is held until its holder's end is on record.
func TestClaim(t *testing.T) {
	store := newStore(t)
	h := began(t, store, Request{Argv: doing(t, "stay"), Claim: "k"})
	_, err := Start(t.Context(), store, Request{Argv: doing(t, "exit", "0"), Claim: "k"})
	if held, ok := errors.AsType[*ClaimHeldError](err); !ok || held.Holder != h.RunID {
		t.Errorf("%v", err)
	}
	kill(t, h.Supervisor)
	kill(t, h.Identity)
	next, err := Start(t.Context(), store, Request{Argv: doing(t, "exit", "0"), Claim: "k"})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, store, next.RunID)
}

// A bounded log is complete when the end is on record.
func TestLogMax(t *testing.T) {
	store := newStore(t)
	h, err := Start(t.Context(), store, Request{Argv: doing(t, "print"), LogMax: MinLog})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, store, h.RunID)
	log := console(t, store, h.RunID)
	gap := FindGap(strings.NewReader(log), MinLog)
	const printed = 10*2 + 90*3 + 900*4 + 4000*5
	if !strings.HasSuffix(log, "\n4999\n") || len(log) > MinLog || int64(len(log))-gap.Mark+gap.Dropped != printed {
		t.Errorf("%d bytes, %+v, %q", len(log), gap, log[max(0, len(log)-30):])
	}
}
