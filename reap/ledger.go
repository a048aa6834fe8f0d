package reap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jobprobe/jobprobe/sidecar"
)

// ErrDraining refuses a start: the store admits no jobs until it is reopened.
var ErrDraining = errors.New("reap: the store is draining and admits no jobs; \"jobprobe drain --reopen\" admits them again")

const (
	// ledgerDir is where a store keeps what is of no one job. It is no run id.
	ledgerDir  = ".lifecycle"
	ledgerName = "ledger"
	ledgerLock = "lock"

	admissionName   = "admission"
	admissionOpen   = "open"
	admissionClosed = "closed"
)

// ledger is the one record of a store that is of no job: whether jobs are
// admitted, and what is counted of drains and of jobs that were removed. It is
// published as jobs are.
type ledger struct{ sidecar.Store }

func (o Observer) ledger() ledger {
	store := o.Store
	store.Dir = filepath.Join(store.Dir, ledgerDir)
	return ledger{store}
}

// read returns the ledger, one without members if there is none yet. One that
// does not say whether jobs are admitted is an error.
func (l ledger) read() (*sidecar.Record, error) {
	r := l.Read(ledgerName)
	path := filepath.Join(l.Dir, ledgerName)
	switch {
	case r.State == sidecar.Absent:
		return sidecar.NewRecord(), nil
	case r.State != sidecar.OK:
		return nil, fmt.Errorf("the ledger %s is %v: %w", path, r.State, r.Err)
	case r.Record.RunID() != ledgerName:
		return nil, fmt.Errorf("the ledger %s is another record", path)
	}
	if word := textOf(r.Record, admissionName); word != admissionOpen && word != admissionClosed {
		return nil, fmt.Errorf("the ledger %s does not say whether jobs are admitted", path)
	}
	return r.Record, nil
}

// update changes the ledger, which is made if there is none. The change is
// durable when it returns nil.
func (l ledger) update(ctx context.Context, change func(*sidecar.Record) error) error {
	got, err := l.Update(ctx, ledgerName, change)
	if refused, ok := errors.AsType[*sidecar.RefusedError](err); ok && refused.Reason == sidecar.RecordAbsent {
		if err := l.create(ctx); err != nil {
			return err
		}
		got, err = l.Update(ctx, ledgerName, change)
	}
	if err == nil && got.Result == sidecar.WrittenUnsynced {
		return errUnsynced
	}
	return err
}

func (l ledger) create(ctx context.Context) error {
	unlock, err := l.LockShared(ctx, ledgerLock)
	if err != nil {
		return err
	}
	defer unlock()
	err = l.CreateShared(ledgerName, sidecar.NewRecord(
		sidecar.Field{Name: "run_id", Value: sidecar.Text(ledgerName)},
		sidecar.Field{Name: admissionName, Value: sidecar.Text(admissionOpen)},
	))
	if errors.Is(err, sidecar.ErrExists) {
		return nil
	}
	return err
}

// admission sets whether jobs are admitted.
func (l ledger) admission(ctx context.Context, word string, at time.Time) error {
	return l.update(ctx, func(r *sidecar.Record) error {
		if textOf(r, admissionName) != word {
			r.Set(admissionName, sidecar.Text(word))
			r.Set("admission_changed_at", sidecar.Text(sidecar.FormatTime(at)))
		}
		return nil
	})
}

// add adds to a number of the ledger. One that is damaged starts anew.
func add(r *sidecar.Record, name string, n int64) {
	if n == 0 {
		return
	}
	had, _ := r.Int(name)
	r.Set(name, sidecar.Int(had+n))
}

// Draining says whether the store has stopped admitting jobs. An error says
// that this could not be read, which is no leave to start one.
func (o Observer) Draining() (bool, error) {
	rec, err := o.ledger().read()
	if err != nil {
		return false, err
	}
	return textOf(rec, admissionName) == admissionClosed, nil
}

// Admits returns nil if jobs may be started: else [ErrDraining], or why that
// could not be found out. Who starts a job asks before its first record and
// again after it: a drain closes the store before it looks for jobs, so either
// sees the other.
func (o Observer) Admits() error {
	draining, err := o.Draining()
	switch {
	case err != nil:
		return fmt.Errorf("reap: whether the store admits jobs is not known: %w; \"jobprobe drain --reopen\" begins a new ledger if it is damaged", err)
	case draining:
		return ErrDraining
	}
	return nil
}

// Reopen lets the store admit jobs again. A ledger that is damaged is put aside,
// under a name that tells when, and a new one begun: what it counted is lost.
// One that the system did not let be read stays, and is an error.
func (o Observer) Reopen(ctx context.Context) error {
	l := o.ledger()
	if l.Read(ledgerName).State == sidecar.Absent {
		return nil
	}
	if err := l.putAside(ctx, o.time()); err != nil {
		return err
	}
	return l.admission(ctx, admissionOpen, o.time())
}

// putAside renames a ledger that is damaged. Others may be at that too: under the
// lock of those who make one, none renames a new one.
func (l ledger) putAside(ctx context.Context, at time.Time) error {
	unlock, err := l.LockShared(ctx, ledgerLock)
	if err != nil {
		return err
	}
	defer unlock()
	if !uselessLedger(l.Read(ledgerName)) {
		return nil
	}
	path := filepath.Join(l.Dir, ledgerName)
	return os.Rename(path, path+".damaged-"+at.UTC().Format("20060102T150405.000000"))
}

// uselessLedger says that a ledger is of no use to anybody. What the system says of one
// that it does not let be read is not about what is in it.
func uselessLedger(r sidecar.Reading) bool {
	switch r.State {
	case sidecar.WrongShape:
		return true
	case sidecar.Unreadable:
		_, ofSystem := errors.AsType[syscall.Errno](r.Err)
		return !ofSystem
	case sidecar.OK:
		return r.Record.RunID() != ledgerName
	case sidecar.Absent, sidecar.Unread:
	}
	return false
}
