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
	// Progress, if not nil, is told how many jobs of how many are removed, once
	// for some hundred.
	Progress func(removed, all int)
}

// Pruned is the answer of Prune. Lists are newest first, after what an earlier
// Prune has left.
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
// record, or of which a process is alive or, unless the process was seen to end,
// not known to be gone. What [Observer.Metrics] counts of them stays counted: they
// are entered in the ledger before they are removed, and each directory vanishes
// in one step. What a crash leaves is completed by the next Prune, whatever its
// options, and told as removed by it. Of a job whose directory is a symbolic link
// the link is removed.
//
// A removed job is unknown from then on: to status and wait, to a late report,
// and to an admission that asks whether its calls were admitted before. With an
// error the answer says what was removed all the same.
func (o Observer) Prune(ctx context.Context, opt PruneOptions) (out Pruned, err error) {
	out = Pruned{Removed: []string{}, Kept: []Swept{}, DryRun: opt.DryRun}
	if _, err := os.Stat(filepath.Clean(o.Store.Dir)); errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if !opt.DryRun {
		unlock, err := o.ledger().LockShared(ctx, pruneLock)
		if err != nil {
			return out, err
		}
		defer unlock()
		if err := o.discard(ctx, &out); err != nil {
			return out, err
		}
	}
	old, kept, err := o.prunable(ctx, opt)
	if err != nil {
		return out, err
	}
	for i := range old {
		if opt.DryRun {
			out.Removed = append(out.Removed, old[i].id)
		}
	}
	if !opt.DryRun {
		err = o.removeAll(ctx, old, opt, &out)
	}
	out.Kept = append(out.Kept, kept...)
	return out, err
}

// removeAll removes jobs, many at a time.
func (o Observer) removeAll(ctx context.Context, old []look, opt PruneOptions, out *Pruned) error {
	before := len(out.Removed)
	for batch := range slices.Chunk(old, pruneBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := o.remove(context.WithoutCancel(ctx), batch, out); err != nil {
			return err
		}
		if opt.Progress != nil {
			opt.Progress(len(out.Removed)-before, len(old))
		}
	}
	// What could not be deleted is no job any more, and must not keep others.
	return o.emptyTrash()
}

func (o Observer) trash() string { return filepath.Join(o.ledger().Dir, trashDir) }

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
	before := o.time().Add(-max(opt.OlderThan, 0)) // no end is of the future
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
	// Others of its processes were seen, or nobody has looked.
	if h := sidecar.HistoryOf(l.record()); h.Kept && h.Ownership == sidecar.CleanupPending {
		switch o.survivors(l) {
		case sidecar.RemainsSome:
			return keptLive
		case sidecar.RemainsUnknown:
			return keptUnknown
		case sidecar.RemainsNone:
		}
	}
	o.look(l)
	switch l.live.Conclusion {
	case jobprobe.Alive:
		return keptLive
	case jobprobe.Unknown:
		if !sawGone(l.record()) {
			return keptUnknown
		}
	case jobprobe.ProcessGone:
	}
	return ""
}

// remove counts jobs in the ledger, and then removes what the ledger names.
func (o Observer) remove(ctx context.Context, jobs []look, out *Pruned) error {
	err := o.ledger().update(ctx, func(r *sidecar.Record) error {
		t, ids := newTally(), pruning(r)
		t.read(r)
		for i := range jobs {
			if !slices.Contains(ids, jobs[i].id) {
				t.count(jobs[i].record())
				ids = append(ids, jobs[i].id)
			}
		}
		t.write(r)
		r.Set(pruningName, sidecar.Text(strings.Join(ids, " ")))
		return nil
	})
	if err != nil {
		return err
	}
	return o.discard(ctx, out)
}

// discard removes the jobs that the ledger has counted: moves them out of the
// store, and deletes them. One that cannot be moved stays named in the ledger, so
// that it is not counted twice, and is tried again by the next Prune.
func (o Observer) discard(ctx context.Context, out *Pruned) error {
	rec, err := o.ledger().read()
	if err != nil {
		return err
	}
	ids := pruning(rec)
	if len(ids) == 0 {
		_ = o.emptyTrash() // told at the end
		return nil
	}
	if err := os.MkdirAll(o.trash(), 0o700); err != nil {
		return err
	}
	out.Kept = []Swept{}
	var stuck []string
	for _, id := range ids {
		err := os.Rename(filepath.Join(o.Store.Dir, id), filepath.Join(o.trash(), id))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			out.Removed = append(out.Removed, id)
			continue
		}
		stuck = append(stuck, id)
		out.Kept = append(out.Kept, Swept{id, sidecar.IOError.String()})
	}
	// What comes back with a loss of power must still be named.
	if err := o.Store.Sync(); err != nil {
		return err
	}
	err = o.ledger().update(ctx, func(r *sidecar.Record) error {
		r.Set(pruningName, sidecar.Text(strings.Join(stuck, " ")))
		return nil
	})
	if err == nil {
		_ = o.emptyTrash()
	}
	return err
}

// emptyTrash deletes what was moved out of the store, as far as it can be, by
// name: os.RemoveAll deletes by handle, which not all that calls itself Windows
// can do.
func (o Observer) emptyTrash() (first error) {
	var paths []string
	note := func(err error) {
		if first == nil && !errors.Is(err, fs.ErrNotExist) {
			first = err
		}
	}
	_ = filepath.WalkDir(o.trash(), func(path string, _ fs.DirEntry, err error) error {
		if note(err); err == nil {
			paths = append(paths, path)
		}
		return nil
	})
	for _, path := range slices.Backward(paths) {
		note(os.Remove(path))
	}
	return first
}

// sawGone says whether whoever wrote the end saw the process gone, or there was
// none.
func sawGone(rec *sidecar.Record) bool {
	seen := []string{sidecar.SourceSupervisor, sidecar.SourceReaper, sidecar.SourceSpawn}
	return slices.Contains(seen, textOf(rec, "terminal_source"))
}
