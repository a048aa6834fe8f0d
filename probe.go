package jobprobe

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// Liveness is the verdict of one probe.
type Liveness struct {
	// Alive says only that waiting can still help. Nothing may be ended
	// because it is false; Conclusion decides.
	Alive bool
	// Conclusion is what Finding proves.
	Conclusion Conclusion
	// Finding is what was seen.
	Finding Finding
	// Evidence is the receipt.
	Evidence Evidence
}

// Errors of Identify, matched with errors.Is.
var (
	// ErrUnusablePID is returned for a number that no process can have here.
	ErrUnusablePID = errors.New("jobprobe: not a process number")
	// ErrNoProcess is returned when no process has the number. A number that
	// is only a thread id is nobody's process number.
	ErrNoProcess = errors.New("jobprobe: no such process")
	// ErrUnidentified is returned when the operating system would not tell
	// who holds the number; the process may or may not exist.
	ErrUnidentified = errors.New("jobprobe: cannot identify process")
)

// Identify returns the identity of the process that has the number now.
//
// Record it while the number cannot pass to another process: the caller's own
// pid, or a child not yet waited for. A process that has exited but not been
// collected can still be identified. The error wraps ErrUnusablePID,
// ErrNoProcess or ErrUnidentified, and the operating system's error if any.
func Identify(pid int) (Identity, error) {
	if !usablePID(int64(pid)) {
		return Identity{}, fmt.Errorf("%w: %d", ErrUnusablePID, pid)
	}
	sc, err := currentScope()
	if err != nil {
		return Identity{}, fmt.Errorf("%w %d: %w", ErrUnidentified, pid, err)
	}
	id := Identity{
		OS:        runtime.GOOS,
		PID:       int64(pid),
		StartUnit: startUnit,
		Boot:      sc.boot,
		PIDNS:     sc.pidNS,
		TimeNS:    sc.timeNS,
		Host:      sc.host,
	}
	if sc.bootReal {
		id.BootSrc = bootSource
	}
	if err := stamp(&id, sc); err != nil {
		return Identity{}, fmt.Errorf("%w %d", err, pid)
	}
	return id, nil
}

// Probe answers whether the identified process is still there. It never
// fails: not knowing is a finding, and the verdict of an unknown is Unknown.
// It costs a few system calls, allocates nothing, does not block, and may be
// called from any number of goroutines.
//
// A conclusion holds for the instant of the probe. ProcessGone is final.
func Probe(id Identity) (v Liveness) {
	v.conclude(probe(&id, time.Time{}, &v.Evidence))
	return v
}

// ProbeRecorded is Probe for an identity known to have been recorded at the
// given time. An identity younger than this boot cannot be from an earlier
// one, whatever its boot id says; it is then ForeignBoot and proves nothing.
// The zero time is not known.
func ProbeRecorded(id Identity, recorded time.Time) (v Liveness) {
	v.conclude(probe(&id, recorded, &v.Evidence))
	return v
}

// conclude fills in what follows from a finding.
func (v *Liveness) conclude(f Finding) {
	v.Finding = f
	v.Conclusion = f.Conclusion()
	v.Alive = f.waitable()
	v.Evidence.at = time.Since(started)
}

func probe(id *Identity, recorded time.Time, ev *Evidence) Finding {
	if id.OS != "" && id.OS != runtime.GOOS {
		return ForeignHost // whose numbers follow other rules
	}
	if !askable(id) {
		return UnusablePID
	}
	sc, err := currentScope()
	if err != nil {
		return ProbeEnvironmentUnusable
	}
	ev.scope = sc
	rel := relate(id, sc, recorded)
	if rel.foreign != NotProbed {
		return rel.foreign
	}
	seen := observe(id, sc, rel, ev)
	return classify(id, rel, &seen, ev)
}

// askable refuses numbers before any system call is made with them. Number 1
// is init here and in every container; it is the recorded process only if a
// stamp and its scope say so.
func askable(id *Identity) bool {
	if id.PID == 1 && (id.Start == 0 && id.Uniq == 0 || !id.scoped()) {
		return false
	}
	return usablePID(id.PID)
}

// scope is where this process issues numbers and reads stamps.
type scope struct {
	boot          string
	bootReal      bool // the kernel itself said so
	pidNS, timeNS uint64
	host          string
	os            osScope
}

// noBoot is the bootSource of an operating system whose stamps are absolute,
// so that it needs no boot id.
const noBoot = "none"

