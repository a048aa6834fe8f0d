package spawn

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/enum"
)

// ErrCallID: the calls of a batch have no ids, or share one.
var ErrCallID = errors.New("spawn: a batch needs one id for each of its calls")

// A ToolCall is one call of a batch, which may be run in place or as a job.
type ToolCall struct {
	ID    string         // names it among the calls of its parent, for ever
	Name  string         // of the tool; may be empty
	Input jsontext.Value // of the tool; may be nil
	// Done says that the call needs to run no more, whatever is decided.
	Done bool
}

// A Decision says how a call is to run: as the job, or in place if that is nil.
type Decision struct{ Job *Request }

// A Selector decides which calls of a batch become jobs.
type Selector interface {
	// Decide returns one decision for each call, in their order. It is asked
	// again if a batch is admitted again after an error, and should then
	// decide the same. It may take reservations; if it is also an
	// [OutcomeObserver] it learns what became of them.
	Decide(ctx context.Context, parent string, calls []ToolCall) ([]Decision, error)
}

// An OutcomeObserver is a [Selector] that wants to know what became of its
// decisions.
type OutcomeObserver interface {
	// OnSpawnOutcome is called once for each admission that had a decision to
	// spawn, as soon as the records are settled, before anyone who waits for
	// the admission goes on. It must be cheap and must not admit. A panic is
	// contained. If this process ends before the call, it is not made up for:
	// [Children] then tells the same from the records.
	OnSpawnOutcome(ctx context.Context, report Report)
}

// A Report is what became of the slots of one admission, in the order of the
// calls.
type Report struct {
	ParentRunID string `json:"parent_run_id"`
	Slots       []Slot `json:"slots"`
}

// A Slot is a call that was to become a job.
type Slot struct {
	SpawnIndex int    `json:"spawn_index"` // position of the call in its batch
	ToolCallID string `json:"tool_call_id"`
	// RunID is set if there is a record, started or not.
	RunID   string  `json:"run_id,omitzero"`
	Outcome Outcome `json:"outcome"`
	// Identity is the process of a committed slot.
	Identity jobprobe.Identity `json:"process_identity,omitzero"`
	// Err is why a slot failed.
	Err error `json:"-"`
}

// Outcome is what became of a decision to spawn.
type Outcome uint8

const (
	// Unsettled is the zero value, which no report has.
	Unsettled Outcome = iota
	// Committed: the job's start is on record, and it runs or has run.
	Committed
	// Failed: it has not run and will not.
	Failed
	// DegradedToTool: the call runs in place, because the number of decisions
	// was wrong or the call was done already.
	DegradedToTool
	// Superseded: another admission of the same calls came first.
	Superseded
)

var outcomeNames = [...]string{"unsettled", "committed", "failed", "degraded_to_tool", "superseded"}

// String returns the word used in reports, for example "committed".
func (o Outcome) String() string { return enum.Name(outcomeNames[:], uint8(o), "Outcome") }

// MarshalText returns the word of [Outcome.String].
func (o Outcome) MarshalText() ([]byte, error) {
	return enum.Text(outcomeNames[:], uint8(o), "outcome")
}

// UnmarshalText accepts exactly the words that [Outcome.MarshalText] makes.
func (o *Outcome) UnmarshalText(text []byte) error {
	n, err := enum.Value(outcomeNames[:], text, "outcome")
	if err == nil {
		*o = Outcome(n)
	}
	return err
}

// notify tells a selector that wants to know, and returns what it panicked
// with, if it did.
func notify(ctx context.Context, sel Selector, report Report) (panicked any) {
	observer, ok := sel.(OutcomeObserver)
	if !ok || len(report.Slots) == 0 {
		return nil
	}
	defer func() { panicked = recover() }()
	observer.OnSpawnOutcome(ctx, report)
	return nil
}
