package reap

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// marked is one scan for processes that carry markers of runs.
type marked struct {
	found    []jobprobe.Member
	complete bool
	again    map[int64]bool // what a second look at a process has settled
}

// scanMarked looks for the processes of one run.
func scanMarked(runID string) *marked {
	found, complete := jobprobe.Marked(runID)
	return &marked{found, complete, map[int64]bool{}}
}

// scanMarkedAny looks for those of all runs.
func scanMarkedAny() *marked {
	found, complete := jobprobe.MarkedAny()
	return &marked{found, complete, map[int64]bool{}}
}

// settled looks again, once, at a process that could not be looked into, and
// says whether that is settled.
func (by *marked) settled(m *jobprobe.Member) bool {
	pid := m.Identity.PID
	if _, looked := by.again[pid]; !looked {
		by.again[pid] = lookAgain(m)
	}
	return by.again[pid]
}

// descendants says whether processes of the run live outside its group, or,
// if the group was seen empty, at all. An environment that cannot be read
// leaves that open only for a process that the run can have started as its own
// user.
func (t *target) descendants(empty bool, by *marked) sidecar.Remains {
	if t.pgid == 0 {
		return sidecar.RemainsUnknown
	}
	complete := by.complete
	for i := range by.found {
		m := &by.found[i]
		if m.Marker == jobprobe.MarkerUnreadable && !t.foreign(m) && !t.before(m.Identity) {
			complete = complete && by.settled(m) // one that stays so is enough
		}
		if m.Marker == jobprobe.MarkerFound && m.RunID == t.runID && (empty || m.PGID != t.pgid) {
			return sidecar.RemainsSome
		}
	}
	if complete && empty {
		return sidecar.RemainsNone
	}
	return sidecar.RemainsUnknown
}

// remains says whether anything of a run lives whose recorded process is gone.
func (t *target) remains(by *marked) sidecar.Remains {
	members, complete := t.group()
	if len(members) > 0 {
		return sidecar.RemainsSome
	}
	return t.descendants(complete, by)
}

// lookAgain looks again at a process that could not be looked into, and says
// whether that is settled: most were met in the middle of an execve, or of
// their exit.
func lookAgain(m *jobprobe.Member) (settled bool) {
	for range secondLooks {
		again, err := jobprobe.Describe(m.Identity.PID)
		switch {
		case errors.Is(err, jobprobe.ErrNoProcess):
			return true
		case err == nil && again.Marker != jobprobe.MarkerUnreadable:
			*m = again
			return true
		}
		time.Sleep(finishPause)
	}
	return false
}

// before says whether a process is known to be older than the leader.
func (t *target) before(id jobprobe.Identity) bool {
	if t.live.Start != 0 && id.Start != 0 {
		return id.Start < t.live.Start
	}
	return t.predates(id)
}

// Prove looks once for what is left of a job that its own supervisor has seen
// end, and records it in the job's history. The error is a refusal to change
// the record; another look makes up for it, see [Observer.History].
func (o Observer) Prove(ctx context.Context, id string, leader jobprobe.Identity, pgid int64) (sidecar.Remains, error) {
	t := target{
		runID: id, pid: leader.PID, pgid: pgid, stamped: leader, live: leader,
		owner: uint32(os.Geteuid()), owned: groups,
	}
	left := t.remains(scanMarked(id))
	_, err := o.Store.Prove(ctx, id, sidecar.Proof{Left: left, At: o.time()})
	return left, err
}

// survivors says what is seen of a job that has ended, by its record.
func (o Observer) survivors(l *look) sidecar.Remains {
	return o.survivorsOf(l, false, scanMarked(l.id))
}

// survivorsOf is survivors after a scan; empty says that its group is known to
// be empty.
func (o Observer) survivorsOf(l *look, empty bool, by *marked) sidecar.Remains {
	t, left := o.rest(l)
	switch {
	case t == nil:
		return left
	case empty:
		return t.descendants(true, by)
	}
	return t.remains(by)
}

// groupLeft says what is seen of the recorded process and its group.
func (o Observer) groupLeft(l *look) sidecar.Remains {
	t, left := o.rest(l)
	if t == nil {
		return left
	}
	switch members, complete := t.group(); {
	case len(members) > 0:
		return sidecar.RemainsSome
	case complete:
		return sidecar.RemainsNone
	}
	return sidecar.RemainsUnknown
}

// rest is the group of a job whose recorded process is gone; nil, and what is
// known, if that settles it.
func (o Observer) rest(l *look) (*target, sidecar.Remains) {
	rec := l.record()
	if rec.Null("pid") {
		return nil, sidecar.RemainsNone // it never had a process
	}
	o.look(l)
	switch l.live.Conclusion {
	case jobprobe.Alive:
		return nil, sidecar.RemainsSome
	case jobprobe.Unknown:
		return nil, sidecar.RemainsUnknown
	case jobprobe.ProcessGone:
	}
	// Nothing outlives the boot of its host.
	if boot := l.live.Evidence.Observer().Boot; boot != "" && l.who.Boot != "" && l.who.Boot != boot {
		return nil, sidecar.RemainsNone
	}
	pgid, _ := rec.Int("pgid")
	if groups && (pgid <= 1 || unaskable(pgid)) {
		return nil, sidecar.RemainsUnknown
	}
	t := &target{
		runID: l.id, pid: l.who.PID, pgid: pgid, stamped: l.who,
		owner: l.reading.File.UID, owned: l.reading.File.HasOwner,
	}
	if l.who.PID == 0 {
		t.pid, _ = rec.Int("pid")
		t.weak = jobprobe.EpochIdentity{PID: t.pid, Created: createTime(rec), PGID: pgid, RunID: l.id}
	}
	return t, sidecar.RemainsUnknown
}
