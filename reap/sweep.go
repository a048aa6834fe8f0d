package reap

import (
	"context"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Sweep is the answer of one pass over a store.
type Sweep struct {
	// Observed counts the jobs that were looked at.
	Observed int `json:"observed"`
	// Ended are the jobs whose end this pass has written or, in a dry run,
	// would have.
	Ended []Swept `json:"ended"`
	// Refused are the jobs whose end was due and could not be written.
	Refused []Swept `json:"refused"`
	// Unresolved are the jobs without an end of which nothing can be proved: of
	// their process, or of the supervisor that may still report for it.
	Unresolved []Swept `json:"unresolved"`
	// Unusable are the jobs whose record cannot be used.
	Unusable []Swept `json:"unusable"`
	DryRun   bool    `json:"dry_run"`
}

// Swept is one job of a sweep, and why it stands where it does: the finding
// of the probe, spawn_abandoned, a sidecar.Refusal, or a sidecar.State.
type Swept struct {
	RunID  string `json:"run_id"`
	Reason string `json:"reason"`
}

// Sweep observes every job once, so that those whose process is conclusively
// gone are ended although nobody asks for them. A dry run writes nothing and
// says what would be ended. Jobs are observed several at a time and answered in
// the order of a listing. The error is the store's, or the context's, and then
// the answer is empty.
func (o Observer) Sweep(ctx context.Context, dryRun bool) (Sweep, error) {
	s := Sweep{Ended: []Swept{}, Refused: []Swept{}, Unresolved: []Swept{}, Unusable: []Swept{}, DryRun: dryRun}
	ids, err := o.Store.IDs()
	if err != nil {
		return s, err
	}
	looks := make([]look, len(ids))
	err = each(ctx, len(ids), func(i int) {
		// IDs returns valid ids only.
		if looks[i], _ = o.examine(ids[i]); !dryRun {
			o.settle(ctx, &looks[i])
		}
		if o.Looked != nil {
			o.Looked()
		}
	})
	if err != nil {
		return s, err
	}
	for i := range looks {
		s.add(&looks[i])
	}
	return s, nil
}

// add sorts one look into the answer. A job that was removed meanwhile is none.
func (s *Sweep) add(l *look) {
	if l.reading.State == sidecar.Absent {
		return
	}
	s.Observed++
	swept := Swept{l.id, l.live.Finding.String()}
	if l.due == abandonDue {
		swept.Reason = reasonAbandoned
	}
	f := derive(l)
	switch {
	case l.record() == nil:
		s.Unusable = append(s.Unusable, Swept{l.id, l.reading.State.String()})
	case l.won, s.DryRun && l.due != nothingDue:
		s.Ended = append(s.Ended, swept)
	case l.refused != nil:
		s.Refused = append(s.Refused, Swept{l.id, *refusal(l.refused)})
	case !f.terminal && (f.orphaned || l.live.Conclusion == jobprobe.Unknown):
		s.Unresolved = append(s.Unresolved, swept)
	}
}
