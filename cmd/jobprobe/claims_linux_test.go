package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
)

// contest is a store in which many processes at a time want one claim.
type contest struct {
	t     *testing.T
	obs   reap.Observer
	lock  string // held by each job while it lives: the system gives it back
	ran   string // one line a job
	twice string // written to by a job that finds another alive
	mu    sync.Mutex
	n     struct{ asked, admitted, refused, killed, shots int }
}

// The contested work: it dies with its lock, whatever becomes of its supervisor.
const contested = `echo "$JOBPROBE_RUN_ID" >>"$1"; exec 9>>"$2"; flock -n 9 || echo "$JOBPROBE_RUN_ID" >>"$3"; exec sleep 0.0$4`

func newContest(t *testing.T) *contest {
	t.Helper()
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("needs flock(1)")
	}
	dir := t.TempDir()
	c := &contest{t: t, obs: reap.New(filepath.Join(dir, "jobs"))}
	c.lock, c.ran, c.twice = filepath.Join(dir, "lock"), filepath.Join(dir, "ran"), filepath.Join(dir, "twice")
	t.Cleanup(func() { endJobs(dir) })
	return c
}

// ask is one run --claim, which may be killed on the way. It returns the run id
// that was admitted, or the holder that was in its way, or neither.
func (c *contest) ask(kill func(*os.Process)) (admitted, holder string) {
	cmd := program(c.t, c.obs.Store.Dir, "run", "--claim", "k", "--",
		"sh", "-c", contested, "sh", c.ran, c.lock, c.twice, string('0'+byte(rand.IntN(10))))
	cmd.Stderr = nil
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Error(err)
		return "", ""
	}
	kill(cmd.Process)
	var reply struct {
		RunID  string `json:"run_id"`
		Reason string `json:"reason_code"`
	}
	readErr := json.UnmarshalRead(out, &reply)
	_ = cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.asked++
	switch ws := cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case ws.Signaled() && ws.Signal() == syscall.SIGKILL:
		c.n.killed++
		return "", ""
	case readErr != nil:
		c.t.Errorf("%v, %v", cmd.ProcessState, readErr)
	case cmd.ProcessState.Success():
		c.n.admitted++
		return reply.RunID, ""
	case reply.Reason == "claim_held":
		c.n.refused++
		return "", reply.RunID
	case reply.Reason != "spawn_failed": // its supervisor or its command was shot
		c.t.Errorf("refused: %+v", reply)
	}
	return "", ""
}

// ended says whether a run's end is on record.
func (c *contest) ended(id string) bool {
	rec := c.obs.Store.Read(id).Record
	return rec != nil && rec.Ended()
}

// shoot kills a process of a job at random until there is nothing more to do.
func (c *contest) shoot(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		default:
		}
		ids, _ := c.obs.Store.IDs()
		if len(ids) == 0 {
			continue
		}
		rec := c.obs.Store.Read(ids[rand.IntN(min(3, len(ids)))]).Record // newest first
		if rec == nil || rec.Ended() {
			continue
		}
		raw, _ := rec.Raw([]string{"supervisor", "process_identity"}[rand.IntN(2)])
		who, err := jobprobe.ParseIdentity(raw)
		if err != nil || rand.IntN(4) > 0 {
			continue
		}
		if p, err := jobprobe.Open(who); err == nil {
			if p.Signal(syscall.SIGKILL) == nil {
				c.n.shots++
			}
			p.Close()
		}
	}
}

// round lets n processes ask at once, kills some of them and of what they have
// started, and then insists on the claim.
func (c *contest) round(n int) {
	over := make(chan struct{})
	var shooter, askers sync.WaitGroup
	shooter.Go(func() { c.shoot(over) })
	for range n {
		askers.Go(func() {
			c.ask(func(p *os.Process) {
				if rand.IntN(3) == 0 {
					time.Sleep(rand.N(100 * time.Millisecond)) // wherever it is by then
					_ = p.Kill()
				}
			})
		})
	}
	askers.Wait()
	close(over)
	shooter.Wait()
	for before := ""; ; {
		wasEnded := before != "" && c.ended(before)
		admitted, holder := c.ask(func(*os.Process) {})
		if admitted != "" || c.t.Failed() {
			return
		}
		if holder == before && wasEnded {
			c.t.Errorf("refused for %s, whose end was on record", holder)
			return
		}
		if before = holder; holder != "" {
			if w, err := c.obs.Wait(c.t.Context(), []string{holder}, reap.WaitOptions{MaxWait: 60, Poll: 0.05}); err != nil || !w.AllTerminal {
				c.t.Errorf("%s holds on for ever: %+v, %v", holder, w, err)
				return
			}
		}
	}
}

// judge says that no two jobs lived at a time, that none ran twice, and that
// each that ran is on record.
func (c *contest) judge() {
	if data, err := os.ReadFile(c.twice); !errors.Is(err, os.ErrNotExist) {
		c.t.Errorf("two holders at a time: %s %v", data, err)
	}
	data, err := os.ReadFile(c.ran)
	if err != nil {
		c.t.Fatal(err)
	}
	ran := strings.Fields(string(data))
	slices.Sort(ran)
	if all := len(ran); len(slices.Compact(slices.Clone(ran))) != all {
		c.t.Errorf("a job ran twice")
	}
	for _, id := range ran {
		rec := c.obs.Store.Read(id).Record
		state := ""
		if rec != nil {
			state, _ = rec.Text("spawn_state")
		}
		if state != "started" {
			c.t.Errorf("%s ran, and its record says %q", id, state)
		}
	}
	c.t.Logf("count: %d jobs ran, %+v", len(ran), c.n)
}

// 64 processes at a time want one claim, and are killed at random, as are the
// jobs and their supervisors: never do two jobs live at a time, and the claim
// can always be had once its holder's end is on record.
func TestClaimContest(t *testing.T) {
	c := newContest(t)
	for range 2 {
		c.round(64)
	}
	c.judge()
}

func TestStressClaimContest(t *testing.T) {
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
	const rounds = 200
	c := newContest(t)
	for range rounds {
		if c.round(64); t.Failed() {
			break
		}
	}
	c.judge()
	if c.n.killed < rounds || c.n.shots < rounds/2 || c.n.admitted < rounds {
		t.Errorf("too tame: %+v", c.n)
	}
}
