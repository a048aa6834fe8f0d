package reap

import (
	"context"
	"sync"
	"time"

	"github.com/jobprobe/jobprobe/internal/enum"
	"github.com/jobprobe/jobprobe/sidecar"
)

// DrainOptions bound a drain.
type DrainOptions struct {
	// Timeout is the one budget of everything; 0 is 5 seconds.
	Timeout time.Duration
	// Grace and Kill are each job's time between SIGTERM and SIGKILL, and from
	// then to be seen gone; 0 are 250 milliseconds and one second.
	Grace, Kill time.Duration
	// Leave signals nothing, and waits for the jobs to end by themselves.
	Leave bool
	// Details bounds Drained.Reasons; 0 is 64, and less is none.
	Details int
	// Progress, if not nil, is told now and then how many jobs of how many are
	// settled. It is called from several goroutines, one at a time.
	Progress func(settled, all int)
}

// DrainOutcome is what a drain came to. Where several apply, the one that
// stands first here is told.
type DrainOutcome uint8

const (
	// DrainUnknown is the zero value: there was no drain.
	DrainUnknown DrainOutcome = iota
	// DrainUnrecorded: something that happened is not on record.
	DrainUnrecorded
	// DrainDeadline: something may still run, when the time was over or when
	// waiting could change nothing more.
	DrainDeadline
	// DrainClean: the store admits no jobs, and nothing of any job of this host
	// runs.
	DrainClean
)

var drainNames = [...]string{"unknown", "persistence_failed", "deadline_exceeded", "clean"}

// String returns the word used in replies, for example "clean".
func (d DrainOutcome) String() string { return enum.Name(drainNames[:], uint8(d), "DrainOutcome") }

// MarshalText returns the word of [DrainOutcome.String]. It fails for a value
// outside the enumeration.
func (d DrainOutcome) MarshalText() ([]byte, error) {
	return enum.Text(drainNames[:], uint8(d), "drain outcome")
}

// UnmarshalText accepts exactly the words that [DrainOutcome.MarshalText]
// makes.
func (d *DrainOutcome) UnmarshalText(text []byte) error {
	n, err := enum.Value(drainNames[:], text, "drain outcome")
	if err == nil {
		*d = DrainOutcome(n)
	}
	return err
}

// Drained is the answer of a drain. The lists are of run ids, in descending
// order, and none excludes another.
type Drained struct {
	Outcome   DrainOutcome `json:"outcome"`
	Admission string       `json:"admission"`
	// Interrupted are the jobs that this drain signalled, or closed before they
	// started. What is left of a job that had ended is signalled too.
	Interrupted []string `json:"interrupted"`
	// Remaining are the jobs of which something may still run: a live process,
	// or one of which nothing can be proved.
	Remaining []string `json:"remaining"`
	// NotRecorded are the jobs whose record could not be changed to say what
	// was done or seen.
	NotRecorded []string `json:"not_recorded"`
	// Elsewhere are the live or unknown jobs of other hosts, which are not this
	// host's to drain.
	Elsewhere []string `json:"elsewhere"`
	// Reasons say why a job is in Remaining or NotRecorded: a finding, a reason
	// code of a kill, a sidecar.State or a sidecar.Refusal. There are no more
	// than DrainOptions.Details; ReasonsDropped counts the others.
	Reasons        map[string]string `json:"reasons"`
	ReasonsDropped int               `json:"reasons_dropped"`
	DurationMS     int64             `json:"duration_ms"`
	// Refused says why the closed admission, or the drain itself, could not be
	// recorded, or that the store was reopened meanwhile.
	Refused *string `json:"refused"`
}

const (
	// reasonRemains: processes of the run live outside of its group.
	reasonRemains = "descendants_remain"
	// reasonReopened: somebody let the store admit jobs again meanwhile.
	reasonReopened = "reopened"
)

const (
	// drainLock bounds each wait for one job's lock: the budget is for all.
	drainLock = 500 * time.Millisecond
	// drainPause is how often a job is looked at that gives no sign.
	drainPause = 20 * time.Millisecond
	// scanPause is the time between two scans of all processes.
	scanPause = 100 * time.Millisecond
	// drainShare is the part of the budget that is kept to record with.
	drainShare = 10
)

// drain is one Drain in progress.
type drain struct {
	Observer
	opt  DrainOptions
	jobs []drainee

	mu      sync.Mutex // of settled
	settled int
}

// drainee is what a drain knows of one job.
type drainee struct {
	id          string
	interrupted bool // signalled, or closed before it started
	signalled   bool
	elsewhere   bool
	remains     string // why something may still run, empty if nothing does
	unrecorded  string // why something is not on record
	ended       bool   // an end is on record, and nothing of its group lives
	empty       bool   // its group was seen empty
	kept        bool   // the record has a history that takes what is seen
}

