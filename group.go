package jobprobe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/jobprobe/jobprobe/internal/enum"
)

// Marker says what the environment of a process tells of the run that it
// belongs to.
type Marker uint8

const (
	// MarkerUnreadable is the zero value: the environment was not read, or
	// could not be, or names two runs. It proves nothing.
	MarkerUnreadable Marker = iota
	// MarkerNone: the environment names no run. A process may drop or
	// overwrite its environment, so this does not prove that it has none.
	MarkerNone
	// MarkerFound: the environment names a run.
	MarkerFound
)

var markerNames = [...]string{"unreadable", "none", "found"}

// Member is one live process as it was found in a group or by its marker. Its
// identity was read before and after the other fields, and was the same.
type Member struct {
	Identity Identity
	// PGID and Session are the process group and the session, 0 where the
	// operating system did not tell or has none.
	PGID, Session int64
	// UID is the real user id, if HasUID: the user who started it, also if the
	// program has another one's rights.
	UID    uint32
	HasUID bool
	// RunID is the run that the environment names, if Marker is MarkerFound:
	// the innermost one, if jobs were started by jobs.
	Marker Marker
	RunID  string
}

const (
	// describeTries bounds how often a process is described again because its
	// number changed hands meanwhile.
	describeTries = 4
	// scanTries bounds how often a list is made again because it was empty, or
	// because it met an obstacle that may pass.
	scanTries = 8
)

// Group returns the live processes of a process group. Those that have exited
// and were not collected are left out, and so is number 1.
//
// complete says that no member can have been missed: only then does an empty
// answer mean that nothing lives in the group. It is false where the operating
// system hides processes (hidepid), refused or failed to describe one, or
// offers no list, and for a number that cannot name a group. A list is no
// snapshot, so it is made again until it stays the same.
func Group(pgid int64) (members []Member, complete bool) {
	if pgid <= 1 || !usablePID(pgid) {
		return nil, false
	}
	return rescan(func(pid int64) glance {
		group, err := groupOf(pid)
		switch {
		case errors.Is(err, ErrNoProcess):
			return glanceGone
		case err != nil:
			return glanceUntold
		case group != pgid:
			return glanceOther
		}
		return glanceWanted
	}, func(m *Member) bool { return m.PGID == pgid })
}

// Marked returns the live processes, of whatever group and session, whose
// environment names the run, and those whose environment could not be read:
// Marker tells them apart. This process and number 1 are left out. complete is
// as for [Group].
//
// A process that has dropped the marker is not found, so an empty answer says
// only that nothing that carries the marker lives.
func Marked(runID string) (members []Member, complete bool) {
	if runID == "" {
		return nil, false
	}
	return markedFor(func(id string) bool { return id == runID })
}

// MarkedAny is [Marked] for every run at once: the live processes whose
// environment names any run, and those whose environment could not be read.
func MarkedAny() (members []Member, complete bool) {
	return markedFor(func(string) bool { return true })
}

func markedFor(wanted func(runID string) bool) (members []Member, complete bool) {
	self := int64(os.Getpid())
	may := func(marker Marker, id string) bool {
		return marker == MarkerUnreadable || marker == MarkerFound && wanted(id)
	}
	// What was started without the marker does not get it, so it is read once.
	others := map[int64]bool{self: true}
	return rescan(func(pid int64) glance {
		if others[pid] {
			return glanceOther
		}
		if !may(glimpse(pid)) {
			others[pid] = true
			return glanceOther
		}
		return glanceWanted
	}, func(m *Member) bool {
		wanted := may(m.Marker, m.RunID)
		others[m.Identity.PID] = !wanted
		return wanted
	})
}

// glance is what a first look at a number tells of its process.
type glance uint8

const (
	glanceUntold glance = iota // the system did not tell
	glanceGone                 // its process has ended, or nobody has the number
	glanceOther                // it is not looked for
	glanceWanted               // it may be, and is to be described
)

// rescan scans until a list is complete, and until the same list is returned
// twice: one that met no more than the start or the end of a process.
//
// A process that was listed and is gone before anything was read of it may have
// been looked for, and may have left another that was not listed yet. So a scan
// which met one is made again; what was read of it in an earlier one counts.
func rescan(look func(pid int64) glance, keep func(*Member) bool) (members []Member, complete bool) {
	var before []Member
	met := map[int64]bool{}
	for try := range scanTries {
		members, complete = scan(look, keep, met)
		if try > 0 && complete && slices.Equal(members, before) {
			break
		}
		before = members
	}
	return members, complete
}

