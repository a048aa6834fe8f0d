package reap

import (
	"context"
	"fmt"

	"github.com/jobprobe/jobprobe/sidecar"
)

// end writes the end of a job, with the marker of the notice that it owes,
// and sees to that notice if this end is the first. at is the record as it was
// read before. An error after a win is about the notice alone.
func (o Observer) end(ctx context.Context, id string, at sidecar.Reading,
	write func(owed bool) (sidecar.Transition, error),
) (sidecar.Transition, error) {
	p := o.notice(id, at.Record, at.File)
	o.reach(stepDue)
	got, err := write(p.owed())
	o.reach(stepWritten)
	if err == nil && got.Won {
		err = o.deliver(ctx, id, p)
	}
	return got, err
}

// EndBySupervisor records how a job's supervisor saw it end, and tells of it.
// The error is that of sidecar.Store.EndBySupervisor.
func (o Observer) EndBySupervisor(ctx context.Context, id string, e sidecar.SupervisorEnd) (sidecar.Transition, error) {
	return o.end(ctx, id, o.Store.Read(id), func(owed bool) (sidecar.Transition, error) {
		e.NoticeOwed = owed
		return o.Store.EndBySupervisor(ctx, id, e)
	})
}

// SpawnFailed records that a job could not be started, and tells of it. The
// error is that of sidecar.Store.SpawnFailed.
func (o Observer) SpawnFailed(ctx context.Context, id string, f sidecar.SpawnFailure) (sidecar.Transition, error) {
	return o.end(ctx, id, o.Store.Read(id), func(owed bool) (sidecar.Transition, error) {
		f.NoticeOwed = owed
		return o.Store.SpawnFailed(ctx, id, f)
	})
}

// deliver sees to the notice of an end that the caller has written, outside
// the lock and, for an Observer made by New, beside the caller: see Flush.
func (o Observer) deliver(ctx context.Context, id string, p plan) error {
	if !p.owed() || o.Notices.Off {
		return nil
	}
	if o.Notices.Leave != nil {
		o.Notices.Leave(id)
		return nil
	}
	ctx = context.WithoutCancel(ctx) // the attempt outlives the question
	tell := func() error {
		_, err := o.tell(ctx, id, p)
		if err != nil {
			return fmt.Errorf("notice of %w", err)
		}
		return nil
	}
	if o.courier == nil {
		return tell()
	}
	o.courier.take(o.recordPath(id), tell)
	return nil
}

// resume sees to a notice that is pending: whoever wrote the end has not come
// to it, and may never.
func (o Observer) resume(ctx context.Context, l *look) {
	rec := l.record()
	if rec == nil || !sidecar.NoticePending(rec) || rec.RunID() != l.id {
		return
	}
	p := o.notice(l.id, rec, l.reading.File)
	if len(p.faults) > 0 && p.own {
		return
	}
	if err := o.deliver(ctx, l.id, p); err != nil {
		l.refused = err
	}
}

// tell makes the one attempt, or records why it cannot be made, unless that
// was done already. It returns notify_delivery as it then stands, nil if that
// is not known. ctx bounds the time until the notifier has ended.
//
// The error is a refusal of the record. Before the attempt, it means that the
// notice is still pending; after it, that the record says "attempted, outcome
// unknown".
func (o Observer) tell(ctx context.Context, id string, p plan) (sidecar.Value, error) {
	if len(p.faults) > 0 {
		got, err := o.Store.Update(ctx, id, func(rec *sidecar.Record) error {
			if untold(rec) {
				rec.Set("notify_delivery", p.refusal())
			}
			return nil
		})
		return deliveryOf(got.Record), err
	}
	claim, err := o.Store.ClaimNotice(ctx, id)
	if err != nil || !claim.Won {
		return deliveryOf(claim.Record), err
	}
	o.reach(stepClaimed)
	result, known := p.attempt(ctx, p.about(id, claim.Record))
	if !known {
		return deliveryOf(claim.Record), nil
	}
	o.reach(stepTold)
	got, err := o.Store.SetNotice(context.WithoutCancel(ctx), id, result)
	return deliveryOf(got.Record), err
}

// untold says whether an end is recorded and nothing was attempted, nor found
// to be impossible.
func untold(rec *sidecar.Record) bool {
	d, ok := rec.Object("notify_delivery")
	return rec.Ended() && (rec.Null("notify_delivery") || ok && literal(d, "attempted", "false") && d.Null("error"))
}

// deliveryOf is the notice as a record tells it, nil if it does not.
func deliveryOf(rec *sidecar.Record) sidecar.Value {
	if rec == nil {
		return nil
	}
	v, _ := rec.Raw("notify_delivery")
	return v
}

// Flush waits for the notices that this Observer and its copies are
// delivering. Each takes at most the time of its notifier and two waits for
// the record's lock. When ctx ends, those that have not begun are left pending
// for the next observer; those that have begun are still waited for.
//
// The error joins what could not be recorded since the last call. A program
// that observes must call Flush before it exits: a notice that is being
// delivered then would stay "attempted, outcome unknown".
func (o Observer) Flush(ctx context.Context) error {
	if o.courier == nil {
		return nil
	}
	return o.courier.flush(ctx)
}
