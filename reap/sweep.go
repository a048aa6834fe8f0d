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
	// Unresolved are the jobs without an end of which nothing can be proved.
	Unresolved []Swept `json:"unresolved"`
	// Unusable are the jobs whose record cannot be used.
	Unusable []Swept `json:"unusable"`
	DryRun   bool    `json:"dry_run"`
}

// Swept is one job of a sweep, and why it stands where it does: the finding
// of the probe, a sidecar.Refusal, or a sidecar.State.
type Swept struct {
	RunID  string `json:"run_id"`
	Reason string `json:"reason"`
}

// Sweep observes every job once, so that those whose process is conclusively
// gone are ended although nobody asks for them. A dry run writes nothing and
// says what would be ended.
func (o Observer) Sweep(ctx context.Context, dryRun bool) (Sweep, error) {
	s := Sweep{Ended: []Swept{}, Refused: []Swept{}, Unresolved: []Swept{}, Unusable: []Swept{}, DryRun: dryRun}
	ids, err := o.Store.IDs()
	if err != nil {
		return s, err
	}
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		l, err := o.examine(id)
		if err != nil || l.reading.State == sidecar.Absent {
			continue
		}
		s.Observed++
		swept := Swept{id, l.live.Finding.String()}
		due := l.due != nothingDue
		if !dryRun {
			o.settle(ctx, &l)
			due = due || l.won
		}
		switch {
		case l.record() == nil:
			s.Unusable = append(s.Unusable, Swept{id, l.reading.State.String()})
		case l.refused != nil:
			s.Refused = append(s.Refused, Swept{id, *refusal(l.refused)})
		case due && (dryRun || l.won):
			s.Ended = append(s.Ended, swept)
		case !l.record().Ended() && l.live.Conclusion == jobprobe.Unknown:
			s.Unresolved = append(s.Unresolved, swept)
		}
	}
	return s, nil
}