// scan glances at every process, and then describes those that are wanted and
// keeps what still is. The newest come first, which are the likeliest to be gone
// soon. It adds the numbers of which something was read to those met before.
func scan(look func(pid int64) glance, keep func(*Member) bool, met map[int64]bool) (members []Member, complete bool) {
	pids, complete := processNumbers()
	slices.SortFunc(pids, func(a, b int64) int { return cmp.Compare(b, a) })
	var wanted []int64
	for _, pid := range pids {
		if pid <= 1 {
			continue
		}
		switch look(pid) {
		case glanceUntold:
			complete = false
		case glanceGone:
			complete = complete && met[pid]
		case glanceOther:
			met[pid] = true
		case glanceWanted:
			wanted = append(wanted, pid)
		}
	}
	for _, pid := range wanted {
		m, err := Describe(pid)
		switch {
		case errors.Is(err, ErrNoProcess):
			complete = complete && met[pid]
			met[pid] = true // one that was not collected is met again, and starts nothing
		case err != nil:
			complete = false
		case keep(&m):
			members = append(members, m)
			met[pid] = true
		default:
			met[pid] = true
		}
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Identity.PID, b.Identity.PID) })
	return members, complete
}

// Describe returns what can be told of the live process that has the number
// now. A process that has exited is ErrNoProcess, collected or not. The other
// errors are those of [Identify].
func Describe(pid int64) (Member, error) {
	if !usablePID(pid) {
		return Member{}, fmt.Errorf("%w: %d", ErrUnusablePID, pid)
	}
	for range describeTries {
		id, err := Identify(int(pid))
		if err != nil {
			return Member{}, err
		}
		m := Member{Identity: id}
		m.describe(pid)
		again, err := Identify(int(pid))
		switch {
		case err != nil:
			return Member{}, err
		case again != id:
			continue
		}
		switch live := Probe(id); {
		case live.Finding == IdentityConfirmed:
			return m, nil
		case live.Conclusion == ProcessGone:
			return Member{}, fmt.Errorf("%w %d: %s", ErrNoProcess, pid, live.Finding)
		}
	}
	return Member{}, fmt.Errorf("%w %d", ErrUnidentified, pid)
}

// SignalGroup sends a signal to the process group that this process leads.
// Signal 0 only asks. The error is os.ErrProcessDone if no process, not even
// an uncollected one, is in such a group, a permission error if none of them
// may be signalled, and errors.ErrUnsupported where there are no groups.
//
// On Linux 6.9 and later the handle itself names the group, also when the
// leader has long been collected, so that no other group can be reached.
// Elsewhere the leader is confirmed just before its number is used, and
// errors.ErrUnsupported is returned when it is gone.
func (p *Process) SignalGroup(sig os.Signal) error {
	if p.id.PID <= 1 {
		return fmt.Errorf("%w: %d is never signalled", ErrUnusablePID, p.id.PID)
	}
	n, ok := sig.(syscall.Signal)
	if !ok {
		return errNoSignal
	}
	return p.signalGroup(n)
}

// markers are the variables that name a run. The starters of either kind of
// job set the first, only ours the second as well, so where they differ the
// first is of the inner run.
var markers = [...]string{"LIONAGI_MCP_JOB_RUN_ID", "JOBPROBE_RUN_ID"}

// parseMarker finds the run that an environment, entries ended by NUL, names.
// A variable that occurs twice with two values names no one run, since
// programs differ in which of them they see.
func parseMarker(env []byte) (Marker, string) {
	var found [len(markers)]string
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		name, value, _ := bytes.Cut(entry, []byte("="))
		for i, marker := range markers {
			if string(name) != marker || len(value) == 0 {
				continue
			}
			if found[i] != "" && found[i] != string(value) {
				return MarkerUnreadable, ""
			}
			found[i] = string(value)
		}
	}
	for _, runID := range found {
		if runID != "" {
			return MarkerFound, runID
		}
	}
	return MarkerNone, ""
}

// String returns the word used in replies, for example "none". A value outside
// the enumeration prints its number.
func (m Marker) String() string { return enum.Name(markerNames[:], uint8(m), "Marker") }

// MarshalText returns the word of [Marker.String]. It fails for a value
// outside the enumeration.
func (m Marker) MarshalText() ([]byte, error) {
	return enum.Text(markerNames[:], uint8(m), "marker")
}

// UnmarshalText accepts exactly the words that [Marker.MarshalText] makes.
func (m *Marker) UnmarshalText(text []byte) error {
	n, err := enum.Value(markerNames[:], text, "marker")
	if err == nil {
		*m = Marker(n)
	}
	return err
}
