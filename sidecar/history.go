package sidecar

import (
	"context"
	"math"
	"time"

	"github.com/go-json-experiment/json"
)

// Turn is one entry of a run's history: how it stood from a time on.
type Turn struct {
	At        time.Time // zero if that was not recorded
	Phase     Phase
	Cleanup   Cleanup
	Ownership Ownership
	Cause     Cause
}

// History is what a record tells of the life of its run. It holds no process
// numbers, no command line, and no words of the run.
type History struct {
	Turn // as it stands now
	// Kept says that the record keeps a history. Those of another program do
	// not: then the phase is what the end on record implies.
	Kept bool
	// Turns are the entries that could be read, oldest first.
	Turns []Turn
	// Dropped counts entries that gave way to newer ones, Damaged what could
	// not be read.
	Dropped, Damaged int64

	// givenUp is the part of Damaged that the next entry replaces.
	givenUp int64
}

// maxTurns bounds the history of a run.
const maxTurns = 64

const (
	historyName    = "lifecycle"
	historyVersion = 1
)

// NewHistory is the "lifecycle" of a new record: with it, every transition adds
// to the history what it tells. A record without it is left without.
func NewHistory() Value {
	none := Turn{Cleanup: CleanupNotRequested}
	fields := append([]Field{{"schema_version", Int(historyVersion)}}, none.fields()...)
	return Object(append(fields, Field{"history", array(nil)})...)
}

func (t *Turn) fields() []Field {
	phase, cause := Null(), Null()
	if t.Phase != PhaseNone {
		phase = Text(t.Phase.String())
	}
	if t.Cause != CauseNone {
		cause = Text(t.Cause.String())
	}
	return []Field{
		{"state", phase},
		{"cleanup", Text(t.Cleanup.String())},
		{"ownership", Text(t.Ownership.String())},
		{"reason", cause},
	}
}

// entry is a turn as the history holds it.
func (t *Turn) entry() Value {
	at := Null()
	if !t.At.IsZero() {
		at = timeValue(t.At)
	}
	return Object(append([]Field{{"at", at}}, t.fields()...)...)
}

// turnOf reads a turn; ok says that every field was one that is written here.
func turnOf(r *Record) (t Turn, ok bool) {
	ok = true
	text := func(name string, to interface{ UnmarshalText([]byte) error }) {
		if word, is := r.Text(name); !is || to.UnmarshalText([]byte(word)) != nil {
			ok = false
		}
	}
	if !r.Null("state") {
		text("state", &t.Phase)
	}
	if !r.Null("reason") {
		text("reason", &t.Cause)
	}
	text("cleanup", &t.Cleanup)
	text("ownership", &t.Ownership)
	return t, ok
}

// HistoryOf reads the history of a run. Whatever is wrong with it is counted,
// and the end on record tells the phase then.
func HistoryOf(r *Record) History {
	_, h, _ := history(r)
	return h
}

// history reads a history, and returns with it the object and the entries, to
// be written again. The object is nil if there is none that may be written.
func history(r *Record) (kept *Record, h History, entries []Value) {
	h.Turn = implied(r)
	if r.Null(historyName) {
		return nil, h, nil
	}
	kept, ok := r.Object(historyName)
	if version, is := int64(0), false; ok {
		version, is = kept.Int("schema_version")
		ok = is && version == historyVersion
	}
	if !ok {
		h.Damaged = 1
		return nil, h, nil
	}
	h.Kept = true
	h.Dropped, h.Damaged = counter(kept, "dropped"), counter(kept, "damaged")
	if now, ok := turnOf(kept); ok {
		h.Turn = now
	} else {
		h.givenUp++
	}
	list, _ := kept.Raw("history")
	if list.Kind() != '[' || json.Unmarshal(list, &entries) != nil {
		h.givenUp++
		entries = nil
	}
	h.Damaged += h.givenUp
	for _, entry := range entries {
		if t, ok := readEntry(entry); ok {
			h.Turns = append(h.Turns, t)
		} else {
			h.Damaged++
		}
	}
	return kept, h, entries
}

// counter reads a count of a history; what cannot be one is none.
func counter(r *Record, name string) int64 {
	n, _ := r.Int(name)
	if n < 0 || n > math.MaxInt32 {
		return 0
	}
	return n
}

func readEntry(entry Value) (t Turn, ok bool) {
	if entry.Kind() != '{' {
		return t, false
	}
	r, err := Parse(entry)
	if err != nil {
		return t, false
	}
	t, ok = turnOf(r)
	if !r.Null("at") {
		text, _ := r.Text("at")
		at, known := ParseTime(text)
		t.At, ok = at, ok && known
	}
	return t, ok && t.Phase != PhaseNone
}

