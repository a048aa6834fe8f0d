package jobprobe

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawIdentity draws from few values, so that equal ones meet, and from zero,
// which is "not recorded".
func drawIdentity(r *rapid.T) Identity {
	return Identity{
		PID:       rapid.Int64Range(1, 3).Draw(r, "pid"),
		Start:     rapid.Uint64Range(0, 3).Draw(r, "start"),
		StartUnit: rapid.SampledFrom([]string{"", startUnit, "another"}).Draw(r, "unit"),
		Boot:      rapid.SampledFrom([]string{"", "boot 1", "boot 2"}).Draw(r, "boot"),
		BootSrc:   rapid.SampledFrom([]string{"", bootSource}).Draw(r, "boot source"),
		PIDNS:     rapid.SampledFrom([]uint64{0, initialPIDNS, 5}).Draw(r, "pid ns"),
		TimeNS:    rapid.Uint64Range(0, 2).Draw(r, "time ns"),
		Uniq:      rapid.Uint64Range(0, 3).Draw(r, "uniq"),
		UniqKind:  rapid.SampledFrom([]string{"", osScope{}.uniqKind(), "pidfs"}).Draw(r, "kind"),
		Host:      rapid.SampledFrom([]string{"", "host 1", "host 2"}).Draw(r, "host"),
		unusable:  rapid.Bool().Draw(r, "unusable"),
	}
}

func drawScope(r *rapid.T) *scope {
	return &scope{
		boot:     rapid.SampledFrom([]string{"", "boot 1", "boot 2"}).Draw(r, "our boot"),
		bootReal: rapid.Bool().Draw(r, "our boot is real"),
		pidNS:    rapid.SampledFrom([]uint64{0, initialPIDNS, 5}).Draw(r, "our pid ns"),
		timeNS:   rapid.Uint64Range(0, 2).Draw(r, "our time ns"),
		host:     rapid.SampledFrom([]string{"", "host 1", "host 2"}).Draw(r, "our host"),
		os:       drawOSScope(r),
	}
}

func drawObservation(r *rapid.T) observation {
	return observation{
		presence: rapid.SampledFrom([]presence{presenceUnknown, held, absent, vanished}).Draw(r, "presence"),
		running:  rapid.SampledFrom([]running{runningUnknown, runs, exited}).Draw(r, "running"),
		uniq:     rapid.Uint64Range(0, 3).Draw(r, "seen uniq"),
		start:    rapid.Uint64Range(0, 3).Draw(r, "seen start"),
		session:  rapid.Int64Range(0, 3).Draw(r, "session"),
		obstacle: rapid.SampledFrom([]Finding{NotProbed, AccessDenied, IdentityUnreadable}).Draw(r, "obstacle"),
	}
}

// Every gone has a positive reason, every confirmation an equal stamp, and
// nothing that was not read takes part.
func TestClassifyProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		id := drawIdentity(r)
		seen := drawObservation(r)
		rel := relation{
			otherBoot: rapid.Bool().Draw(r, "other boot"),
			uniq:      id.Uniq != 0 && rapid.Bool().Draw(r, "uniq comparable"),
			start:     id.Start != 0 && rapid.Bool().Draw(r, "start comparable"),
		}
		rel.timeNS = !rel.start && id.Start != 0 && rapid.Bool().Draw(r, "other time ns")
		var ev Evidence
		got := classify(&id, rel, &seen, &ev)

		uniqDiffers := rel.uniq && seen.uniq != 0 && seen.uniq != id.Uniq
		startDiffers := rel.start && seen.start != 0 && seen.start != id.Start
		uniqEqual := rel.uniq && seen.uniq != 0 && seen.uniq == id.Uniq
		startEqual := rel.start && seen.start != 0 && seen.start == id.Start
		reason := map[Finding]bool{
			PIDAbsent:              seen.presence == absent,
			PIDRecycled:            uniqDiffers || startDiffers && !uniqEqual || rel.otherBoot && seen.presence == held,
			DisappearedDuringProbe: seen.presence == vanished || seen.running == exited,
			IdentityConfirmed:      seen.running == runs && (uniqEqual || startEqual && !uniqDiffers),
			IdentityNotRecorded:    seen.presence == held && seen.running == runs && !rel.uniq && !rel.start,
			IdentityUnusable:       seen.presence == held && seen.running == runs && !rel.uniq && !rel.start,
		}
		if ok, listed := reason[got]; listed && !ok {
			r.Fatalf("%v without a reason", got)
		}
		if got.Conclusion() == ProcessGone && !reason[got] || got == NotProbed {
			r.Fatalf("%v", got)
		}
		if ev.Weak && (got != IdentityConfirmed || uniqEqual) {
			r.Fatalf("weak %v", got)
		}
		if ev.ExitedUnreaped && (got != DisappearedDuringProbe || seen.running != exited) {
			r.Fatalf("unreaped %v", got)
		}
	})
}

