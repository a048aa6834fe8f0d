package reap

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Reason codes that this package writes or derives.
const (
	// ReasonGoneUndelivered is sidecar.ReasonGone for a run that recorded a
	// notification of its own which was not delivered.
	ReasonGoneUndelivered = "process_gone_notice_recorded_undelivered"
	reasonSpawnFailed     = "spawn_failed"
	reasonAbandoned       = "spawn_abandoned"
	reasonNoArtifacts     = "no_artifacts"
)

// Words of the record and of replies. The status vocabulary is open: nothing
// is decided by one of them except the outcome of an end that recorded none.
const (
	statusRunning = "running"
	statusEnding  = "ending"
	statusExited  = "exited"
	statusUnknown = "unknown"

	spawnPreparing = "preparing"
	spawnStarted   = "started"
	spawnFailed    = "failed"
)

// An Observer looks at the jobs of one store. It holds nothing open and may
// be copied and used concurrently. One that [New] made, and its copies, deliver
// notices beside their answers, and want a last [Observer.Flush]; any other
// delivers them before it answers.
type Observer struct {
	// Store holds the records.
	Store sidecar.Store
	// RunsDir holds what the runs themselves wrote, one directory a run id:
	// run.json, notify_outcome.json, artifacts. Empty means no such directory.
	RunsDir string
	// Notices says how somebody is told of the ends that are written.
	Notices Notices
	// Lifecycle is asked how a job ended that is not alive and has no end on
	// record.
	Lifecycle Lifecycle

	// Looked, if there is one, is called after each job that a sweep has looked
	// at, by several goroutines at once. It must be quick.
	Looked func()

	courier *courier // nil: notices are delivered in line

	// Seams of the tests.
	probe func(jobprobe.Identity, time.Time) jobprobe.Liveness // nil: the root package
	now   func() time.Time                                     // nil: time.Now
	step  func(step)                                           // changes the world between two looks at it
}

// New returns an Observer of the jobs below dir, with the runs directory that
// belongs to it (see [RunsDir]).
func New(dir string) Observer {
	return Observer{Store: sidecar.Store{Dir: dir}, RunsDir: RunsDir(dir), courier: newCourier()}
}

// look is one observation of one job: the record as it stands, and what is
// known of its process.
type look struct {
	id      string
	reading sidecar.Reading
	live    jobprobe.Liveness
	who     jobprobe.Identity // what was probed, if the record has stamps of it
	probed  bool
	ending  bool  // the process is gone, its supervisor is there to say how
	due     due   // the end that is due
	won     bool  // this look wrote the job's end
	refused error // a transition that was due and could not be written, or not synced
}

func (l *look) record() *sidecar.Record { return l.reading.Record }

// observe is the one classification path: it examines a job and settles what
// is due. It fails only for a run id that cannot name a job; whatever else is
// wrong is part of the answer.
func (o Observer) observe(ctx context.Context, id string) (look, error) {
	l, err := o.examine(id)
	o.settle(ctx, &l)
	return l, err
}

// due is the end that a look found to be due.
type due uint8

const (
	nothingDue due = iota
	reapDue        // the process is gone and reported no end
	abandonDue     // the process that was starting it is gone
)

// examine reads and probes a job, and says which end is due. It writes
// nothing.
func (o Observer) examine(id string) (look, error) {
	l := look{id: id, reading: o.Store.Read(id)}
	o.reach(stepRead)
	if l.reading.State == sidecar.Unread {
		return l, l.reading.Err
	}
	rec := l.record()
	if l.reading.State != sidecar.OK || rec.Ended() {
		return l, nil
	}
	o.look(&l)
	o.reach(stepProbed)
	if rec.RunID() != id {
		return l, nil
	}
	switch state, _ := rec.Text("spawn_state"); state {
	case spawnStarted:
		o.examineStarted(&l)
	case spawnPreparing:
		// Only our own records say who is starting them, and only our own
		// supervisors attach themselves: a record that was closed is never
		// started. Age plays no part.
		if o.reporter(rec, "spawner") == jobprobe.ProcessGone && !rec.Null("spawner") {
			l.due = abandonDue
		}
	}
	return l, nil
}

func (o Observer) examineStarted(l *look) {
	if l.live.Conclusion != jobprobe.ProcessGone {
		return
	}
	switch o.reporter(l.record(), "supervisor") {
	case jobprobe.Alive:
		l.ending = true
	case jobprobe.ProcessGone:
		l.due = reapDue
	case jobprobe.Unknown:
	}
}

// errUnsynced says of an end that it is on record and that a loss of power may
// undo that. The next look after one would write it again.
var errUnsynced = errors.New(sidecar.WrittenUnsynced.String())