// follow changes the history by what the transition around it has changed, if
// the record keeps one.
func follow(r *Record, at time.Time, change func(*Turn)) {
	kept, h, entries := history(r)
	if kept == nil {
		return
	}
	next := h.Turn
	change(&next)
	if h.Ownership == CleanupConfirmed { // that was the last of it
		next.Cleanup, next.Ownership = h.Cleanup, h.Ownership
	}
	if now, ok := turnOf(kept); ok && next == now {
		return
	}
	next.At = at
	if given := h.givenUp; given > 0 {
		kept.Set("damaged", Int(counter(kept, "damaged")+given))
	}
	entries = append(entries, next.entry())
	if over := len(entries) - maxTurns; over > 0 {
		entries = entries[over:]
		kept.Set("dropped", Int(h.Dropped+int64(over)))
	}
	for _, f := range next.fields() {
		kept.Set(f.Name, f.Value)
	}
	kept.Set("history", array(entries))
	r.Set(historyName, kept.raw())
}

// implied is how a run stands by its record without a history.
func implied(r *Record) Turn {
	state := spawnState(r)
	switch {
	case r.Ended(), state == "failed":
		return ending(r, Turn{})
	case state == "started":
		return Turn{Phase: PhaseRunning}
	}
	return Turn{}
}

// ending is how a run stands after the end on record, if it stood as was
// before.
func ending(r *Record, was Turn) Turn {
	asked := was.Phase == PhaseInterruptRequested
	source, _ := r.Text("terminal_source")
	status, _ := r.Text("status")
	next := was
	switch OutcomeOf(r) {
	case Succeeded:
		next.Phase, next.Cause = PhaseCompleted, CauseNone
	case Indeterminate:
		next.Phase, next.Cause = PhaseRecoveryNeeded, CauseNone
		if source == SourceReaper {
			next.Cause = CauseRestart
		}
	case Cancelled:
		next.Phase = PhaseInterrupted
		if !asked {
			next.Cause = CauseUserInterrupt
		}
	default:
		reason, _ := r.Text("reason_code")
		switch {
		case asked:
			next.Phase = PhaseInterrupted
		case reason == ReasonDraining:
			next.Phase, next.Cause = PhaseInterrupted, CauseShutdown
		case status == "timed_out":
			next.Phase, next.Cause = PhaseInterrupted, CauseDeadline
		case source == SourceSpawn, spawnState(r) == "failed":
			next.Phase, next.Cause = PhaseFailed, CauseRuntime
		default:
			next.Phase, next.Cause = PhaseFailed, CauseProvider
		}
	}
	if source == SourceKill {
		next.Cleanup, next.Ownership = CleanupRequested, CleanupPending
	}
	return next
}

// Interruption is a request that a run stop, made before anything is signalled.
type Interruption struct {
	Cause Cause
	At    time.Time
}

// RequestInterrupt records that a started run is to be stopped. It wins if that
// was news: not of a run that has ended, that somebody asked before, or whose
// record keeps no history.
func (s Store) RequestInterrupt(ctx context.Context, id string, i Interruption) (Transition, error) {
	return s.transit(ctx, id, i)
}

// Apply is the change of [Store.RequestInterrupt], for use inside
// [Store.Update].
func (i Interruption) Apply(r *Record) (won bool, err error) {
	if r.Ended() || spawnState(r) != "started" {
		return false, nil
	}
	follow(r, i.At, func(t *Turn) {
		if won = t.Phase != PhaseInterruptRequested; won {
			*t = Turn{
				Phase: PhaseInterruptRequested, Cause: i.Cause,
				Cleanup: CleanupRequested, Ownership: CleanupPending,
			}
		}
	})
	return won, nil
}

// Proof is what was seen of the processes of a run that is over.
type Proof struct {
	Left Remains
	At   time.Time
}

// Prove records what was seen of the processes of a run that has ended. A run
// that was seen gone stays so. It has won if what was seen is news.
func (s Store) Prove(ctx context.Context, id string, p Proof) (Transition, error) {
	return s.transit(ctx, id, p)
}

// Apply is the change of [Store.Prove], for use inside [Store.Update].
func (p Proof) Apply(r *Record) (won bool, err error) {
	if !r.Ended() {
		return false, nil
	}
	before := HistoryOf(r).Turn
	follow(r, p.At, func(t *Turn) { *t = t.Seen(p.Left) })
	return HistoryOf(r).Turn != before, nil
}

// Seen is the turn after a look at the processes of the run. What nobody asked
// to clean up is told by the ownership alone.
func (t Turn) Seen(left Remains) Turn {
	if t.Ownership == CleanupConfirmed {
		return t
	}
	asked := t.Cleanup != CleanupNotRequested
	switch left {
	case RemainsUnknown:
		t.Cleanup = CleanupUnknown
	case RemainsNone:
		t.Ownership = CleanupConfirmed
		if asked {
			t.Cleanup = CleanupCompleted
		}
	case RemainsSome:
		t.Ownership = CleanupPending
		if asked {
			t.Cleanup = CleanupTimedOut
		}
	}
	return t
}
