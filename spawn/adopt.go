package spawn

import (
	"context"
	"errors"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
)

// waitWindow is the longest that one look at a job is waited for, in seconds.
const waitWindow = 600

// A Live is a job that was started and has no recorded end, with its process
// pinned: what is waited for and signalled is that process, whatever becomes of
// its number.
type Live struct {
	// Job is what was seen when it was adopted.
	Job reap.Job
	// Process is nil if the process has gone and its supervisor, which lives,
	// has yet to say how.
	Process *jobprobe.Process

	obs reap.Observer
}

// Adopt gives a program that was started again the live jobs of its store,
// newest first. Jobs that are conclusively gone are ended meanwhile. The others
// without an end, of which nobody here can tell whether they live, or which
// somebody is just starting, are the second list: nothing may be concluded of
// them. Records that cannot be used are in neither.
//
// A program that admits jobs first adopts, and seeds what it has reserved from
// [Children] and [Claims].
func Adopt(ctx context.Context, obs reap.Observer) (live []*Live, open []reap.Job, err error) {
	ids, err := obs.Store.IDs()
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		l, err := adopt(ctx, obs, id)
		switch {
		case err != nil:
			for _, l := range live {
				l.Close()
			}
			return nil, nil, err
		case l.Job.Terminal || !l.Job.Known:
		case l.Process != nil || l.Job.Status == statusEnding:
			live = append(live, l)
		default:
			open = append(open, l.Job)
		}
	}
	return live, open, nil
}

// statusEnding is the status of a job whose supervisor has yet to tell its end.
const statusEnding = "ending"

// adopt observes a job and pins it. One that exits in between is looked at once
// more: then it is ended, or ending.
func adopt(ctx context.Context, obs reap.Observer, id string) (*Live, error) {
	l := &Live{obs: obs}
	for {
		var err error
		if l.Job, err = obs.Status(ctx, id); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if l.Job.Finding != jobprobe.IdentityConfirmed.String() {
			return l, nil
		}
		rec := obs.Store.Read(id).Record
		if rec == nil {
			continue // changed meanwhile
		}
		raw, _ := rec.Raw("process_identity")
		who, err := jobprobe.ParseIdentity(raw)
		if err != nil {
			return l, nil // confirmed by other means, and nothing to pin it by
		}
		l.Process, err = jobprobe.Open(who)
		if !errors.Is(err, jobprobe.ErrNoProcess) {
			return l, nil // a process that cannot be pinned from here stays open
		}
	}
}

// Wait returns how the job ended, once that is on record: by its supervisor,
// or, if there is none any more, by this look at it. A job that is then not
// Terminal is one that waiting cannot settle. The error is the context's.
func (l *Live) Wait(ctx context.Context) (reap.Job, error) {
	if l.Process != nil {
		if _, err := l.Process.Wait(ctx); err != nil && ctx.Err() != nil {
			return reap.Job{}, ctx.Err()
		}
	}
	id := l.Job.RunID
	for {
		w, err := l.obs.Wait(ctx, []string{id}, reap.WaitOptions{MaxWait: waitWindow, Poll: 1})
		if err != nil {
			return reap.Job{}, err
		}
		if !w.TimedOut {
			return l.obs.Status(ctx, id)
		}
	}
}

// Close gives up the pin. The job goes on.
func (l *Live) Close() error {
	if l.Process == nil {
		return nil
	}
	return l.Process.Close()
}
