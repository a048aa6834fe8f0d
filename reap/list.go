package reap

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe/sidecar"
)

// Row is one job of a listing; its fields are those of [Job].
type Row struct {
	Brief
	SpawnState          jsontext.Value `json:"spawn_state"`
	SubmittedAt         jsontext.Value `json:"submitted_at"`
	FinishedAt          jsontext.Value `json:"finished_at"`
	FinishedAtPrecision jsontext.Value `json:"finished_at_precision"`
	TerminalSource      jsontext.Value `json:"terminal_source"`
	RecordState         string         `json:"record_state"`
	// PersistenceDegradedReason is what the run itself said of its store.
	PersistenceDegradedReason jsontext.Value `json:"persistence_degraded_reason"`
	// NotifyDeliveryState is none, pending, unknown, delivered,
	// delivered_unverified or failed.
	NotifyDeliveryState string         `json:"notify_delivery_state"`
	ExitCode            jsontext.Value `json:"exit_code"`
	Signal              jsontext.Value `json:"signal"`
	// Refused is as in Job.
	Refused *string `json:"refused"`
	// Warnings are as in Job, but for WarnDamaged: histories are not read.
	Warnings []string `json:"warnings"`
}

// ListOptions chooses the jobs of a listing.
type ListOptions struct {
	// Limit is the greatest number of rows; 0 is all.
	Limit int
	// Status keeps only jobs of exactly this derived status; empty is any.
	Status string
}

// Listing is the answer of List, newest job first.
type Listing struct {
	Jobs []Row `json:"jobs"`
	// Truncated says that there are more jobs than Limit.
	Truncated bool `json:"truncated"`
}

// List observes the jobs of the store, as Status does each. A damaged record
// is one row and never fails the listing; a store that cannot be read does,
// and a store that does not exist has no jobs.
//
// A cut listing observes no more jobs than it needs to fill itself, except
// for a filter, which must look at each job until enough have matched.
func (o Observer) List(ctx context.Context, opt ListOptions) (Listing, error) {
	ids, err := o.Store.IDs()
	if err != nil {
		return Listing{}, err
	}
	needed := len(ids)
	if opt.Limit > 0 && opt.Status == "" {
		needed = min(needed, opt.Limit)
	}
	o.order(ids, needed)
	out := Listing{Jobs: []Row{}}
	for len(ids) > 0 {
		n := len(ids)
		if opt.Limit > 0 {
			if len(out.Jobs) >= opt.Limit && opt.Status == "" {
				out.Truncated = true
				break
			}
			n = min(n, max(opt.Limit, 64))
			if opt.Status == "" {
				n = min(n, opt.Limit-len(out.Jobs))
			}
		}
		rows, err := o.rows(ctx, ids[:n])
		if err != nil {
			return Listing{}, err
		}
		for _, row := range rows {
			if opt.Status != "" && row.Status != opt.Status {
				continue
			}
			if opt.Limit > 0 && len(out.Jobs) == opt.Limit {
				out.Truncated = true
				return out, nil
			}
			out.Jobs = append(out.Jobs, row)
		}
		ids = ids[n:]
	}
	return out, nil
}

// order puts the jobs of each second, which their ids leave unordered, into the
// order in which they were submitted, newest first, as far as they are needed.
func (o Observer) order(ids []string, needed int) {
	for from, to := 0, 0; from < needed; from = to {
		second, _, _ := strings.Cut(ids[from], "-")
		for to = from + 1; to < len(ids) && strings.HasPrefix(ids[to], second+"-"); to++ {
		}
		if to-from == 1 {
			continue
		}
		submitted := make(map[string]time.Time, to-from)
		for _, id := range ids[from:to] {
			l := look{id: id, reading: o.Store.Read(id)}
			submitted[id], _ = sidecar.ParseTime(textOf(l.fields(), "submitted_at"))
		}
		slices.SortStableFunc(ids[from:to], func(a, b string) int { return submitted[b].Compare(submitted[a]) })
	}
}

// rows observes jobs in parallel and keeps their order. A job that is removed
// meanwhile has no row.
func (o Observer) rows(ctx context.Context, ids []string) ([]Row, error) {
	rows := make([]Row, len(ids))
	err := each(ctx, len(ids), func(i int) {
		l, _ := o.observe(ctx, ids[i]) // IDs returns valid ids only
		if l.reading.State != sidecar.Absent {
			rows[i] = o.row(&l)
			rows[i].detach()
		}
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(r Row) bool { return r.RunID == "" }), nil
}

// detach copies what the row has of its record, so that the rest of it does not
// stay in memory for as long as the listing.
func (r *Row) detach() {
	values := [...]*jsontext.Value{
		&r.Kind, &r.Label, &r.SpawnState, &r.SubmittedAt, &r.FinishedAt, &r.FinishedAtPrecision,
		&r.TerminalSource, &r.PersistenceDegradedReason, &r.ExitCode, &r.Signal,
	}
	size := 0
	for _, v := range values {
		size += len(*v)
	}
	own := make(jsontext.Value, 0, size)
	for _, v := range values {
		from := len(own)
		own = append(own, *v...)
		*v = own[from:len(own):len(own)]
	}
}

// each calls do for every number below n, several at a time, until ctx is done.
// The error is the context's.
func each(ctx context.Context, n int, do func(i int)) error {
	var taken atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)*2) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(taken.Add(1)) - 1
				if i >= n {
					return
				}
				do(i)
			}
		})
	}
	workers.Wait()
	return ctx.Err()
}

func (o Observer) row(l *look) Row {
	row := recorded(l)
	_, row.PersistenceDegradedReason = o.manifest(l)
	return row
}

// recorded is a row but for what the run itself has left.
func recorded(l *look) Row {
	rec, f := l.fields(), derive(l)
	return Row{
		Brief:               l.brief(&f),
		SpawnState:          field(rec, "spawn_state"),
		SubmittedAt:         field(rec, "submitted_at"),
		FinishedAt:          field(rec, "finished_at"),
		FinishedAtPrecision: field(rec, "finished_at_precision"),
		TerminalSource:      field(rec, "terminal_source"),
		RecordState:         l.reading.State.String(),
		NotifyDeliveryState: deliveryState(l.record()),
		ExitCode:            field(rec, "exit_code"),
		Signal:              field(rec, "signal"),
		Refused:             refusal(l.refused),
		Warnings:            warnings(&f),
	}
}
