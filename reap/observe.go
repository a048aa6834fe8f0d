package reap

import (
	"context"
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
// be copied and used concurrently.
type Observer struct {
	// Store holds the records.
	Store sidecar.Store
	// RunsDir holds what the runs themselves wrote, one directory a run id:
	// run.json, notify_outcome.json, artifacts. Empty means no such directory.
	RunsDir string

	probe func(jobprobe.Identity, time.Time) jobprobe.Liveness // nil: the root package
	now   func() time.Time                                     // nil: time.Now
}

// New returns an Observer of the jobs below dir, with the runs directory that
// belongs to it (see [RunsDir]).
func New(dir string) Observer {
	return Observer{Store: sidecar.Store{Dir: dir}, RunsDir: RunsDir(dir)}
}

// look is one observation of one job: the record as it stands, and what is
// known of its process.
type look struct {
	id      string
	reading sidecar.Reading
	live    jobprobe.Liveness
	probed  bool
	ending  bool  // the process is gone, its supervisor is there to say how
	won     bool  // this look wrote the job's end
	refused error // a transition that was due and could not be written
}

func (l *look) record() *sidecar.Record { return l.reading.Record }

// observe is the one classification path: it examines a job and writes the
// end that is due. It fails only for a run id that cannot name a job;
// whatever else is wrong is part of the answer.
func (o Observer) observe(ctx context.Context, id string) (look, error) {
	l, due, err := o.examine(id)
	if due {
		o.reap(ctx, &l)
	}
	return l, err
}

// examine reads and probes a job, and says whether its end is due. It writes
// nothing.
func (o Observer) examine(id string) (l look, due bool, err error) {
	l = look{id: id, reading: o.Store.Read(id)}
	if l.reading.State == sidecar.Unread {
		return l, false, l.reading.Err
	}
	rec := l.record()
	if l.reading.State != sidecar.OK || rec.Ended() {
		return l, false, nil
	}
	o.look(&l)
	if l.live.Conclusion != jobprobe.ProcessGone || !reapable(rec, id) {
		return l, false, nil
	}
	switch o.supervisor(rec) {
	case jobprobe.Alive:
		l.ending = true
	case jobprobe.ProcessGone:
		due = true
	case jobprobe.Unknown:
	}
	return l, due, nil
}

// look probes the job's process, if that was not done yet.
func (o Observer) look(l *look) {
	if rec := l.record(); rec != nil && !l.probed {
		l.live = o.liveness(rec)
		l.probed = true
	}
}

// reapable says whether a conclusive loss may end this record.
func reapable(rec *sidecar.Record, id string) bool {
	state, _ := rec.Text("spawn_state")
	return !rec.Ended() && state == spawnStarted && rec.RunID() == id
}

// reap writes the end of a job whose process is conclusively gone, and leaves
// in l the record as it stands afterwards, whoever wrote it.
func (o Observer) reap(ctx context.Context, l *look) {
	got, err := o.Store.Reap(ctx, l.id, sidecar.Reaping{
		Finding:    l.live.Finding,
		ReasonCode: o.goneReason(l.id),
		At:         o.time(),
	})
	if err != nil {
		l.refused = err
		l.reading = o.Store.Read(l.id)
		return
	}
	l.won, l.reading.Record = got.Won, got.Record
}

// liveness probes the process that a record names: by the kernel's stamps if
// they were recorded, else by the start time in epoch seconds.
func (o Observer) liveness(rec *sidecar.Record) jobprobe.Liveness {
	pid, _ := rec.Int("pid") // what is no integer names no process
	if !rec.Null("process_identity") {
		// A damaged identity has no number, and its scope is not known: the
		// fields below have none, so they are not asked instead.
		if id := identityOf(rec, "process_identity"); id.PID == pid || id.PID == 0 {
			return o.probeIdentity(id, rec)
		}
	}
	pgid, _ := rec.Int("pgid")
	return jobprobe.ProbeEpoch(jobprobe.EpochIdentity{
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

// supervisor says what is known of the process that would report the end.
// A record without one has nobody to wait for.
func (o Observer) supervisor(rec *sidecar.Record) jobprobe.Conclusion {
	if rec.Null("supervisor") {
		return jobprobe.ProcessGone
	}
	live := o.probeIdentity(identityOf(rec, "supervisor"), rec)
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
