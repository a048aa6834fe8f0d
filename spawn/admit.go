package spawn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// A Batch is what an admission came to.
type Batch struct {
	Report
	// Repeated says that these calls had been admitted before: the slots are
	// those of then, nothing was decided, and nobody was told.
	Repeated bool
	// Panicked is what OnSpawnOutcome panicked with, nil if it did not.
	Panicked any
}

// Admit asks a selector which calls of a parent become jobs, starts these, and
// tells the selector what became of each before it returns. Calls that fill no
// slot of the batch, and those whose outcome is [DegradedToTool], are the
// caller's to run in place.
//
// First all jobs are recorded; nothing runs before each of them is. If the store
// refuses one, those before it are closed, every accepted slot is reported as
// failed, and the store's error is returned as it was, so that the caller may
// admit, and the selector decide, again. From then on each job starts or fails
// by itself, and tells so in its slot alone; so does one whose claim is held.
//
// Calls of which any was committed before, as after a crash of the admitting
// program, are not decided again: see [Batch]. Of several admissions of the
// same calls at a time one starts jobs.
func Admit(ctx context.Context, store sidecar.Store, sel Selector, parent string, calls []ToolCall) (Batch, error) {
	a, err := newAdmission(store, parent, calls)
	if err != nil {
		return Batch{}, err
	}
	prior, err := Children(a.obs.Store, parent)
	if err != nil {
		return Batch{}, err
	}
	if prior = a.ofBatch(prior); len(prior) > 0 {
		return Batch{Report: Report{parent, prior}, Repeated: true}, nil
	}
	decisions, err := sel.Decide(ctx, parent, calls)
	if err != nil {
		return Batch{}, err
	}
	if !a.accept(decisions) {
		return a.settled(ctx, sel), nil
	}
	// Whoever waits to admit the same calls waits for the lock.
	unlock, err := claimsOf(a.obs.Store).LockShared(ctx, a.lockName())
	if err != nil {
		a.fail(err)
		return a.settled(ctx, sel), err
	}
	defer unlock()
	defer a.obs.Flush(context.WithoutCancel(ctx))
	err = a.reserve(ctx)
	if err == nil {
		a.launch(ctx)
	}
	return a.settled(ctx, sel), err
}

// admission is one Admit in progress.
type admission struct {
	obs    reap.Observer
	parent string
	calls  map[string]int // positions by id
	slots  []Slot
	jobs   []*Request // of the slots; nil for a slot that starts none
	// reserved are the jobs that are recorded, nil for a slot without.
	reserved []*reservation
}

func newAdmission(store sidecar.Store, parent string, calls []ToolCall) (*admission, error) {
	dir, err := filepath.Abs(store.Dir)
	if err != nil {
		return nil, err
	}
	store.Dir = dir
	a := &admission{obs: observe(store), parent: parent, calls: map[string]int{}}
	for i, call := range calls {
		if _, again := a.calls[call.ID]; again || call.ID == "" {
			return nil, fmt.Errorf("%w: %q", ErrCallID, call.ID)
		}
		a.calls[call.ID] = i
		a.slots = append(a.slots, Slot{SpawnIndex: i, ToolCallID: call.ID})
		if call.Done {
			a.slots[i].Outcome = DegradedToTool
		}
	}
	return a, nil
}

// ofBatch keeps the slots of this batch's calls.
func (a *admission) ofBatch(slots []Slot) (own []Slot) {
	for _, slot := range slots {
		if _, ok := a.calls[slot.ToolCallID]; ok {
			own = append(own, slot)
		}
	}
	return own
}

