package reap

import (
	"context"

	"github.com/jobprobe/jobprobe/sidecar"
)

// Report is the end of a run as the run itself tells it.
type Report struct {
	// Status is the run's own word, such as "completed" or "timed_out".
	Status string
	// ReasonCode explains it; empty if there is none.
	ReasonCode string
}

// MarkTerminal records the end that a run reports of itself and returns the
// record as it then stands. The first end wins: a report that comes second
// is kept as late_report and changes nothing else. The error is a
// *sidecar.RefusedError if the record could not be changed, and then nothing
// was written.
func (o Observer) MarkTerminal(ctx context.Context, id string, r Report) (sidecar.Transition, error) {
	return o.Store.EndByHook(ctx, id, sidecar.HookEnd{
		Status:     r.Status,
		ReasonCode: r.ReasonCode,
		At:         o.time(),
	})
}
