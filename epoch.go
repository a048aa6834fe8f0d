package jobprobe

import "math"

// EpochIdentity is the weak identity in records that carry a start time in
// seconds since 1970 and no kernel stamp, as psutil computes it. That time
// moves with the wall clock, so a difference alone ends nothing.
type EpochIdentity struct {
	PID int64
	// Created is the recorded start time in epoch seconds. Zero was not
	// recorded; a value that is not finite and positive is unusable.
	Created float64
	// PGID is the recorded process group, zero if none. When it equals PID
	// the recorded process led a session of its own.
	PGID int64
	// RunID is the value that the run's own processes carry in their
	// environment as JOBPROBE_RUN_ID or LIONAGI_MCP_JOB_RUN_ID; empty if the
	// run had none.
	RunID string
}

const (
	// epochTolerance is how far apart, in seconds, two readings of one start
	// time may be: the tolerance of the programs that write it.
	epochTolerance = 0.1
	// stepTolerance is how far apart two fractions of a second may be and
	// still be the same hundredth.
	stepTolerance = 0.006
	// initialTimeNS is the inode number of every Linux host's first time
	// namespace (PROC_TIME_INIT_INO in include/linux/proc_ns.h). The clock of
	// another one can be ahead by a fraction of a second.
	initialTimeNS = 0xEFFFFFFA
)

// ProbeEpoch answers for a weak identity. A start time within 0.1 s confirms
// it, and so does the run's marker in the environment of the live process.
// The number is recycled if the run led its session and the live process does
// not lead one, or, on Linux, if the times differ in their fraction of a
// second: a clock step moves boot time by whole seconds only. Any other
// difference is IdentityUnreadable.
//
// It allocates, and costs more than Probe: it reads /proc/stat on Linux.
func ProbeEpoch(id EpochIdentity) Liveness {
	var v Liveness
	v.conclude(probeEpoch(&id, &v.Evidence))
	return v
}

func probeEpoch(id *EpochIdentity, ev *Evidence) Finding {
	plain := Identity{PID: id.PID, unusable: !(id.Created >= 0) || math.IsInf(id.Created, 1)}
	if !askable(&plain) {
		return UnusablePID
	}
	sc, err := currentScope()
	if err != nil {
		return ProbeEnvironmentUnusable
	}
	ev.scope = sc
	seen := observe(&plain, sc, relation{start: id.Created > 0}, ev)
	f := classify(&plain, relation{}, &seen, ev)
	if f != IdentityNotRecorded || id.Created == 0 {
		return f
	}
	live, ok := createdAt(sc, seen.start)
	if !ok {
		return IdentityUnreadable
	}
	whole := stepsWhole && (sc.timeNS == 0 || sc.timeNS == initialTimeNS)
	f = classifyEpoch(id, live, whole, seen.session, func() bool { return marked(sc, id.PID, id.RunID) })
	ev.Weak = f == IdentityConfirmed
	return f
}

// classifyEpoch compares two start times of which either may have been moved
// by the clock; whole says that it moves by whole seconds only.
func classifyEpoch(id *EpochIdentity, live float64, whole bool, session int64, marked func() bool) Finding {
	apart := math.Abs(live - id.Created)
	_, fraction := math.Modf(apart)
	switch {
	case apart <= epochTolerance:
		return IdentityConfirmed
	case id.RunID != "" && marked():
		return IdentityConfirmed
	case id.PGID == id.PID && session != 0 && session != id.PID:
		return PIDRecycled
	case whole && min(fraction, 1-fraction) > stepTolerance:
		return PIDRecycled
	}
	return IdentityUnreadable
}

// CreateTime returns the identity's start time in epoch seconds, as psutil
// computes it from the clock of this moment, for records that other programs
// read. It is false if the stamp is missing or of another operating system.
// Never compare it: it moves with the clock.
func (id Identity) CreateTime() (seconds float64, ok bool) {
	sc, err := currentScope()
	if err != nil || id.Start == 0 || id.StartUnit != startUnit {
		return 0, false
	}
	return createdAt(sc, id.Start)
}
