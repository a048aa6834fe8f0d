//go:build unix

package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/spawn"
)

// The programs of these examples have called Init first thing in main.

// newObserver observes a new store.
func newObserver() (obs reap.Observer, remove func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	return reap.New(filepath.Join(dir, "jobs")), func() { os.RemoveAll(dir) }
}

// ended waits for jobs and their supervisors.
func ended(obs reap.Observer, jobs ...spawn.Handle) {
	ctx := context.Background()
	for _, h := range jobs {
		if _, err := obs.Wait(ctx, []string{h.RunID}, reap.WaitOptions{MaxWait: 60, Poll: 1}); err != nil {
			panic(err)
		}
		if p, err := jobprobe.Open(h.Supervisor); err == nil {
			_, _ = p.Wait(ctx)
			p.Close()
		}
	}
}

// A job runs on its own, and its supervisor records how it ended.
func ExampleStart() {
	obs, remove := newObserver()
	defer remove()
	ctx := context.Background()
	defer obs.Flush(ctx)
	h, err := spawn.Start(ctx, obs.Store, spawn.Request{
		Argv: []string{"sh", "-c", "echo hello; exit 3"}, Label: "greeting",
	})
	if err != nil {
		panic(err)
	}
	ended(obs, h)
	job, err := obs.Status(ctx, h.RunID)
	if err != nil {
		panic(err)
	}
	out, _, err := obs.Output(ctx, h.RunID, 0)
	if err != nil {
		panic(err)
	}
	fmt.Println(*job.Outcome, string(job.ExitCode), string(job.TerminalSource))
	fmt.Print(*out.Console)
	// Output:
	// failed 3 "supervisor_exit"
	// hello
}

// At most one live job holds a claim. Its end frees it, and nothing else has to.
func ExampleClaims() {
	obs, remove := newObserver()
	defer remove()
	ctx := context.Background()
	defer obs.Flush(ctx)
	backup := spawn.Request{Argv: []string{"sleep", "600"}, Claim: "backup"}
	first, err := spawn.Start(ctx, obs.Store, backup)
	if err != nil {
		panic(err)
	}
	_, err = spawn.Start(ctx, obs.Store, backup)
	if held, ok := errors.AsType[*spawn.ClaimHeldError](err); ok {
		fmt.Println("held by the first:", held.Holder == first.RunID)
	}
	if _, err := obs.Kill(ctx, first.RunID, reap.KillOptions{}); err != nil {
		panic(err)
	}
	ended(obs, first)
	claims, err := spawn.Claims(ctx, obs)
	if err != nil {
		panic(err)
	}
	for _, claim := range claims {
		fmt.Println(claim.Key, claim.State, claim.Status)
	}
	// Output:
	// held by the first: true
	// backup free killed
}

// A program that was started again finds its live jobs, and can wait for them.
func ExampleAdopt() {
	obs, remove := newObserver()
	defer remove()
	ctx := context.Background()
	defer obs.Flush(ctx)
	done, err := spawn.Start(ctx, obs.Store, spawn.Request{Argv: []string{"true"}})
	if err != nil {
		panic(err)
	}
	ended(obs, done)
	h, err := spawn.Start(ctx, obs.Store, spawn.Request{Argv: []string{"sleep", "600"}})
	if err != nil {
		panic(err)
	}

	live, open, err := spawn.Adopt(ctx, obs)
	if err != nil {
		panic(err)
	}
	fmt.Println("live:", len(live), "the second:", live[0].Job.RunID == h.RunID, "open:", len(open))
	defer live[0].Close()
	if err := live[0].Process.Signal(os.Kill); err != nil {
		panic(err)
	}
	job, err := live[0].Wait(ctx)
	if err != nil {
		panic(err)
	}
	ended(obs, h)
	fmt.Println(job.Status, string(job.Signal))
	// Output:
	// live: 1 the second: true open: 0
	// failed "SIGKILL"
}

// builder makes jobs of the calls of one tool.
type builder struct{}

func (builder) Decide(_ context.Context, _ string, calls []spawn.ToolCall) ([]spawn.Decision, error) {
	decisions := make([]spawn.Decision, len(calls))
	for i, call := range calls {
		if call.Name == "build" {
			decisions[i].Job = &spawn.Request{Argv: []string{"true"}, Label: call.ID}
		}
	}
	return decisions, nil
}

// OnSpawnOutcome is told what became of the jobs.
func (builder) OnSpawnOutcome(_ context.Context, report spawn.Report) {
	for _, slot := range report.Slots {
		fmt.Println("told:", slot.ToolCallID, slot.Outcome)
	}
}

// Of a batch of calls a selector makes some to jobs, and is told once what
// became of them. A program that asks again is told the same by the records.
func ExampleAdmit() {
	obs, remove := newObserver()
	defer remove()
	ctx := context.Background()
	defer obs.Flush(ctx)
	calls := []spawn.ToolCall{{ID: "a", Name: "build"}, {ID: "b", Name: "read"}}
	const parent = "20260101T000000-0000aa"
	for range 2 {
		batch, err := spawn.Admit(ctx, obs.Store, builder{}, parent, calls)
		if err != nil {
			panic(err)
		}
		for _, slot := range batch.Slots {
			fmt.Println(slot.SpawnIndex, slot.ToolCallID, slot.Outcome, "again:", batch.Repeated)
		}
	}
	slots, err := spawn.Children(obs.Store, parent)
	if err != nil {
		panic(err)
	}
	fmt.Println("children:", len(slots))
	live, _, err := spawn.Adopt(ctx, obs)
	if err != nil {
		panic(err)
	}
	for _, l := range live {
		if _, err := l.Wait(ctx); err != nil {
			panic(err)
		}
		l.Close()
	}
	// Output:
	// told: a committed
	// 0 a committed again: false
	// 0 a committed again: true
	// children: 1
}
