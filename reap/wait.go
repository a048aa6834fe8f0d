package reap

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe/sidecar"
)

// unresolvedAfter is how old a job may be that was prepared and never
// started, before waiting for it is called hopeless. It ends nothing.
const unresolvedAfter = 600 * time.Second

// WaitOptions bounds a wait.
type WaitOptions struct {
	// MaxWait is the window in seconds, 0 to 600; 0 observes once.
	MaxWait float64
	// Poll is the time between looks in seconds, 0.05 to 60.
	Poll float64
	// Any returns as soon as one job has ended, instead of all.
	Any bool
}

// Waited is one job of a wait.
type Waited struct {
	RunID            string         `json:"run_id"`
	Kind             jsontext.Value `json:"kind"`
	Label            jsontext.Value `json:"label"`
	Status           string         `json:"status"`
	Terminal         bool           `json:"terminal"`
	Outcome          *string        `json:"outcome"`
	ReasonCode       *string        `json:"reason_code"`
	PossiblyOrphaned bool           `json:"possibly_orphaned"`
	SpawnState       jsontext.Value `json:"spawn_state"`
	SubmittedAt      jsontext.Value `json:"submitted_at"`
	Error            *WaitError     `json:"error"`
	FinishedAt       jsontext.Value `json:"finished_at"`
	TerminalSource   jsontext.Value `json:"terminal_source"`
	ExitCode         jsontext.Value `json:"exit_code"`
	Signal           jsontext.Value `json:"signal"`
	// Refused is as in Job.
	Refused *string `json:"refused"`
}

// WaitError says why an id cannot be waited for: invalid_input, not_found or
// record_unusable.
type WaitError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Waiting is the answer of Wait. The ids that are neither terminal nor in
// error stand in exactly one of Pending, StoppedWithoutEnd and
// UnresolvedSpawn.
type Waiting struct {
	// Runs holds an entry for each id, in the order given.
	Runs []Waited `json:"runs"`
	// AllTerminal says that every id has a durable end; not that all
	// succeeded.
	AllTerminal bool `json:"all_terminal"`
	// TimedOut says that the window closed while jobs were pending.
	TimedOut bool     `json:"timed_out"`
	Pending  []string `json:"pending"`
	// StoppedWithoutEnd holds jobs that seem to have stopped, with nothing
	// that proves it.
	StoppedWithoutEnd []string `json:"stopped_without_end"`
	// UnresolvedSpawn holds jobs that were prepared long ago and never
	// started.
	UnresolvedSpawn      []string `json:"unresolved_spawn"`
	UnresolvedSpawnAfter float64  `json:"unresolved_spawn_after"`
	MaxWait              float64  `json:"max_wait"`
	PollInterval         float64  `json:"poll_interval"`
	RequestedMaxWait     float64  `json:"requested_max_wait"`
	RequestedPoll        float64  `json:"requested_poll_interval"`
}

// Wait observes jobs until all have ended, nothing more can be waited for, or
// the window has closed. The error is the context's.
func (o Observer) Wait(ctx context.Context, ids []string, opt WaitOptions) (Waiting, error) {
	window := clamp(opt.MaxWait, 0, 600)
	poll := clamp(opt.Poll, 0.05, 60)
	deadline := time.Now().Add(seconds(window))
	for slept := false; ; slept = true {
		w := o.waitOnce(ctx, ids)
		w.MaxWait, w.RequestedMaxWait = window, opt.MaxWait
		w.PollInterval, w.RequestedPoll = poll, opt.Poll
		left := time.Until(deadline)
		special := len(w.StoppedWithoutEnd)+len(w.UnresolvedSpawn) > 0
		switch {
		case ctx.Err() != nil:
			return w, ctx.Err()
		case left <= 0, len(w.Pending) == 0 && (slept || !special), opt.Any && w.anyTerminal():
			return w, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(seconds(poll), left)):
		}
	}
}

func (w *Waiting) anyTerminal() bool {
	for i := range w.Runs {
		if w.Runs[i].Terminal {
			return true
		}
	}
	return false
}

// waitOnce observes each id once and sorts them.
func (o Observer) waitOnce(ctx context.Context, ids []string) Waiting {
	w := Waiting{
		Runs:                 make([]Waited, 0, len(ids)),
		Pending:              []string{},
		StoppedWithoutEnd:    []string{},
		UnresolvedSpawn:      []string{},
		UnresolvedSpawnAfter: unresolvedAfter.Seconds(),
	}
	failed := false
	for _, id := range ids {
		run := o.waited(ctx, id)
		switch {
		case run.Error != nil:
			failed = true
		case run.Terminal:
		case run.PossiblyOrphaned:
			w.StoppedWithoutEnd = append(w.StoppedWithoutEnd, id)
		case o.unresolved(&run):
			w.UnresolvedSpawn = append(w.UnresolvedSpawn, id)
		default:
			w.Pending = append(w.Pending, id)
		}
		w.Runs = append(w.Runs, run)
	}
	w.TimedOut = len(w.Pending) > 0
	w.AllTerminal = !failed && len(w.Pending)+len(w.StoppedWithoutEnd)+len(w.UnresolvedSpawn) == 0
	return w
}

func (o Observer) waited(ctx context.Context, id string) Waited {
	l, err := o.observe(ctx, id)
	if err != nil {
		l.reading.State = sidecar.Absent
	}
	row := o.row(&l)
	return Waited{
		RunID: id, Kind: row.Kind, Label: row.Label, Status: row.Status,
		Terminal: row.Terminal, Outcome: row.Outcome, ReasonCode: row.ReasonCode,
		PossiblyOrphaned: derive(&l).orphaned, SpawnState: row.SpawnState, SubmittedAt: row.SubmittedAt,
		Error:      waitError(id, l.reading.State, err),
		FinishedAt: row.FinishedAt, TerminalSource: row.TerminalSource,
		ExitCode: row.ExitCode, Signal: row.Signal, Refused: row.Refused,
	}
}

func waitError(id string, state sidecar.State, err error) *WaitError {
	switch {
	case strings.TrimSpace(id) == "":
		return &WaitError{"invalid_input", "a run id must not be blank"}
	case err != nil:
		return &WaitError{"invalid_input", err.Error()}
	case state == sidecar.Absent:
		return &WaitError{"not_found", "no job has the run id " + id}
	case state != sidecar.OK:
		return &WaitError{"record_unusable", unusable(state) + ": " + id}
	}
	return nil
}

// unusable says in the peer's words what is wrong with a record.
func unusable(state sidecar.State) string {
	if state == sidecar.WrongShape {
		return "the record for this job holds valid JSON that is not an object"
	}
	return "the record for this job is on disk and could not be read or parsed"
}

// unresolved says whether a job was prepared long ago and never started.
func (o Observer) unresolved(run *Waited) bool {
	if string(run.SpawnState) != `"preparing"` {
		return false
	}
	rec := sidecar.NewRecord(sidecar.Field{Name: "at", Value: run.SubmittedAt})
	text, _ := rec.Text("at")
	submitted, ok := sidecar.ParseTime(text)
	return ok && o.time().Sub(submitted) > unresolvedAfter
}

// clamp bounds a number; what is no number is the lower bound.
func clamp(x, low, high float64) float64 {
	if math.IsNaN(x) {
		return low
	}
	return min(max(x, low), high)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
