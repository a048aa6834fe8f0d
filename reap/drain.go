package reap

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jobprobe/jobprobe"
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

// settleAll settles every job, each in a goroutine: most of it is waiting.
func (d *drain) settleAll(ctx context.Context) {
	d.progress(0)
	var all sync.WaitGroup
	for i := range d.jobs {
		all.Go(func() {
			d.settle(ctx, &d.jobs[i])
			d.progress(1)
		})
	}
	all.Wait()
}

func (d *drain) progress(more int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled += more
	if d.opt.Progress != nil {
		d.opt.Progress(d.settled, len(d.jobs))
	}
}

// settle looks at one job, and acts on it, until it has ended or the time is
// over.
func (d *drain) settle(ctx context.Context, j *drainee) {
	for {
		l, err := d.examine(j.id)
		if err != nil {
			return // no run id: IDs returns none such
		}
		if d.act(ctx, j, &l) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(drainPause):
		}
	}
}

// act does what one look at a job asks for, and says whether that was the last
// of it: else the job is looked at again. What it leaves in j stands if the time
// is over then.
func (d *drain) act(ctx context.Context, j *drainee, l *look) (done bool) {
	rec := l.record()
	switch {
	case l.reading.State == sidecar.Absent:
		j.remains = ""
		return true
	case rec == nil:
		j.remains = l.reading.State.String()
		return true
	case rec.RunID() != j.id:
		j.remains = sidecar.NamesAnotherRun.String()
		return true
	case rec.Ended():
		return j.signalled || d.rest(ctx, j, l)
	case l.due != nothingDue:
		return d.end(ctx, j, l)
	case textOf(rec, "spawn_state") == spawnPreparing:
		return d.refuse(ctx, j, l)
	case l.ending:
		j.remains = statusEnding
		return false
	case l.live.Conclusion != jobprobe.Alive:
		j.remains = l.live.Finding.String()
		j.elsewhere = l.live.Finding == jobprobe.ForeignHost
		return slices.Contains(lasting, l.live.Finding)
	case d.opt.Leave || j.interrupted:
		j.remains = l.live.Finding.String()
		return false
	}
	return d.interrupt(ctx, j, l)
}

// lasting are the findings that no waiting here changes.
var lasting = []jobprobe.Finding{
	jobprobe.UnusablePID, jobprobe.ForeignHost, jobprobe.ForeignBoot, jobprobe.ForeignPIDNamespace,
	jobprobe.ForeignTimeNamespace, jobprobe.UnsupportedPlatform,
}

// end writes the end that a look found to be due: nobody interrupted this job.
// The next look is for what is left of it.
func (d *drain) end(ctx context.Context, j *drainee, l *look) (done bool) {
	d.Observer.settle(ctx, l)
	switch rec := l.record(); {
	case l.refused != nil:
		j.unrecorded = *refusal(l.refused)
	case rec != nil && !rec.Ended(): // the lifecycle command did not answer in time
		j.unrecorded = DrainDeadline.String()
	default:
		j.unrecorded = ""
		return false
	}
	// Its process is gone. Of the rest nothing is known but by the group.
	if left := d.groupLeft(l); left != sidecar.RemainsNone {
		j.remains = left.String()
	}
	return true
}

// rest looks for what is left of a job whose end is on record, and interrupts
// that. What cannot be told of a job that is over is no reason to wait.
func (d *drain) rest(ctx context.Context, j *drainee, l *look) (done bool) {
	left := d.groupLeft(l)
	j.kept = sidecar.HistoryOf(l.record()).Kept
	j.remains = ""
	switch {
	case l.live.Conclusion == jobprobe.Unknown && !l.record().Null("pid"):
		return true
	case left != sidecar.RemainsSome:
		j.ended, j.empty = true, left == sidecar.RemainsNone
		return true
	case d.opt.Leave:
		j.remains = left.String()
		return false
	}
	return d.interrupt(ctx, j, l)
}

// refuse closes a job of ours that is being started: its supervisor finds the
// record closed and runs nothing.
func (d *drain) refuse(ctx context.Context, j *drainee, l *look) (done bool) {
	j.remains = spawnPreparing
	if l.record().Null("spawner") || d.opt.Leave {
		return false
	}
	_, err := d.SpawnFailed(context.WithoutCancel(ctx), j.id, sidecar.SpawnFailure{
		Reason: "the store is draining", ReasonCode: sidecar.ReasonDraining, At: d.time(),
	})
	switch {
	case errors.Is(err, sidecar.ErrNotPreparing):
		return false
	case err != nil:
		j.unrecorded = *refusal(err)
		return false
	}
	j.interrupted, j.remains, j.unrecorded = true, "", ""
	return true
}