// Nothing read proves nothing, whatever was recorded.
func TestClassifyNothingSeen(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		id := drawIdentity(r)
		rel := relate(&id, drawScope(r), time.Time{})
		var ev Evidence
		if got := classify(&id, rel, &observation{}, &ev); got.Conclusion() != Unknown {
			r.Fatalf("%v of nothing", got)
		}
	})
}

// The stamps are comparable only where both scopes were recorded and equal,
// and a scope never proves a death alone.
func TestRelateProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		id, sc := drawIdentity(r), drawScope(r)
		when := rapid.SampledFrom([]time.Time{{}, time.Unix(1, 0), time.Now().Add(time.Hour)}).Draw(r, "recorded")
		rel := relate(&id, sc, when)
		if rel.foreign != NotProbed {
			if rel != (relation{foreign: rel.foreign}) || rel.foreign.Conclusion() != Unknown {
				r.Fatalf("%+v: foreign and comparable", rel)
			}
			return
		}
		sameBoot := id.Boot != "" && id.Boot == sc.boot && sc.bootReal || bootSource == noBoot && id.Boot == sc.boot
		scoped := id.Boot != "" || id.PIDNS != 0 || id.TimeNS != 0 || id.Host != ""
		switch {
		case rel.otherBoot:
			if sameBoot || id.Boot == "" || id.BootSrc != bootSource || !sc.bootReal ||
				id.Host == "" || id.Host != sc.host || id.PIDNS != initialPIDNS || sc.pidNS != initialPIDNS {
				r.Fatalf("another boot without proof")
			}
			if rel.uniq || rel.start || rel.timeNS {
				r.Fatalf("%+v: stamps of another boot", rel)
			}
			if when.After(time.Now()) {
				r.Fatalf("recorded since this boot")
			}
		case scoped && (!sameBoot || id.PIDNS != sc.pidNS):
			r.Fatalf("%+v: comparable across scopes", rel)
		}
		if rel.uniq && (!sameBoot || id.Uniq == 0 || id.UniqKind == "" || id.UniqKind != sc.os.uniqKind()) {
			r.Fatalf("unique numbers of another kind or boot")
		}
		if rel.start && (id.Start == 0 || id.StartUnit != startUnit || scoped && id.TimeNS != sc.timeNS) {
			r.Fatalf("start stamps cannot be compared")
		}
		if rel.timeNS && (rel.start || id.TimeNS == sc.timeNS || id.Start == 0) {
			r.Fatalf("%+v: time namespaces", rel)
		}
	})
}

// The probe as a whole is closed: without an observation nothing is proved,
// and an unusable number is refused first.
func TestAskable(t *testing.T) {
	for name, c := range map[string]struct {
		id   Identity
		want bool
	}{
		"zero":               {Identity{}, false},
		"negative":           {Identity{PID: -1}, false},
		"wide":               {Identity{PID: 1 << 32}, false},
		"1, nothing":         {Identity{PID: 1}, false},
		"1, stamp only":      {Identity{PID: 1, Start: 5}, false},
		"1, scope only":      {Identity{PID: 1, Boot: "b"}, false},
		"4, nothing":         {Identity{PID: 4}, true},
		"4, stamp and scope": {Identity{PID: 4, Start: 5, Boot: "b"}, true},
	} {
		if got := askable(&c.id); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
