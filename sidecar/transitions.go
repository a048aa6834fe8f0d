package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jobprobe/jobprobe"
)

// Errors of transitions. With each of them nothing is written.
var (
	// ErrNotPreparing: the run has started, failed to start, or ended, so it
	// must not be started again.
	ErrNotPreparing = errors.New("sidecar: run is not preparing")
	// ErrNotGone: the finding does not prove that the process is gone.
	ErrNotGone = errors.New("sidecar: finding proves no end")
)

// Transition is the outcome of a guarded change.
type Transition struct {
	// Won says that this call, and no other in the world, made the change
	// that the transition is for. A late report is no win.
	Won bool
	Change
}

// step is one guarded change: it looks at the record and changes it, or does
// not, and says whether it won.
type step interface {
	Apply(*Record) (won bool, err error)
}

func (s Store) transit(ctx context.Context, id string, t step) (Transition, error) {
	var won bool
	change, err := s.Update(ctx, id, func(r *Record) (err error) {
		won, err = t.Apply(r)
		return err
	})
	return Transition{won && err == nil, change}, err
}

// Attachment says which process a preparing run has become. Zero fields are
// not known: they are recorded as null, or left out where the peer has no
// such field.
type Attachment struct {
	PID        int64
	CreateTime float64 // epoch seconds, as the peer records them
	PGID       int64
	Identity   jobprobe.Identity // of the process
	Supervisor jobprobe.Identity // of the process that will report its end
	At         time.Time         // for the history
}

// Attach moves a run from preparing to started. Of any number of callers one
// wins; the others, and anyone who comes after the run has ended, get
// [ErrNotPreparing]. No other field than those of the attachment is touched.
func (s Store) Attach(ctx context.Context, id string, a Attachment) (Transition, error) {
	return s.transit(ctx, id, a)
}

// Apply is the change of [Store.Attach], for use inside [Store.Update].
func (a Attachment) Apply(r *Record) (bool, error) {
	if !preparing(r) || r.Ended() {
		return false, ErrNotPreparing
	}
	created, group := Null(), Null()
	if a.CreateTime != 0 {
		created = Float(a.CreateTime)
	}
	if a.PGID != 0 {
		group = Int(a.PGID)
	}
	r.Set("pid", Int(a.PID))
	r.Set("pid_create_time", created)
	r.Set("pgid", group)
	r.Set("spawn_state", Text("started"))
	follow(r, a.At, func(t *Turn) { t.Phase = PhaseRunning })
	if err := setIdentity(r, "process_identity", a.Identity); err != nil {
		return false, err
	}
	return true, setIdentity(r, "supervisor", a.Supervisor)
}

func setIdentity(r *Record, name string, id jobprobe.Identity) error {
	if id == (jobprobe.Identity{}) {
		return nil
	}
	text, err := id.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.Set(name, text)
	return nil
}

func preparing(r *Record) bool { return spawnState(r) == "preparing" }

func spawnState(r *Record) string {
	state, _ := r.Text("spawn_state")
	return state
}

// unattempted is the notice of an end that nobody has been told of.
func unattempted() Value { return Object(Field{"attempted", Bool(false)}) }

// pending is the notice of an end that somebody is to be told of. Its writer
// claims it next; if that one is no more, any observer may.
func pending() Value {
	return Object(Field{"attempted", Bool(false)}, Field{"pending", Bool(true)})
}

// NoticePending reports whether an end is recorded of which somebody is still
// to be told.
func NoticePending(r *Record) bool {
	now, ok := r.Raw("notify_delivery")
	return ok && r.Ended() && sameValue(now, pending())
}

// attempting is the notice written before an attempt: whatever happens to the
// one who attempts it, nobody will attempt it again.
func attempting() Value {
	return Object(
		Field{"attempted", Bool(true)}, Field{"ok", Null()}, Field{"exit_code", Null()},
		Field{"error", Text("delivery_outcome_unknown")}, Field{"command", Null()})
}

// ClaimNotice takes the one attempt to deliver the notice of an end, and
// records it before it is made. It wins only if an end is recorded and nothing
// was attempted, which includes a notice that could not be (one with an error).
func (s Store) ClaimNotice(ctx context.Context, id string) (Transition, error) {
	return s.transit(ctx, id, claim{})
}

type claim struct{}

func (claim) Apply(r *Record) (bool, error) {
	now, ok := r.Raw("notify_delivery")
	open := !ok || r.Null("notify_delivery") || sameValue(now, unattempted()) || sameValue(now, pending())
	if !r.Ended() || !open {
		return false, nil
	}
	r.Set("notify_delivery", attempting())
	return true, nil
}

// SetNotice records what became of a notice. It touches notify_delivery and
// nothing else, and only of a run that has ended; the last caller wins.
func (s Store) SetNotice(ctx context.Context, id string, delivery Value) (Transition, error) {
	return s.transit(ctx, id, notice{delivery})
}

type notice struct{ delivery Value }

func (n notice) Apply(r *Record) (bool, error) {
	if !r.Ended() {
		return false, nil
	}
	r.Set("notify_delivery", n.delivery)
	return true, nil
}

// timeValue is the text of a time of the record.
func timeValue(t time.Time) Value { return Text(FormatTime(t)) }
