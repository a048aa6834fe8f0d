package reap

import (
	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// fate is what a record and a liveness say together.
type fate struct {
	status   string
	terminal bool
	outcome  string
	reason   string
	orphaned bool // stopped, as far as can be seen, without an end
}

// derive reads the fate of a job. The first case that matches is the answer,
// so that an end on record is never overruled by what is seen now.
func derive(l *look) fate {
	rec := l.record()
	if rec == nil {
		return fate{status: statusUnknown}
	}
	recorded, ok := rec.Text("status")
	if !ok {
		recorded = statusUnknown
	}
	spawn, _ := rec.Text("spawn_state")
	switch {
	case spawn == spawnFailed:
		return fate{status: recorded, terminal: true, outcome: sidecar.Failed, reason: spawnReason(rec)}
	case rec.Ended():
		return fate{status: recorded, terminal: true, outcome: sidecar.OutcomeOf(rec), reason: reasonOf(rec, recorded)}
	case l.live.Alive:
		return fate{status: statusRunning}
	case l.ending:
		return fate{status: statusEnding}
	case spawn == spawnPreparing:
		return fate{status: recorded}
	}
	return fate{status: statusExited, orphaned: true}
}

func reasonOf(rec *sidecar.Record, status string) string {
	if code, _ := rec.Text("reason_code"); code != "" {
		return code
	}
	if status == "completed_empty" {
		return reasonNoArtifacts
	}
	return ""
}

func spawnReason(rec *sidecar.Record) string {
	if code, _ := rec.Text("reason_code"); code != "" && rec.Ended() {
		return code
	}
	return reasonSpawnFailed
}

// identityWord is the public pid_identity of a finding, in the peer's words;
// the empty string is null.
func identityWord(f jobprobe.Finding) string {
	switch f {
	case jobprobe.IdentityConfirmed:
		return "confirmed"
	case jobprobe.IdentityNotRecorded:
		return "not_recorded"
	case jobprobe.IdentityUnusable:
		return "unusable"
	case jobprobe.DisappearedDuringProbe:
		return "gone"
	case jobprobe.PIDRecycled:
		return "recycled"
	case jobprobe.UnusablePID:
		return "unusable_pid"
	case jobprobe.PIDAbsent:
		return ""
	case jobprobe.NotProbed, jobprobe.AccessDenied, jobprobe.IdentityUnreadable,
		jobprobe.ProbeEnvironmentUnusable, jobprobe.ForeignHost, jobprobe.ForeignBoot,
		jobprobe.ForeignPIDNamespace, jobprobe.ForeignTimeNamespace, jobprobe.UnsupportedPlatform:
	}
	return "unreadable"
}

// deliveryState sums up a record's notify_delivery for a listing.
func deliveryState(rec *sidecar.Record) string {
	if rec == nil {
		return "none"
	}
	d, ok := rec.Object("notify_delivery")
	if !ok {
		return "none"
	}
	attempted, delivered := literal(d, "attempted", "true"), literal(d, "ok", "true")
	verified := !literal(d, "delivery_verified", "false")
	switch {
	case literal(d, "pending", "true"):
		return "pending"
	case attempted && d.Null("ok"):
		return "unknown"
	case delivered && verified:
		return "delivered"
	case delivered:
		return "delivered_unverified"
	case !attempted && d.Null("error"):
		return "none"
	case !verified:
		return "unknown"
	}
	return "failed"
}

// literal says whether a field holds exactly the given JSON literal.
func literal(rec *sidecar.Record, name, want string) bool {
	raw, ok := rec.Raw(name)
	return ok && string(raw) == want
}