// Drain closes the store to new jobs, durably and before anything else, then
// interrupts every live job of this host, all at once and on one budget, and
// says what became of them. It may be repeated. A job that is being started is
// closed before its command runs; one whose record this program did not make is
// waited for until it is there.
//
// A process of a job that has left its group is never signalled; it is told by
// the marker that it carries, and the job is Remaining while it lives. The error
// is that of the store's directory, which could not be read, or the context's
// before anything was done.
func (o Observer) Drain(ctx context.Context, opt DrainOptions) (Drained, error) {
	begun := time.Now()
	if err := ctx.Err(); err != nil {
		return Drained{}, err
	}
	d := &drain{Observer: o, opt: opt.withDefaults()}
	d.Store.LockWait = min(drainLock, d.opt.Timeout/4)
	// What was asked for is recorded although the caller has given up.
	late, cancel := context.WithDeadline(context.WithoutCancel(ctx), begun.Add(d.opt.Timeout))
	defer cancel()
	ctx, cancel = context.WithDeadline(ctx, begun.Add(d.opt.Timeout-d.opt.Timeout/drainShare))
	defer cancel()
	closed := d.ledger().admission(late, admissionClosed, d.time())
	if err := d.find(); err != nil {
		return Drained{}, err
	}
	d.settleAll(ctx)
	d.prove(ctx, late)
	return d.report(context.WithoutCancel(ctx), begun, closed), nil
}

func (opt DrainOptions) withDefaults() DrainOptions {
	for _, d := range []struct {
		set *time.Duration
		def time.Duration
	}{{&opt.Timeout, 5 * time.Second}, {&opt.Grace, 250 * time.Millisecond}, {&opt.Kill, time.Second}} {
		if *d.set <= 0 {
			*d.set = d.def
		}
	}
	if opt.Details == 0 {
		opt.Details = 64
	}
	return opt
}

// find lists the jobs of which something may run: those without an end, and
// those that were not seen to be gone altogether.
func (d *drain) find() error {
	ids, err := d.Store.IDs()
	if err != nil {
		return err
	}
	gone := make([]bool, len(ids))
	_ = each(context.Background(), len(ids), func(i int) {
		r := d.Store.Read(ids[i])
		gone[i] = r.State == sidecar.Absent || r.State == sidecar.OK && r.Record.Ended() &&
			r.Record.RunID() == ids[i] && sidecar.HistoryOf(r.Record).Ownership == sidecar.CleanupConfirmed
	})
	for i, id := range ids {
		if !gone[i] {
			d.jobs = append(d.jobs, drainee{id: id})
		}
	}
	return nil
}

// report sorts the jobs into the lists and records the drain.
func (d *drain) report(ctx context.Context, begun time.Time, closed error) Drained {
	out := Drained{
		Admission:   admissionClosed,
		Interrupted: []string{}, Remaining: []string{}, NotRecorded: []string{}, Elsewhere: []string{},
		Reasons: map[string]string{},
	}
	for i := range d.jobs {
		j := &d.jobs[i]
		why := j.remains
		if j.interrupted {
			out.Interrupted = append(out.Interrupted, j.id)
		}
		switch {
		case j.elsewhere:
			out.Elsewhere = append(out.Elsewhere, j.id)
			why = ""
		case j.remains != "":
			out.Remaining = append(out.Remaining, j.id)
		}
		if j.unrecorded != "" {
			out.NotRecorded = append(out.NotRecorded, j.id)
			why = j.unrecorded
		}
		switch {
		case why == "":
		case len(out.Reasons) < d.opt.Details:
			out.Reasons[j.id] = why
		default:
			out.ReasonsDropped++
		}
	}
	switch {
	case closed != nil:
		out.Admission, out.Outcome, out.Refused = admissionOpen, DrainUnrecorded, refusal(closed)
	case len(out.NotRecorded) > 0:
		out.Outcome = DrainUnrecorded
	case len(out.Remaining) > 0:
		out.Outcome = DrainDeadline
	default:
		out.Outcome = DrainClean
	}
	took := time.Since(begun)
	out.DurationMS = took.Milliseconds()
	d.Store.LockWait = max(d.opt.Timeout-took, drainLock/4)
	err := d.ledger().update(ctx, func(r *sidecar.Record) error {
		if out.Outcome == DrainClean && textOf(r, admissionName) != admissionClosed {
			out.Admission, out.Outcome, out.Refused = admissionOpen, DrainDeadline, orNull(reasonReopened)
		}
		add(r, "drains_"+out.Outcome.String(), 1)
		add(r, "drain_ms", took.Milliseconds())
		add(r, "persistence_failures", int64(len(out.NotRecorded)))
		return nil
	})
	if err != nil && closed == nil {
		out.Outcome, out.Refused = DrainUnrecorded, refusal(err)
	}
	return out
}
