//go:build unix

package reap_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// record makes a job of a process that this program has started itself.
func record(store sidecar.Store, id string, cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	identity, err := jobprobe.Identify(cmd.Process.Pid)
	if err != nil {
		panic(err)
	}
	text, err := identity.MarshalJSON()
	if err != nil {
		panic(err)
	}
	err = store.Create(id, sidecar.NewRecord(
		sidecar.Field{Name: "run_id", Value: sidecar.Text(id)},
		sidecar.Field{Name: "pid", Value: sidecar.Int(identity.PID)},
		sidecar.Field{Name: "pgid", Value: sidecar.Int(identity.PID)}, // it leads its session
		sidecar.Field{Name: "submitted_at", Value: sidecar.Text(sidecar.FormatTime(time.Now()))},
		sidecar.Field{Name: "finished_at", Value: sidecar.Null()},
		sidecar.Field{Name: "status", Value: sidecar.Text("running")},
		sidecar.Field{Name: "spawn_state", Value: sidecar.Text("started")},
		sidecar.Field{Name: "process_identity", Value: text},
	))
	if err != nil {
		panic(err)
	}
}

// newObserver observes a new store.
func newObserver() (obs reap.Observer, remove func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	return reap.New(filepath.Join(dir, "jobs")), func() { os.RemoveAll(dir) }
}

// A job is killed, and nobody reports. The next look ends it, for good.
func ExampleObserver_Status() {
	obs, remove := newObserver()
	defer remove()
	ctx := context.Background()
	defer obs.Flush(ctx)
	cmd := exec.Command("sleep", "600")
	record(obs.Store, "job", cmd)
	for range 2 {
		job, err := obs.Status(ctx, "job")
		if err != nil {
			panic(err)
		}
		fmt.Println(job.Status, job.LivenessConclusion, "terminal:", job.Terminal)
		if job.Terminal {
			fmt.Println(*job.Outcome, *job.ReasonCode, string(job.TerminalSource))
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	// Output:
	// running alive terminal: false
	// exited process_gone terminal: true
	// indeterminate process_gone_without_outcome "mcp_orphan_reaper"
}

// A wait is woken by the exit of a process, and returns at the latest when its
// window closes. Whatever has no end then has none.
func ExampleObserver_Wait() {
	obs, remove := newObserver()
	defer remove()
	ctx := context.Background()
	defer obs.Flush(ctx)
	short, long := exec.Command("true"), exec.Command("sleep", "600")
	record(obs.Store, "short", short)
	record(obs.Store, "long", long)
	go short.Wait()
	defer long.Wait()
	defer long.Process.Kill()
	w, err := obs.Wait(ctx, []string{"short", "long"}, reap.WaitOptions{MaxWait: 600, Poll: 1, Any: true})
	if err != nil {
		panic(err)
	}
	for _, run := range w.Runs {
		fmt.Println(run.RunID, "terminal:", run.Terminal)
	}
	fmt.Println("all:", w.AllTerminal, "pending:", w.Pending)
	// Output:
	// short terminal: true
	// long terminal: false
	// all: false pending: [long]
}

// A damaged record is one row, and hides no other.
func ExampleObserver_List() {
	obs, remove := newObserver()
	defer remove()
	ctx := context.Background()
	defer obs.Flush(ctx)
	cmd := exec.Command("sleep", "600")
	record(obs.Store, "20260101T000002-00000b", cmd)
	defer cmd.Wait()
	defer cmd.Process.Kill()
	damaged := filepath.Join(obs.Store.Dir, "20260101T000001-00000a")
	if err := os.Mkdir(damaged, 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "job.json"), []byte("{"), 0o600); err != nil {
		panic(err)
	}
	l, err := obs.List(ctx, reap.ListOptions{})
	if err != nil {
		panic(err)
	}
	for _, job := range l.Jobs {
		fmt.Println(job.RunID, job.RecordState, job.Status)
	}
	// Output:
	// 20260101T000002-00000b ok running
	// 20260101T000001-00000a unreadable unknown
}

// What is killed is proved to be the job first, and was recorded with the
// signal.
func ExampleObserver_Kill() {
	obs, remove := newObserver()
	defer remove()
	ctx := context.Background()
	defer obs.Flush(ctx)
	cmd := exec.Command("sleep", "600")
	record(obs.Store, "job", cmd)
	defer cmd.Wait()
	for range 2 {
		reply, err := obs.Kill(ctx, "job", reap.KillOptions{Signal: syscall.SIGTERM, Grace: time.Second, Verify: time.Second})
		if err != nil {
			panic(err)
		}
		fmt.Println(reply.ReasonCode, "killed:", reply.Killed, "cleanup:", reply.Cleanup)
	}
	job, err := obs.Status(ctx, "job")
	if err != nil {
		panic(err)
	}
	fmt.Println(job.Status, *job.Outcome)
	// Output:
	// signalled killed: true cleanup: completed
	// group_gone killed: false cleanup: not_requested
	// killed cancelled
}