// accept makes slots of the decisions to spawn and reports whether any is to
// start a job. If their number is wrong nobody can say which call is whose: all
// calls run in place.
func (a *admission) accept(decisions []Decision) bool {
	spawning, accepted := false, false
	for _, d := range decisions {
		spawning = spawning || d.Job != nil
	}
	all := a.slots
	a.slots = nil
	for i, slot := range all {
		var job *Request
		switch {
		case !spawning:
			continue
		case len(decisions) != len(all):
			slot.Outcome = DegradedToTool
		case decisions[i].Job == nil:
			continue
		case slot.Outcome == Unsettled:
			own := *decisions[i].Job
			own.Parent, own.slot = a.parent, &slot
			job, accepted = &own, true
		}
		a.slots, a.jobs = append(a.slots, slot), append(a.jobs, job)
	}
	return accepted
}

// fail settles every slot that is not yet settled or is not yet running.
func (a *admission) fail(err error) {
	for i := range a.slots {
		if a.jobs[i] != nil && a.slots[i].Outcome == Unsettled {
			a.slots[i].Outcome, a.slots[i].Err = Failed, err
		}
	}
}

// settled tells the selector and returns the batch.
func (a *admission) settled(ctx context.Context, sel Selector) Batch {
	b := Batch{Report: Report{a.parent, a.slots}}
	b.Panicked = notify(context.WithoutCancel(ctx), sel, b.Report)
	return b
}

// lockName is one of 256 locks, by the parent: enough for parents not to wait
// for each other, and no more files however many parents there are.
func (a *admission) lockName() string {
	sum := sha256.Sum256([]byte(a.parent))
	return fmt.Sprintf("batch-%02x", sum[0])
}

// reserve records the jobs of all slots, or of none. A slot whose claim is
// held fails alone.
func (a *admission) reserve(ctx context.Context) error {
	overtaken, err := a.overtaken(ctx)
	if err == nil && !overtaken {
		for _, job := range a.jobs {
			if job != nil && err == nil {
				err = job.check()
			}
		}
	}
	a.reserved = make([]*reservation, len(a.slots))
	for i, job := range a.jobs {
		slot := &a.slots[i]
		switch {
		case err != nil || job == nil:
			continue
		case overtaken:
			slot.Outcome, a.jobs[i] = Superseded, nil
			continue
		}
		var r *reservation
		if r, err = admit(ctx, job.observer(a.obs), job); err == nil {
			slot.RunID, a.reserved[i] = r.id, r
		}
		if _, held := errors.AsType[*ClaimHeldError](err); held {
			slot.Outcome, slot.Err = Failed, err
			err = nil
		}
	}
	if err != nil {
		for i, r := range a.reserved {
			if r != nil {
				// Refused, it stays "preparing", which this process never starts.
				_ = r.withdraw(context.WithoutCancel(ctx), a.jobs[i].observer(a.obs), err)
			}
		}
		a.fail(err)
	}
	return err
}

// overtaken reports whether another admission has started jobs for these calls
// since they were looked for. One that lost its way before it started them has
// left records that nobody starts any more; they are closed.
func (a *admission) overtaken(ctx context.Context) (bool, error) {
	family, err := children(a.obs.Store, a.parent)
	if err != nil {
		return false, err
	}
	found := false
	for _, c := range family {
		if _, ok := a.calls[c.ToolCallID]; !ok {
			continue
		}
		if c.state == "preparing" {
			failure := sidecar.SpawnFailure{Reason: "its admission was not completed", At: time.Now()}
			_, err := a.obs.SpawnFailed(ctx, c.RunID, failure)
			if err != nil && !errors.Is(err, sidecar.ErrNotPreparing) {
				return false, err
			}
			found = found || err != nil // it has started meanwhile
		}
		found = found || c.state == "started"
	}
	return found, nil
}

// launch starts the recorded jobs, all at once.
func (a *admission) launch(ctx context.Context) {
	var wg sync.WaitGroup
	for i, r := range a.reserved {
		if r == nil {
			continue
		}
		job, slot := a.jobs[i], &a.slots[i]
		wg.Go(func() {
			h, err := r.launch(ctx, job.observer(a.obs), job)
			if err != nil {
				slot.Outcome, slot.Err = Failed, err
				return
			}
			slot.Outcome, slot.Identity = Committed, h.Identity
		})
	}
	wg.Wait()
}