// relation is how a recorded scope stands to ours. The zero value is foreign
// to nothing and comparable in nothing.
type relation struct {
	foreign   Finding // not NotProbed: the record cannot be judged from here
	otherBoot bool    // same host, provably an earlier boot: the process is gone
	uniq      bool    // the unique numbers can be compared
	start     bool    // the start stamps can be compared
	timeNS    bool    // ... but for being read in another time namespace
}

// relate compares scopes. An equal boot id, read from the kernel, proves the
// same kernel, whatever the hosts are called; then the pid namespace must be
// equal too. Otherwise the host decides, and a different boot is a death only
// if both sides are the initial namespace of the same host.
func relate(id *Identity, sc *scope, recorded time.Time) relation {
	rel := relation{start: id.Start != 0 && id.StartUnit == startUnit}
	switch {
	case !id.scoped():
		return rel
	case id.Boot == sc.boot && (bootSource == noBoot || sc.bootReal && id.Boot != ""):
		if bootSource == noBoot && id.Host != "" && id.Host != sc.host {
			return relation{foreign: ForeignHost}
		}
		if id.PIDNS != sc.pidNS {
			return relation{foreign: ForeignPIDNamespace}
		}
		rel.uniq = id.Uniq != 0 && id.UniqKind != "" && id.UniqKind == sc.os.uniqKind()
		if id.TimeNS != sc.timeNS {
			rel.timeNS, rel.start = rel.start, false
		}
		return rel
	case id.Host != "" && id.Host != sc.host:
		return relation{foreign: ForeignHost}
	case earlierBoot(id, sc, recorded):
		return relation{otherBoot: true}
	}
	return relation{foreign: ForeignBoot}
}

// earlierBoot says whether the record provably comes from an earlier boot of
// this very host. What has not the form of a boot id is damage, not another one.
func earlierBoot(id *Identity, sc *scope, recorded time.Time) bool {
	if !isUUID36(id.Boot) || strings.EqualFold(id.Boot, sc.boot) {
		return false
	}
	if id.BootSrc != bootSource || !sc.bootReal || id.Host == "" {
		return false
	}
	if id.PIDNS != initialPIDNS || sc.pidNS != initialPIDNS {
		return false
	}
	if recorded.IsZero() {
		return true
	}
	booted := bootTime()
	return !booted.IsZero() && recorded.Before(booted)
}

// presence is what is known about a number; the zero value is nothing.
type presence uint8

const (
	presenceUnknown presence = iota
	held                     // a process has the number
	absent                   // no process has it
	vanished                 // a process had it when the probe began
)

// running is what is known about the process behind a held number.
type running uint8

const (
	runningUnknown running = iota
	runs                   // at least one thread can run
	exited                 // no thread can ever run again
)

// observation is everything one look found out. Zero fields prove nothing.
type observation struct {
	presence presence
	running  running
	uniq     uint64
	start    uint64
	session  int64 // the session's leader
	// obstacle says why the stamp or the state is not known.
	obstacle Finding
}

// classify turns what was seen into a finding. It makes no system call, and
// nothing that could not be read takes part in a comparison.
func classify(id *Identity, rel relation, seen *observation, ev *Evidence) Finding {
	switch seen.presence {
	case absent:
		return PIDAbsent
	case vanished:
		return DisappearedDuringProbe
	case presenceUnknown, held:
	}
	if rel.otherBoot && seen.presence == held {
		return PIDRecycled
	}
	byUniq := rel.uniq && seen.uniq != 0
	byStart := rel.start && seen.start != 0
	switch {
	case byUniq && seen.uniq != id.Uniq:
		return PIDRecycled
	case byUniq && seen.running == runs:
		return IdentityConfirmed
	case !byUniq && byStart && seen.start != id.Start:
		return PIDRecycled
	case !byUniq && byStart && seen.running == runs:
		ev.Weak = weakStart
		return IdentityConfirmed
	}
	// Whoever holds the number has exited. If that is not ours, ours was gone
	// before it: in both cases ours can run no more.
	if seen.running == exited {
		ev.ExitedUnreaped = true
		return DisappearedDuringProbe
	}
	nothing := !rel.uniq && !rel.start && !rel.timeNS
	switch {
	case seen.obstacle != NotProbed:
		return seen.obstacle
	case rel.timeNS && seen.presence == held:
		return ForeignTimeNamespace
	case nothing && seen.presence == held && seen.running == runs && id.stampRecorded():
		return IdentityUnusable
	case nothing && seen.presence == held && seen.running == runs:
		return IdentityNotRecorded
	}
	return IdentityUnreadable
}

// stampRecorded says whether a stamp was recorded, usable or not.
func (id *Identity) stampRecorded() bool {
	return id.unusable || id.Start != 0 || id.Uniq != 0
}
