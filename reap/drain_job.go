package reap

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

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
// that. What can never be told from here, of a job that was seen to be over, is
// no reason to wait; what cannot be told of any other remains.
func (d *drain) rest(ctx context.Context, j *drainee, l *look) (done bool) {
	left := d.groupLeft(l)
	j.kept = sidecar.HistoryOf(l.record()).Kept
	j.remains = ""
	switch {
	case l.probed && l.live.Conclusion == jobprobe.Unknown:
		final := slices.Contains(lasting, l.live.Finding)
		if l.live.Finding != jobprobe.ForeignHost && !(final && sawGone(l.record())) {
			j.remains = l.live.Finding.String()
		}
		return final
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
