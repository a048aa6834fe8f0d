package reap

import (
	"errors"
	"math"
	"os"
	"syscall"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// errChanged says that what was identified is no more when it is to be
// signalled.
var errChanged = errors.New("the process changed while it was being verified")

// target is the group that a record names, as far as it is identified. Its
// zero fields prove nothing, and nothing is signalled on their account.
type target struct {
	runID     string
	pid, pgid int64                  // pgid is 0 where there are no groups
	stamped   jobprobe.Identity      // recorded, zero in a weak record
	weak      jobprobe.EpochIdentity // recorded, zero in a stamped record
	owner     uint32                 // of the record, if owned
	owned     bool

	finding jobprobe.Finding // of the leader
	// live is the leader's full identity, zero if it was gone. leader pins it,
	// or is nil where the system cannot pin it.
	live   jobprobe.Identity
	leader *jobprobe.Process

	// whole says that fire signals the group at once: through head, which pins
	// the process that leads it, or by number where that cannot be pinned.
	// Otherwise fire signals the marks one by one.
	whole bool
	head  *jobprobe.Process
	marks []mark
}

// mark is one process to be signalled; pin is nil where it cannot be pinned.
type mark struct {
	id  jobprobe.Identity
	pin *jobprobe.Process
}

// close releases every handle.
func (t *target) close() {
	t.drop()
	if t.leader != nil {
		t.leader.Close()
	}
}

// drop forgets what was aimed at.
func (t *target) drop() {
	for _, m := range t.marks {
		if m.pin != nil {
			m.pin.Close()
		}
	}
	if t.head != nil && t.head != t.leader {
		t.head.Close()
	}
	t.marks, t.whole, t.head = nil, false, nil
}

// identify finds out whether the leader is there and is the recorded process,
// in its recorded group. It returns a reason code, empty if the leader is
// identified or conclusively gone.
func (t *target) identify(rec *sidecar.Record, o Observer) string {
	code := t.pinLeader(rec, o)
	if code != "" || t.live == (jobprobe.Identity{}) {
		return code
	}
	o.reach(stepPinned)
	// This is read by number, and is about the leader because the leader runs
	// afterwards: a number is not passed on while its process runs.
	m, err := jobprobe.Describe(t.pid)
	o.reach(stepDescribed)
	switch {
	case errors.Is(err, jobprobe.ErrNoProcess):
		return killLeaderChanged
	case err != nil:
		return killGroupUnreadable
	case groups && m.PGID == 0:
		return killGroupUnreadable
	case groups && m.PGID != t.pgid:
		return killGroupMismatch
	case !t.leads() || t.leader == nil && m.Identity != t.live:
		return killLeaderChanged
	case m.Marker == jobprobe.MarkerFound && m.RunID != t.runID:
		return killGroupOfOther
	case m.Marker != jobprobe.MarkerFound && !t.exact():
		return killUnverified
	case t.owned && !m.HasUID && privileged():
		return killLeaderUnreadable // the kernel would check nothing for us
	case t.foreign(&m):
		return killNotOwner
	}
	return ""
}

// pinLeader pins whoever has the number, and then compares it with the record:
// what is confirmed while it is pinned, and runs afterwards, is what is pinned.
func (t *target) pinLeader(rec *sidecar.Record, o Observer) string {
	var pin *jobprobe.Process
	id, err := jobprobe.Identify(int(t.pid))
	if err == nil {
		pin, err = jobprobe.Open(id)
	}
	// An error says only that nothing is pinned; the finding decides.
	live := t.probe(rec, o)
	if t.finding = live.Finding; t.finding == jobprobe.IdentityConfirmed {
		t.live, t.leader = id, pin
		switch {
		case errors.Is(err, jobprobe.ErrUnidentified) && !errors.Is(err, errors.ErrUnsupported):
			return killLeaderUnreadable
		case !t.leads():
			return killLeaderChanged
		}
		return ""
	}
	if pin != nil {
		pin.Close() // whoever that is
	}
	switch t.finding {
	case jobprobe.PIDRecycled:
		return killRecycled
	case jobprobe.PIDAbsent, jobprobe.DisappearedDuringProbe:
		if boot := live.Evidence.Observer().Boot; t.stamped.Boot != "" && t.stamped.Boot != boot {
			return killGroupGone // no group outlives a boot
		}
		return ""
	case jobprobe.IdentityNotRecorded, jobprobe.IdentityUnusable:
		return killUnverified
	case jobprobe.ForeignHost, jobprobe.ForeignBoot, jobprobe.ForeignPIDNamespace,
		jobprobe.ForeignTimeNamespace, jobprobe.ProbeEnvironmentUnusable, jobprobe.UnsupportedPlatform:
		return live.Finding.String()
	case jobprobe.NotProbed, jobprobe.IdentityConfirmed, jobprobe.UnusablePID,
		jobprobe.AccessDenied, jobprobe.IdentityUnreadable:
	}
	return killLeaderUnreadable
}

// probe asks about the recorded identity, whoever is pinned.
func (t *target) probe(rec *sidecar.Record, o Observer) jobprobe.Liveness {
	if t.weak.PID == 0 {
		return o.probeIdentity(t.stamped, rec)
	}
	return jobprobe.ProbeEpoch(t.weak)
}

// exactly is how far apart, in seconds, two readings of one start time may be:
// half of the hundredth that they are counted in, and more than the rounding
// of a float.
const exactly = 0.005

// exact says whether a weak identity is confirmed to the hundredth of a second
// that its times are counted in. The tolerance that confirms one for reading
// is wide enough for a number to change hands, and not enough for a signal.
func (t *target) exact() bool {
	if t.weak.PID == 0 {
		return true
	}
	created, ok := t.live.CreateTime()
	return ok && math.Abs(created-t.weak.Created) < exactly
}

// leads says whether the identified leader runs at this moment.
func (t *target) leads() bool {
	if t.leader != nil {
		return t.leader.Probe().Finding == jobprobe.IdentityConfirmed
	}
	return t.live.PID != 0 && jobprobe.Probe(t.live).Finding == jobprobe.IdentityConfirmed
}

// foreign says whether a process is known to be another user's than the
// record. What the system does not show to a caller without privilege, it does
// not let that caller signal unduly either.
func (t *target) foreign(m *jobprobe.Member) bool {
	return t.owned && m.HasUID && m.UID != t.owner
}

// group returns the live members of the group, which is empty and completely
// known if the handle says so, or if its number has gone to somebody else: no
// process is given a number that is still a group's.
func (t *target) group() (members []jobprobe.Member, complete bool) {
	held := false
	if t.heldGroup() {
		err := t.leader.SignalGroup(syscall.Signal(0))
		if errors.Is(err, os.ErrProcessDone) {
			return nil, true
		}
		held = !errors.Is(err, errors.ErrUnsupported)
	}
	if emptyGroup(t.pgid) {
		return nil, true
	}
	members, complete = jobprobe.Group(t.pgid)
	if !held && t.pid == t.pgid && t.reused(members) {
		return nil, true
	}
	return members, complete
}

// reused says whether another process leads the group than the run's leader,
// which is gone if it was never identified.
func (t *target) reused(members []jobprobe.Member) bool {
	if t.live.PID != 0 {
		return jobprobe.Probe(t.live).Finding == jobprobe.PIDRecycled
	}
	for i := range members {
		if members[i].Identity.PID == t.pgid {
			return true
		}
	}
	return false
}

// heldGroup says that the leader's handle is also the group's. On Linux 6.9
// and later it stays that when the leader is gone.
func (t *target) heldGroup() bool { return t.leader != nil && t.pid == t.pgid }

// lostGroup says that the group can no longer be reached through its leader.
func (t *target) lostGroup() bool {
	if !t.heldGroup() {
		return !t.leads() || t.pid != t.pgid
	}
	return errors.Is(t.leader.SignalGroup(syscall.Signal(0)), errors.ErrUnsupported)
}

// aim decides what fire will signal. A group that the identified leader does
// not lead, or no longer, is proved by its members first. It is signalled at
// once if somebody who leads it can be pinned and no member is another user's;
// else those that are the owner's are, one by one, and one that they start in
// that moment is missed. aim returns a reason code, empty if there is something
// to signal.
func (t *target) aim() string {
	t.drop()
	if t.pgid == 0 { // no groups here: the process stands for the job
		t.marks = []mark{{t.live, nil}}
		if t.leader != nil {
			t.marks[0].pin, _ = jobprobe.Open(t.live)
		}
		return ""
	}
	members, complete := t.group()
	lost := t.lostGroup()
	if lost {
		if code := t.judge(members, complete); code != "" {
			return code
		}
	}
	if ownGroup(t.pgid) {
		return killOwnGroup
	}
	mixed := false
	for i := range members {
		mixed = mixed || t.foreign(&members[i])
	}
	if !mixed && !lost {
		t.whole, t.head = true, t.leader
		return ""
	}
	for i := range members {
		id := members[i].Identity
		if t.foreign(&members[i]) || id.PID == int64(os.Getpid()) {
			continue
		}
		pin, err := jobprobe.Open(id)
		if err == nil && !mixed && id.PID == t.pgid {
			t.drop()
			t.whole, t.head = true, pin
			return ""
		}
		if err == nil || errors.Is(err, errors.ErrUnsupported) {
			t.marks = append(t.marks, mark{id, pin})
		}
	}
	if len(t.marks) == 0 {
		return killNotOwner
	}
	return ""
}

// judge says whether the members of a group, of which no identified leader is
// left, prove that it is this run's: by the marker in their environment. One
// is enough, since a group's number is nobody else's while it has a member.
func (t *target) judge(members []jobprobe.Member, complete bool) string {
	runs := map[string]bool{}
	unreadable, older := false, false
	for i := range members {
		m := &members[i]
		switch m.Marker {
		case jobprobe.MarkerFound:
			runs[m.RunID] = true
		case jobprobe.MarkerUnreadable:
			unreadable = true
		case jobprobe.MarkerNone:
		}
		older = older || t.predates(m.Identity)
	}
	switch {
	case len(runs) > 1:
		return killConflict
	case runs[t.runID]:
		return ""
	case len(runs) == 1:
		return killGroupOfOther
	case !complete:
		return killIncomplete
	case len(members) == 0:
		return killGroupGone
	case older:
		return killPredates
	case unreadable:
		return killIncomplete
	}
	return killUnproven
}

// peerTolerance is how much older, in seconds, a member may seem than the run
// by times that the clock has rounded.
const peerTolerance = 0.1

// predates says whether a process is older than the run, so that it cannot
// have been started by it.
func (t *target) predates(id jobprobe.Identity) bool {
	if t.weak.PID != 0 {
		created, ok := id.CreateTime()
		return ok && created < t.weak.Created-peerTolerance
	}
	since := &t.stamped
	return id.Start != 0 && since.Start != 0 && id.StartUnit == since.StartUnit &&
		id.TimeNS == since.TimeNS && id.Start < since.Start
}
