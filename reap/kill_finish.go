package reap

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

const (
	// maxRounds bounds how often SIGKILL is sent to a group that goes on to
	// start processes.
	maxRounds = 16
	// finishPause is how often a process that cannot be pinned is asked for.
	finishPause = 20 * time.Millisecond
	// secondLooks bounds how often a process is looked into again that could
	// not be, with finishPause in between.
	secondLooks = 5
)

// finish waits for the group to end, sends SIGKILL to what is left of it after
// the grace, and tells in the reply what was seen.
func (k *killing) finish(ctx context.Context) {
	k.reply.Cleanup = k.await(ctx, k.opt.Grace)
	k.reach(stepGrace)
	if k.reply.Cleanup != sidecar.CleanupTimedOut || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k.opt.Verify)
	defer cancel()
	for range maxRounds {
		// The group is identified anew: the grace was long enough for all of
		// it to end and for its number to be taken.
		if k.aim() != "" {
			break
		}
		k.reach(stepAimed)
		if k.escalate() {
			k.reply.Escalated = true
		}
		if k.reply.Cleanup = k.settle(ctx); k.reply.Cleanup != sidecar.CleanupTimedOut || ctx.Err() != nil {
			return
		}
	}
	k.reply.Cleanup = k.await(ctx, k.opt.Verify)
}

// escalate sends SIGKILL to what was aimed at, and says whether it was sent.
// The leader may have ended by now, as far as a handle names the group.
func (t *target) escalate() bool {
	if t.head != nil {
		return t.head.SignalGroup(syscall.SIGKILL) == nil
	}
	return t.fire(syscall.SIGKILL) == nil
}

// settle waits until those have ended that were shot at, and says timed_out if
// others live then.
func (k *killing) settle(ctx context.Context) sidecar.Cleanup {
	ids := k.aimed()
	if !allEnded(ctx, ids) {
		return sidecar.CleanupTimedOut
	}
	ids, complete := k.left()
	if len(ids) == 0 {
		return seen(complete)
	}
	return sidecar.CleanupTimedOut
}

// aimed returns the processes that the last shot was for.
func (t *target) aimed() (ids []jobprobe.Identity) {
	if t.whole {
		ids, _ = t.left()
	}
	for _, m := range t.marks {
		ids = append(ids, m.id)
	}
	return ids
}

// await waits at most that long for the last member of the group to end.
func (t *target) await(ctx context.Context, most time.Duration) sidecar.Cleanup {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		members, complete := t.left()
		if len(members) == 0 {
			return seen(complete)
		}
		if !allEnded(ctx, members) {
			return sidecar.CleanupTimedOut
		}
	}
}

// seen is what an empty group proves.
func seen(complete bool) sidecar.Cleanup {
	if complete {
		return sidecar.CleanupCompleted
	}
	return sidecar.CleanupUnknown
}

// left returns the identities of the live members. Without groups the leader
// is all that can be waited for, and its end does not prove that of others.
func (t *target) left() (ids []jobprobe.Identity, complete bool) {
	members, complete := t.group()
	for i := range members {
		ids = append(ids, members[i].Identity)
	}
	if len(ids) == 0 && !complete && t.leads() {
		ids = append(ids, t.live)
	}
	return ids, complete
}

// allEnded waits until every one of these processes has ended, and says whether
// that was before the context.
func allEnded(ctx context.Context, ids []jobprobe.Identity) bool {
	var waits sync.WaitGroup
	for _, id := range ids {
		waits.Go(func() { waitEnd(ctx, id) })
	}
	waits.Wait()
	return ctx.Err() == nil
}

// waitEnd waits for one process: without polling, where it can be pinned.
func waitEnd(ctx context.Context, id jobprobe.Identity) {
	p, err := jobprobe.Open(id)
	if err == nil {
		defer p.Close()
		if _, err := p.Wait(ctx); err == nil || ctx.Err() != nil {
			return
		}
	}
	for jobprobe.Probe(id).Conclusion != jobprobe.ProcessGone {
		select {
		case <-ctx.Done():
			return
		case <-time.After(finishPause):
		}
	}
}
