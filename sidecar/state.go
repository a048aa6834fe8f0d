package sidecar

import (
	"errors"

	"github.com/jobprobe/jobprobe/internal/enum"
)

// Errors that callers branch on.
var (
	// ErrRunID: the id is not one that [ValidRunID] accepts. No file was touched.
	ErrRunID = errors.New("sidecar: not a run id")
	// ErrExists: the run id is taken. Nothing was changed.
	ErrExists = errors.New("sidecar: run exists")
	// ErrUnsynced: [Store.Create] published the record, and the sync that
	// makes it durable failed. The record stands.
	ErrUnsynced = errors.New("sidecar: published, durability not confirmed")
	// ErrLatched: a change would have replaced the record's run_id, or a part
	// of the end that it already has. Nothing was written.
	ErrLatched = errors.New("sidecar: change of what is fixed")
	// ErrTooLarge: the changed record is larger than any reader accepts.
	// Nothing was written.
	ErrTooLarge = errors.New("sidecar: record larger than 16 MiB")
)

// State is what reading a record found.
type State uint8

const (
	// Unread is the zero value: nobody looked.
	Unread State = iota
	// OK: the record was read.
	OK
	// Absent: there is no such record. Only ENOENT says so.
	Absent
	// Unreadable: something is there and it is no JSON text, is no regular
	// file, is too large, or could not be read.
	Unreadable
	// WrongShape: the file holds a JSON text that is no object.
	WrongShape
)

var stateNames = [...]string{"unread", "ok", "absent", "unreadable", "wrong_shape"}

// Result is what became of a change that was not refused.
type Result uint8

const (
	// NotDone is the zero value: nothing was written.
	NotDone Result = iota
	// Written: the changed record is published and durable.
	Written
	// WrittenUnsynced: the changed record is published, and the directory
	// sync that makes it durable failed.
	WrittenUnsynced
	// Unchanged: the change asked for nothing that was not already recorded.
	// Nothing was written.
	Unchanged
)

var resultNames = [...]string{"not_done", "written", "written_unsynced", "unchanged"}

// Refusal is why a change was not made. A refused change wrote nothing.
type Refusal uint8

const (
	// Unspecified is the zero value.
	Unspecified Refusal = iota
	// RecordAbsent: there is no such record, or its directory was moved away.
	RecordAbsent
	// LockUnavailable: the lock was not to be had in time, or at all.
	LockUnavailable
	// RecordUnreadable and RecordWrongShape: see [State].
	RecordUnreadable
	RecordWrongShape
	// NamesAnotherRun: the record's run_id is not its directory's name.
	NamesAnotherRun
	// TooNew: the record has a contract_version that is not 1 or less, the
	// versions that this package knows how to keep whole.
	TooNew
	// NoSpace: no space, or no quota, is left (ENOSPC, EDQUOT).
	NoSpace
	// ReadOnly: the file system is read-only (EROFS).
	ReadOnly
	// RecordBusy: on Windows, another program kept the record from being
	// replaced.
	RecordBusy
	// IOError: any other error; Err has the errno.
	IOError
)

var refusalNames = [...]string{
	"unspecified", "absent", "lock_unavailable", "unreadable", "wrong_shape",
	"names_another_run", "too_new", "no_space", "read_only", "record_busy", "io_error",
}

// RefusedError says why a change was refused. Nothing was written, and the
// same change may be tried again.
type RefusedError struct {
	RunID  string
	Reason Refusal
	Err    error // what was wrong; may be nil
}

func (e *RefusedError) Error() string {
	text := "run " + e.RunID + ": " + e.Reason.String()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns what was wrong.
func (e *RefusedError) Unwrap() error { return e.Err }

// String returns the word used in replies, for example "wrong_shape".
func (s State) String() string { return enum.Name(stateNames[:], uint8(s), "State") }

// String returns the word used in replies, for example "written".
func (r Result) String() string { return enum.Name(resultNames[:], uint8(r), "Result") }

// String returns the word used in replies, for example "no_space".
func (r Refusal) String() string { return enum.Name(refusalNames[:], uint8(r), "Refusal") }

// MarshalText returns the word of [State.String]. It fails for a value
// outside the enumeration.
func (s State) MarshalText() ([]byte, error) { return enum.Text(stateNames[:], uint8(s), "state") }

// MarshalText returns the word of [Result.String]. It fails for a value
// outside the enumeration.
func (r Result) MarshalText() ([]byte, error) { return enum.Text(resultNames[:], uint8(r), "result") }

// MarshalText returns the word of [Refusal.String]. It fails for a value
// outside the enumeration.
func (r Refusal) MarshalText() ([]byte, error) {
	return enum.Text(refusalNames[:], uint8(r), "refusal")
}

// UnmarshalText accepts exactly the words that [State.MarshalText] makes.
func (s *State) UnmarshalText(text []byte) error {
	n, err := enum.Value(stateNames[:], text, "state")
	if err == nil {
		*s = State(n)
	}
	return err
}

// UnmarshalText accepts exactly the words that [Result.MarshalText] makes.
func (r *Result) UnmarshalText(text []byte) error {
	n, err := enum.Value(resultNames[:], text, "result")
	if err == nil {
		*r = Result(n)
	}
	return err
}

// UnmarshalText accepts exactly the words that [Refusal.MarshalText] makes.
func (r *Refusal) UnmarshalText(text []byte) error {
	n, err := enum.Value(refusalNames[:], text, "refusal")
	if err == nil {
		*r = Refusal(n)
	}
	return err
}
