package reap

import (
	"context"
	"time"

	"github.com/jobprobe/jobprobe/sidecar"
)

// hookBudget is the time from the call of a hook to the end of its notifier.
// Those who call hooks give them ten seconds.
const hookBudget = 7 * time.Second

// Report is the end of a run as the run itself tells it.
type Report struct {
	// Status is the run's own word, such as "completed" or "timed_out".
	Status string
	// ReasonCode explains it; empty if there is none.
	ReasonCode string
	// Command, a JSON list of strings, Target and Sender are used for the
	// notice instead of what the record names, if they are not empty.
	Command, Target, Sender string
}

// MarkTerminal records the end that a run reports of itself, tells of it
// beside the caller (see [Observer.Flush]), and returns the record as it then
// stands. The first end wins: a report that comes second is kept as
// late_report and changes nothing else. The error is a *sidecar.RefusedError
// if the record could not be changed, and then nothing was written; after a
// win it is about the notice alone.
func (o Observer) MarkTerminal(ctx context.Context, id string, r Report) (sidecar.Transition, error) {
	at := o.Store.Read(id)
	p := o.noticeOf(id, at.Record, at.File, r)
	got, err := o.mark(ctx, id, r, p.owed())
	if err == nil && got.Won {
		err = o.deliver(ctx, id, p)
	}
	return got, err
}

// mark records a report, and with it why the run failed, if that was left in
// the job's directory.
func (o Observer) mark(ctx context.Context, id string, r Report, owed bool) (got sidecar.Transition, err error) {
	end := sidecar.HookEnd{Status: r.Status, ReasonCode: r.ReasonCode, At: o.time(), NoticeOwed: owed}
	cause := o.failureCause(id)
	won := false
	o.reach(stepDue)
	got.Change, err = o.Store.Update(ctx, id, func(rec *sidecar.Record) (err error) {
		if won, err = end.Apply(rec); won && cause != nil {
			rec.Set("failure_cause", cause)
		}
		return err
	})
	o.reach(stepWritten)
	got.Won = won && err == nil
	return got, err
}

// Hooked is what a hook has done.
type Hooked struct {
	// Absent: the store has no such job, and nothing was recorded.
	Absent bool
	// Won: this report is the job's end. Otherwise another was on record.
	Won bool
	// Kept: this report came second, and is on record as late_report.
	Kept bool
	// Result is what became of the record: of a job that has none, NotDone.
	Result sidecar.Result
	// Delivery is notify_delivery as it stands now, nil if there is none, and
	// State is its summary as in Row.NotifyDeliveryState.
	Delivery sidecar.Value
	State    string
}

// Hook does the duty of a run's terminal hook: it records the end, as
// MarkTerminal does, and delivers the notice before it returns. The notifier
// has what is left of 7 seconds from the call; if nothing is, the notice stays
// pending for the next observer. A report that comes second tells of the end
// that is on record, if nobody was told of it, and never of its own.
//
// A job that the store does not have is told of all the same. The error is a
// refusal to change the record: of the end, and then there is no delivery; of
// the notice before its attempt, which leaves it pending; or of its result,
// which leaves "attempted, outcome unknown".
func (o Observer) Hook(ctx context.Context, id string, r Report) (Hooked, error) {
	until, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookBudget)
	defer cancel()
	at := o.Store.Read(id)
	if at.State == sidecar.Unread {
		return Hooked{}, at.Err
	}
	p := o.noticeOf(id, at.Record, at.File, r)
	silent := !p.owed() || o.Notices.Off
	out := Hooked{Absent: at.State == sidecar.Absent}
	var err error
	if out.Absent {
		if !silent {
			out.Delivery = o.tellAbsent(until, id, p, r)
		}
	} else {
		var got sidecar.Transition
		got, err = o.mark(ctx, id, r, p.owed())
		out.Won, out.Result, out.Delivery = got.Won, got.Result, deliveryOf(got.Record)
		out.Kept = err == nil && !got.Won && got.Result != sidecar.Unchanged
		if err == nil && !silent { // late or not: tell knows whether somebody was told
			out.Delivery, err = o.tell(until, id, p)
		}
	}
	out.State = deliveryState(sidecar.NewRecord(sidecar.Field{Name: "notify_delivery", Value: out.Delivery}))
	return out, err
}

// tellAbsent tells of a job that has no record to claim the attempt in.
func (o Observer) tellAbsent(ctx context.Context, id string, p plan, r Report) sidecar.Value {
	if len(p.faults) > 0 {
		return p.refusal()
	}
	m := p.about(id, sidecar.NewRecord())
	m.Status, m.ReasonCode = r.Status, r.ReasonCode
	result, _ := p.attempt(ctx, m)
	return result
}