// settle writes the end that is due, or sees to a notice that is pending, and
// leaves in l the record as it stands afterwards, whoever wrote it.
func (o Observer) settle(ctx context.Context, l *look) {
	write := o.dueEnd(ctx, l)
	if write == nil {
		o.resume(ctx, l)
		return
	}
	got, err := o.end(ctx, l.id, l.reading, write)
	if errors.Is(err, sidecar.ErrNotPreparing) {
		err = nil // it has started meanwhile
	}
	if l.won = got.Won; got.Record != nil {
		l.reading.Record = got.Record
	} else {
		l.reading = o.Store.Read(l.id)
	}
	// Where somebody else has written the end, nothing is amiss.
	if rec := l.record(); err != nil && (got.Won || rec == nil || !rec.Ended()) {
		l.refused = err
	}
	if err == nil && got.Result == sidecar.WrittenUnsynced {
		l.refused = errUnsynced
	}
}

// dueEnd returns the transition that is due: the end that the lifecycle store
// knows, else the one that the look found. It is nil if none is, and if the
// caller has given up before the store answered.
func (o Observer) dueEnd(ctx context.Context, l *look) func(owed bool) (sidecar.Transition, error) {
	asked := len(o.Lifecycle.Command) > 0
	if asked && l.probed && !l.live.Alive && !l.ending && l.record().RunID() == l.id {
		if end, known := o.ask(ctx, l.id); known {
			return func(owed bool) (sidecar.Transition, error) {
				end.NoticeOwed = owed
				return o.Store.EndByLifecycle(ctx, l.id, end)
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	switch l.due {
	case nothingDue:
	case reapDue:
		f := sidecar.Reaping{Finding: l.live.Finding, ReasonCode: o.goneReason(l.id), At: o.time()}
		return func(owed bool) (sidecar.Transition, error) {
			f.NoticeOwed = owed
			return o.Store.Reap(ctx, l.id, f)
		}
	case abandonDue:
		f := sidecar.SpawnFailure{
			Reason: "the process that was starting it is gone", ReasonCode: reasonAbandoned, At: o.time(),
		}
		return func(owed bool) (sidecar.Transition, error) {
			f.NoticeOwed = owed
			return o.Store.SpawnFailed(ctx, l.id, f)
		}
	}
	return nil
}

// look probes the job's process, if that was not done yet.
func (o Observer) look(l *look) {
	if rec := l.record(); rec != nil && !l.probed {
		l.who, l.live = o.liveness(rec)
		l.probed = true
	}
}

// liveness probes the process that a record names: by the kernel's stamps if
// they were recorded, else by the start time in epoch seconds. Stamps that are
// damaged, or of another process than the record's pid, leave nothing that could
// be asked about: their scope is not known, and the other fields have none.
func (o Observer) liveness(rec *sidecar.Record) (who jobprobe.Identity, live jobprobe.Liveness) {
	pid, _ := rec.Int("pid") // what is no integer names no process
	if !rec.Null("process_identity") {
		if who = identityOf(rec, "process_identity"); who.PID != pid {
			who = jobprobe.Identity{}
		}
		return who, o.probeIdentity(who, rec)
	}
	pgid, _ := rec.Int("pgid")
	return who, jobprobe.ProbeEpoch(jobprobe.EpochIdentity{
		PID:     pid,
		Created: createTime(rec),
		PGID:    pgid,
		RunID:   rec.RunID(),
	})
}

// createTime returns the recorded epoch seconds, 0 if none, NaN if what was
// recorded is not a number. A numeric string is not a number.
func createTime(rec *sidecar.Record) float64 {
	if rec.Null("pid_create_time") {
		return 0
	}
	if t, ok := rec.Number("pid_create_time"); ok {
		return t
	}
	return math.NaN()
}

// reporter says what is known of a process that would report the job's end:
// its supervisor, or its spawner. A record that names none has nobody to wait
// for; a live process that is not confirmed as the recorded one is unknown.
func (o Observer) reporter(rec *sidecar.Record, name string) jobprobe.Conclusion {
	if rec.Null(name) {
		return jobprobe.ProcessGone
	}
	live := o.probeIdentity(identityOf(rec, name), rec)
	if live.Conclusion == jobprobe.Alive && live.Finding != jobprobe.IdentityConfirmed {
		return jobprobe.Unknown
	}
	return live.Conclusion
}

// identityOf returns a recorded identity. One that is missing or damaged
// confirms nothing.
func identityOf(rec *sidecar.Record, name string) jobprobe.Identity {
	if rec == nil {
		return jobprobe.Identity{}
	}
	raw, _ := rec.Raw(name)
	id, _ := jobprobe.ParseIdentity(raw)
	return id
}

func (o Observer) probeIdentity(id jobprobe.Identity, rec *sidecar.Record) jobprobe.Liveness {
	submitted, _ := rec.Text("submitted_at")
	recorded, _ := sidecar.ParseTime(submitted)
	if o.probe != nil {
		return o.probe(id, recorded)
	}
	return jobprobe.ProbeRecorded(id, recorded)
}

func (o Observer) time() time.Time {
	if o.now != nil {
		return o.now()
	}
	return time.Now()
}
