package reap

import (
	"context"
	"slices"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

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