// interrupt asks a live job to stop, and ends it when its grace is over. The
// request is on record before the signal, so that whoever comes after a crash
// knows that the job did not end by itself.
func (d *drain) interrupt(ctx context.Context, j *drainee, l *look) (done bool) {
	i := sidecar.Interruption{Cause: sidecar.CauseShutdown, At: d.time()}
	if _, err := d.Store.RequestInterrupt(context.WithoutCancel(ctx), j.id, i); err != nil {
		j.unrecorded = *refusal(err)
	}
	reply, err := d.kill(ctx, j.id, KillOptions{Grace: d.opt.Grace, Verify: d.opt.Kill}, func(*killing) {})
	switch {
	case err != nil && !reply.Killed:
		if j.remains = l.live.Finding.String(); ctx.Err() == nil {
			j.remains = sidecar.IOError.String()
		}
		return false
	case !reply.Killed:
		// What came too late is told by the next look.
		j.remains, j.unrecorded = reply.ReasonCode, ""
		return !reply.Undecided() && !slices.Contains(tooLate, reply.ReasonCode)
	}
	j.interrupted, j.signalled, j.unrecorded = true, true, ""
	if !reply.Recorded {
		j.unrecorded = *reply.Refused
	}
	j.kept = sidecar.HistoryOf(l.record()).Kept
	j.empty = reply.Cleanup == sidecar.CleanupCompleted
	if j.remains = ""; !j.empty {
		j.remains = reply.Cleanup.String()
	}
	return true
}

// tooLate are the refusals of a kill whose job has ended meanwhile.
var tooLate = []string{killGone, killGroupGone, killRecycled, killLeaderChanged}

// prove looks for what is left of the jobs that have ended, waits for it while
// there is time, and adds what was seen to their histories: as soon as nothing
// is left, so that little is to be done when the time is over.
func (d *drain) prove(ctx, late context.Context) {
	var jobs []*drainee
	for i := range d.jobs {
		if j := &d.jobs[i]; j.signalled || j.ended {
			jobs = append(jobs, j)
		}
	}
	remains := func(j *drainee) bool { return j.remains != "" }
	for len(jobs) > 0 {
		left := d.left(jobs)
		d.record(late, slices.DeleteFunc(slices.Clone(jobs), remains))
		jobs = slices.DeleteFunc(jobs, func(j *drainee) bool { return !remains(j) })
		if len(jobs) == 0 || ctx.Err() != nil {
			break
		}
		allEnded(ctx, left)
		select { // what is unknown may be known at the next look
		case <-ctx.Done():
		case <-time.After(scanPause):
		}
	}
	d.record(late, jobs)
}

// record adds what was seen of jobs to their histories.
func (d *drain) record(ctx context.Context, jobs []*drainee) {
	told := make([]bool, len(jobs))
	_ = each(ctx, len(jobs), func(i int) {
		j := jobs[i]
		told[i] = true
		if !j.kept || j.unrecorded != "" {
			return
		}
		left := sidecar.RemainsSome
		switch j.remains {
		case "":
			left = sidecar.RemainsNone
		case sidecar.CleanupUnknown.String():
			left = sidecar.RemainsUnknown
		}
		if _, err := d.Store.Prove(ctx, j.id, sidecar.Proof{Left: left, At: d.time()}); err != nil {
			j.unrecorded = *refusal(err)
		}
	})
	for i, j := range jobs {
		if !told[i] && j.kept && j.unrecorded == "" {
			j.unrecorded = DrainDeadline.String()
		}
	}
}

// left scans once for what is left of the jobs outside of their groups, says
// so in each, and returns the processes.
func (d *drain) left(jobs []*drainee) (ids []jobprobe.Identity) {
	by := scanMarkedAny()
	for _, j := range jobs {
		l := look{id: j.id, reading: d.Store.Read(j.id)}
		if l.record() == nil {
			continue
		}
		switch d.survivorsOf(&l, j.empty, by) {
		case sidecar.RemainsNone:
			j.remains = ""
		case sidecar.RemainsSome:
			if j.remains = sidecar.CleanupTimedOut.String(); j.empty {
				j.remains = reasonRemains
			}
		case sidecar.RemainsUnknown:
			j.remains = sidecar.CleanupUnknown.String()
		}
		for i := range by.found {
			if m := &by.found[i]; m.Marker == jobprobe.MarkerFound && m.RunID == j.id {
				ids = append(ids, m.Identity)
			}
		}
	}
	return ids
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
