package reap

import (
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
	// MaxWait is the window in seconds, 0 to 600; 0 observes once. What is
	// outside of a range is brought to its nearer end.
	MaxWait float64
	// Poll is the time between looks in seconds, 0.05 to 60.
	Poll float64
	// Any returns as soon as one job has ended, instead of all.
	Any bool
	// Seen, if there is one, is called with what each look at a job has found,
	// one call at a time, before Wait returns. It must be quick.
	Seen func(Waited)
}

// Waited is one job of a wait.
type Waited struct {
	Brief
	PossiblyOrphaned bool           `json:"possibly_orphaned"`
	SpawnState       jsontext.Value `json:"spawn_state"`
	SubmittedAt      jsontext.Value `json:"submitted_at"`
	Error            *WaitError     `json:"error"`
	FinishedAt       jsontext.Value `json:"finished_at"`
	TerminalSource   jsontext.Value `json:"terminal_source"`
	// ExitCode, Signal and Refused are as in Job.
	ExitCode jsontext.Value `json:"exit_code"`
	Signal   jsontext.Value `json:"signal"`
	Refused  *string        `json:"refused"`
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

// standing is where a job stands in a wait.
type standing uint8

const (
	pending standing = iota // also: not looked at yet
	atEnd
	stopped
	unresolved
	unanswerable
)

func (o Observer) standing(run *Waited) standing {
	switch {
	case run.Error != nil:
		return unanswerable
	case run.Terminal:
		return atEnd
	case run.PossiblyOrphaned:
		return stopped
	case o.unresolved(run):
		return unresolved
	}
	return pending
}

// waited is the entry of a job in a wait, from one look at it.
func waited(l *look, err error) Waited {
	if err != nil {
		l.reading.State = sidecar.Absent
	}
	row := recorded(l)
	return Waited{
		Brief:            row.Brief,
		PossiblyOrphaned: derive(l).orphaned, SpawnState: row.SpawnState, SubmittedAt: row.SubmittedAt,
		Error:      waitError(l.id, l.reading.State, err),
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

// reply sorts the jobs into the answer.
func reply(runs []Waited, where []standing) Waiting {
	w := Waiting{
		Runs:                 runs,
		Pending:              []string{},
		StoppedWithoutEnd:    []string{},
		UnresolvedSpawn:      []string{},
		UnresolvedSpawnAfter: unresolvedAfter.Seconds(),
	}
	w.AllTerminal = true
	for i, at := range where {
		id := runs[i].RunID
		switch at {
		case atEnd:
			continue
		case pending:
			w.Pending = append(w.Pending, id)
		case stopped:
			w.StoppedWithoutEnd = append(w.StoppedWithoutEnd, id)
		case unresolved:
			w.UnresolvedSpawn = append(w.UnresolvedSpawn, id)
		case unanswerable:
		}
		w.AllTerminal = false
	}
	w.TimedOut = len(w.Pending) > 0
	return w
}

// clamp bounds a number; what is no number is the lower bound.
func clamp(x, low, high float64) float64 {
	if math.IsNaN(x) {
		return low
	}
	return min(max(x, low), high)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
