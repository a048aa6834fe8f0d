package reap

import (
	"context"

	"github.com/jobprobe/jobprobe/sidecar"
)

// Warnings about a job, for whoever decides what to do next.
const (
	// WarnRecovery: the job is over and nobody reported how it came out. It
	// may have done its work: look before it is tried again.
	WarnRecovery = "recovery_needed"
	// WarnDamaged: a part of the job's history could not be read.
	WarnDamaged = "history_damaged"
)

// A Turn is one entry of a job's history.
type Turn struct {
	At        *string           `json:"at"` // null if not recorded
	State     *string           `json:"state"`
	Cleanup   sidecar.Cleanup   `json:"cleanup"`
	Ownership sidecar.Ownership `json:"ownership"`
	Reason    *string           `json:"reason"`
}

// History is what is known of the life of one job: where it stands, how it got
// there, and what was seen of its processes. It holds no process numbers, no
// command line, and no words of the job.
type History struct {
	RunID       string `json:"run_id"`
	Known       bool   `json:"known"`
	RecordState string `json:"record_state"`
	// State is null for a job that has not started. The others are those of
	// sidecar.Turn; see there.
	State     *string           `json:"state"`
	Cleanup   sidecar.Cleanup   `json:"cleanup"`
	Ownership sidecar.Ownership `json:"ownership"`
	Reason    *string           `json:"reason"`
	Terminal  bool              `json:"terminal"`
	Outcome   *string           `json:"outcome"`
	// LivenessConclusion is what this look saw of the recorded process.
	LivenessConclusion string `json:"liveness_conclusion"`
	// Recorded says that the record keeps a history. That of another program
	// keeps none: then State is what its end implies, and what was seen of its
	// processes is not on record.
	Recorded bool `json:"recorded"`
	// History is oldest first. Dropped counts entries that gave way to newer
	// ones, Damaged what could not be read.
	History []Turn `json:"history"`
	Dropped int64  `json:"dropped"`
	Damaged int64  `json:"damaged"`
	// Warnings are of the constants of this package.
	Warnings []string `json:"warnings"`
	// Refused is as in Job.
	Refused *string `json:"refused"`
}

// History observes one job, as [Observer.Status] does, and tells its life. A
// job that is over, of whose processes not all were seen gone, is looked at
// once more, and what is seen is recorded. The only error is sidecar.ErrRunID.
func (o Observer) History(ctx context.Context, id string) (History, error) {
	l, err := o.observe(ctx, id)
	if err != nil {
		return History{}, err
	}
	o.look(&l)
	f := derive(&l)
	h := sidecar.HistoryOf(l.fields())
	if f.terminal && h.Ownership != sidecar.CleanupConfirmed && l.record().RunID() == id {
		h = o.prove(ctx, &l, h)
	}
	out := History{
		RunID: id, Known: l.reading.State == sidecar.OK, RecordState: l.reading.State.String(),
		State: phaseText(h.Phase), Cleanup: h.Cleanup, Ownership: h.Ownership, Reason: causeText(h.Cause),
		Terminal: f.terminal, Outcome: orNull(f.outcome),
		LivenessConclusion: l.live.Conclusion.String(),
		Recorded:           h.Kept, History: []Turn{}, Dropped: h.Dropped, Damaged: h.Damaged,
		Warnings: warnings(&f), Refused: refusal(l.refused),
	}
	for _, t := range h.Turns {
		at := ""
		if !t.At.IsZero() {
			at = sidecar.FormatTime(t.At)
		}
		out.History = append(out.History, Turn{orNull(at), phaseText(t.Phase), t.Cleanup, t.Ownership, causeText(t.Cause)})
	}
	if h.Damaged > 0 {
		out.Warnings = append(out.Warnings, WarnDamaged)
	}
	return out, nil
}

// prove looks for what is left of a job that has ended, and records it where
// that is news.
func (o Observer) prove(ctx context.Context, l *look, h sidecar.History) sidecar.History {
	left := o.survivors(l)
	seen := h.Seen(left)
	if seen == h.Turn || !h.Kept {
		h.Turn = seen
		return h
	}
	got, err := o.Store.Prove(ctx, l.id, sidecar.Proof{Left: left, At: o.time()})
	if err != nil {
		l.refused = err
		h.Turn = seen
		return h
	}
	l.reading.Record = got.Record
	return sidecar.HistoryOf(got.Record)
}

func phaseText(p sidecar.Phase) *string {
	if p == sidecar.PhaseNone {
		return nil
	}
	return orNull(p.String())
}

func causeText(c sidecar.Cause) *string {
	if c == sidecar.CauseNone {
		return nil
	}
	return orNull(c.String())
}

// warnings of an answer. Only an end that nobody reported has an indeterminate
// outcome.
func warnings(f *fate) []string {
	if f.outcome == sidecar.Indeterminate {
		return []string{WarnRecovery}
	}
	return []string{}
}
