package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Change is the outcome of a transaction that was not refused.
type Change struct {
	Result Result
	// Record is the record as it now stands on disk.
	Record *Record
}

// contractVersion is the newest contract_version whose records this package
// may rewrite.
const contractVersion = 1

// Update is the one way to change a record. It takes the job's lock, reads the
// record again, lets change alter it, and publishes it if that made a
// difference. It waits for the lock until ctx is done or LockWait has passed;
// from then on the transaction is carried through.
//
// The change runs under the lock: it must not do I/O, probe, or wait. If it
// returns an error, that error comes back, wrapped, and nothing is written.
// Nothing is written either if the change breaks what is fixed ([ErrLatched])
// or makes the record too large ([ErrTooLarge]) or no JSON ([*DamagedError]).
// What the system or the record's state forbids is a [*RefusedError]. With
// every error the result is [NotDone].
func (s Store) Update(ctx context.Context, id string, change func(*Record) error) (Change, error) {
	if !ValidRunID(id) {
		return Change{}, fmt.Errorf("%w: %q", ErrRunID, id)
	}
	h, err := s.lock(ctx, id)
	if err != nil {
		return Change{}, err
	}
	defer s.step.reach("released")
	defer h.release()
	s.step.reach("locked")
	now := reading(h.read(recordName))
	s.step.reach("read")
	if err := now.Rewritable(id); err != nil {
		return Change{}, err
	}
	next := now.Record.Clone()
	if err := change(next); err != nil {
		return Change{Record: now.Record}, fmt.Errorf("run %s: %w", id, err)
	}
	s.step.reach("changed")
	if next.Equal(now.Record) {
		return Change{Unchanged, now.Record}, nil
	}
	if err := latched(now.Record, next); err != nil {
		return Change{Record: now.Record}, fmt.Errorf("run %s: %w", id, err)
	}
	data, published, err := encode(next)
	if err != nil {
		return Change{Record: now.Record}, fmt.Errorf("run %s: %w", id, err)
	}
	synced, err := publish(h.dir, data, now.File, h.check, s.step)
	if err != nil {
		return Change{Record: now.Record}, refused(id, err)
	}
	if !synced {
		return Change{WrittenUnsynced, published}, nil
	}
	return Change{Written, published}, nil
}

// Rewritable returns nil if a record read as that of run id may be changed, and
// else the [*RefusedError] of every change: what is damaged may not, because
// nobody knows what a new record would lose; nor what names another run, because
// two runs would share one end; nor what a newer program may understand
// differently.
func (now Reading) Rewritable(id string) error {
	switch now.State {
	case OK:
	case Absent:
		return &RefusedError{id, RecordAbsent, now.Err}
	case WrongShape:
		return &RefusedError{id, RecordWrongShape, now.Err}
	case Unreadable, Unread:
		return &RefusedError{id, RecordUnreadable, now.Err}
	}
	if own := now.Record.RunID(); own != id {
		return &RefusedError{id, NamesAnotherRun, fmt.Errorf("run_id is %q", own)}
	}
	// A version that is no number here may be one to the program that wrote it.
	version, ok := now.Record.Number("contract_version")
	if now.Record.Null("contract_version") || ok && version <= contractVersion {
		return nil
	}
	text, _ := now.Record.Raw("contract_version")
	return &RefusedError{id, TooNew, fmt.Errorf("contract_version %.20s, want at most %d", text, contractVersion)}
}

// encode returns the bytes to publish, and the record that a reader will make
// of them: nothing is published that could not be read again.
func encode(rec *Record) ([]byte, *Record, error) {
	text := rec.raw()
	parsed, err := Parse(text)
	if err != nil {
		return nil, nil, err
	}
	w := writer{dst: make([]byte, 0, 2*len(text)), limit: maxRecord} // room for the layout
	w.record(parsed)
	if len(w.dst) > maxRecord {
		return nil, nil, ErrTooLarge
	}
	return w.dst, parsed, nil
}

// fixedByEnd are the members that say how a run ended. With the first end they
// are fixed, present or not.
var fixedByEnd = [...]string{
	"finished_at", "status", "outcome", "reason_code", "terminal_source", "finished_at_precision",
}

// latched reports an error if the change replaces what must never be replaced,
// whoever asks for it: the run's name, and the facts of its first end.
func latched(old, next *Record) error {
	if next.RunID() != old.RunID() {
		return fmt.Errorf("%w: run_id", ErrLatched)
	}
	if !old.Ended() {
		return nil
	}
	for _, name := range fixedByEnd {
		was, had := old.Raw(name)
		is, has := next.Raw(name)
		if had != has || had && !sameValue(was, is) {
			return fmt.Errorf("%w: %s of an ended run", ErrLatched, name)
		}
	}
	if was := HistoryOf(old); was.Kept && was.Phase.Ended() && HistoryOf(next).Phase != was.Phase {
		return fmt.Errorf("%w: %s of an ended run", ErrLatched, historyName)
	}
	return nil
}

// refused names the reason of a failed system call. ENOENT inside an opened
// directory means that the directory was removed (unlink(2)).
func refused(id string, err error) error {
	reason := IOError
	switch {
	case errors.Is(err, errMoved), errors.Is(err, fs.ErrNotExist):
		reason = RecordAbsent
	case errors.Is(err, errLost):
		reason = LockUnavailable
	case isNoSpace(err):
		reason = NoSpace
	case isReadOnly(err):
		reason = ReadOnly
	case errors.Is(err, errBusy):
		reason = RecordBusy
	}
	return &RefusedError{id, reason, err}
}
