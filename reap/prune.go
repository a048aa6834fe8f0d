package reap

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// PruneOptions choose the jobs to be removed.
type PruneOptions struct {
	// OlderThan is the least time since the end of a job.
	OlderThan time.Duration
	// Keep is how many of the newest jobs stay, whatever their age.
	Keep int
	// DryRun removes nothing and says what would be.
	DryRun bool
	// Needed, if not nil, says of a job that its record must stay, and why.
	Needed func(id string) string
	// Progress, if not nil, is told how many jobs of how many are removed.
	Progress func(removed, all int)
}

// Pruned is the answer of Prune. Lists are newest first.
type Pruned struct {
	Removed []string `json:"removed"`
	// Kept are the jobs that are old enough and stay all the same: because a
	// process of theirs may live, somebody is still to be told, their record is
	// needed, or the system did not let them be removed.
	Kept   []Swept `json:"kept"`
	DryRun bool    `json:"dry_run"`
}

// Why an old job stays.
const (
	keptLive    = "process_alive"
	keptUnknown = "process_unknown"
	keptNotice  = "notice_pending"
)

const (
	pruneLock = "prune.lock"
	// trashDir, below the ledger's directory, holds what is being removed.
	trashDir = "trash"
	// pruneBatch is how many jobs are removed in one transaction of the ledger.
	pruneBatch = 256
)

// Prune removes ended jobs with their directories: never one without an end on
// record, or whose process is alive or, unless the process was seen to end, not
// known to be gone. What [Observer.Metrics] counts of them stays counted: they
// are entered in the ledger before they are removed, each directory vanishes in
// one step, and what a crash leaves is completed by the next Prune.
//
// A removed job is unknown from then on: to status and wait, to a late report,
// and to an admission that asks whether its calls were admitted before.
func (o Observer) Prune(ctx context.Context, opt PruneOptions) (Pruned, error) {
	out := Pruned{Removed: []string{}, Kept: []Swept{}, DryRun: opt.DryRun}
	l := o.ledger()
	if !opt.DryRun {
		unlock, err := l.LockShared(ctx, pruneLock)
		if err != nil {
			return out, err
		}
		defer unlock()
		if err := o.completePrune(ctx); err != nil {
			return out, err
		}
	}
	old, kept, err := o.prunable(ctx, opt)
	out.Kept = append(out.Kept, kept...)
	if err != nil {
		return out, err
	}
	if opt.DryRun {
		for i := range old {
			out.Removed = append(out.Removed, old[i].id)
		}
		return out, nil
	}
	all := len(old)
	for batch := range slices.Chunk(old, pruneBatch) {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		removed, refused, err := o.remove(context.WithoutCancel(ctx), batch)
		out.Removed, out.Kept = append(out.Removed, removed...), append(out.Kept, refused...)
		if err != nil {
			return out, err
		}
		if opt.Progress != nil {
			opt.Progress(len(out.Removed), all)
		}
	}
	return out, nil
}

// prunable returns the jobs that may be removed, and those that are old enough
// and stay.
func (o Observer) prunable(ctx context.Context, opt PruneOptions) (old []look, kept []Swept, err error) {
	ids, err := o.Store.IDs()
	if err != nil {
		return nil, nil, err
	}
	o.order(ids, len(ids))
	ids = ids[min(max(opt.Keep, 0), len(ids)):]
	looks := make([]look, len(ids))
	why := make([]string, len(ids))
	due := make([]bool, len(ids))
	before := o.time().Add(-opt.OlderThan)
	err = each(ctx, len(ids), func(i int) {
		looks[i] = look{id: ids[i], reading: o.Store.Read(ids[i])}
		if due[i] = looks[i].endedBefore(before); due[i] {
			why[i] = o.mustStay(&looks[i], opt)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	for i := range looks {
		switch {
		case !due[i]:
		case why[i] != "":
			kept = append(kept, Swept{ids[i], why[i]})
		default:
			old = append(old, looks[i])
		}
	}
	return old, kept, nil
}

// endedBefore says whether an end of that age is on record. One whose time
// cannot be read is of no age.
func (l *look) endedBefore(t time.Time) bool {
	rec := l.record()
	if l.reading.State != sidecar.OK || rec.RunID() != l.id || !rec.Ended() {
		return false
	}
	at, ok := sidecar.ParseTime(textOf(rec, "finished_at"))
	return ok && !at.After(t)
}

// mustStay is why an ended job is not removed, empty if nothing speaks for it.
func (o Observer) mustStay(l *look, opt PruneOptions) string {
	if opt.Needed != nil {
		if why := opt.Needed(l.id); why != "" {
			return why
		}
	}
	if sidecar.NoticePending(l.record()) {
		return keptNotice
	}
	o.look(l)
	switch l.live.Conclusion {
	case jobprobe.Alive:
		return keptLive
	case jobprobe.Unknown:
		// Whoever wrote these ends saw the process gone, or there was none.
		seen := []string{sidecar.SourceSupervisor, sidecar.SourceReaper, sidecar.SourceSpawn}
		if !slices.Contains(seen, textOf(l.record(), "terminal_source")) {
			return keptUnknown
		}
	case jobprobe.ProcessGone:
	}
	return ""
}

// remove removes jobs whose numbers the ledger has taken over.
func (o Observer) remove(ctx context.Context, jobs []look) (removed []string, kept []Swept, err error) {
	var ids []string
	for i := range jobs {
		ids = append(ids, jobs[i].id)
	}
	err = o.ledger().update(ctx, func(r *sidecar.Record) error {
		t := newTally()
		t.read(r)
		for i := range jobs {
			t.count(jobs[i].record(), 1)
		}
		t.write(r)
		r.Set(pruningName, sidecar.Text(strings.Join(ids, " ")))
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return o.discard(ctx, jobs)
}

// discard moves jobs out of the store that the ledger names, deletes them, and
// takes back the numbers of those that could not be moved.
func (o Observer) discard(ctx context.Context, jobs []look) (removed []string, kept []Swept, err error) {
	trash := filepath.Join(o.ledger().Dir, trashDir)
	if err := os.MkdirAll(trash, 0o700); err != nil {
		return nil, nil, err
	}
	var stayed []*sidecar.Record
	for i := range jobs {
		id := jobs[i].id
		err := os.Rename(filepath.Join(o.Store.Dir, id), filepath.Join(trash, id))
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			removed = append(removed, id)
		default:
			kept = append(kept, Swept{id, "io_error"})
			if rec := jobs[i].record(); rec != nil {
				stayed = append(stayed, rec)
			}
		}
	}
	// What comes back with a loss of power must not have been counted off.
	if err := o.Store.Sync(); err != nil {
		return removed, kept, err
	}
	err = o.ledger().update(ctx, func(r *sidecar.Record) error {
		t := newTally()
		t.read(r)
		for _, rec := range stayed {
			t.count(rec, -1)
		}
		t.write(r)
		r.Set(pruningName, sidecar.Text(""))
		return nil
	})
	if err != nil {
		return removed, kept, err
	}
	return removed, kept, os.RemoveAll(trash)
}

// completePrune does what a prune left undone that was killed.
func (o Observer) completePrune(ctx context.Context) error {
	l := o.ledger()
	rec, err := l.read()
	if err != nil {
		return err
	}
	var jobs []look
	for _, id := range pruning(rec) {
		if sidecar.ValidRunID(id) {
			jobs = append(jobs, look{id: id, reading: o.Store.Read(id)})
		}
	}
	if len(jobs) == 0 {
		return os.RemoveAll(filepath.Join(l.Dir, trashDir))
	}
	_, _, err = o.discard(ctx, jobs)
	return err
}
