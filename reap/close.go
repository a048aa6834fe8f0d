package reap

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Errors that refuse a Close. Nothing is written.
var (
	ErrNoAttestation = errors.New("reap: an attestation says what its author knows; it must not be empty")
	ErrStillAlive    = errors.New("reap: the process is alive")
	ErrEnded         = errors.New("reap: the job has ended already")
)

// maxAttestation bounds the text of an attestation, in bytes.
const maxAttestation = 4096

// Close ends a job on an operator's word: one that will be unknown for ever,
// because its pod was deleted or its host scrapped. The outcome is
// indeterminate, the source operator_attested, the time an upper bound, and
// the attestation is kept as evidence.
//
// It is refused with ErrStillAlive while a live process holds the recorded
// number and nothing contradicts it being the job's, and with ErrEnded for a
// job that has ended, if only by this observation of it.
func (o Observer) Close(ctx context.Context, id, attestation string) (sidecar.Transition, error) {
	attestation = strings.TrimSpace(attestation)
	if attestation == "" {
		return sidecar.Transition{}, ErrNoAttestation
	}
	if len(attestation) > maxAttestation {
		return sidecar.Transition{}, fmt.Errorf("reap: an attestation has at most %d bytes", maxAttestation)
	}
	l, err := o.observe(ctx, id)
	if err != nil {
		return sidecar.Transition{}, err
	}
	switch rec := l.record(); {
	case rec != nil && (rec.Ended() || derive(&l).terminal):
		return sidecar.Transition{}, ErrEnded
	case l.ending:
		return sidecar.Transition{}, fmt.Errorf("%w: its supervisor is there to report", ErrStillAlive)
	case l.live.Conclusion == jobprobe.Alive:
		return sidecar.Transition{}, fmt.Errorf("%w (%s)", ErrStillAlive, l.live.Finding)
	case l.refused != nil:
		return sidecar.Transition{}, l.refused
	}
	got, err := o.end(ctx, id, l.reading, func(owed bool) (sidecar.Transition, error) {
		return o.Store.Attest(ctx, id, sidecar.Attestation{Text: attestation, At: o.time(), NoticeOwed: owed})
	})
	if err == nil && !got.Won {
		err = ErrEnded
	}
	return got, err
}
