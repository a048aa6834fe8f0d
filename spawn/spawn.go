package spawn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Errors that refuse a request before anything is written.
var (
	// ErrNoInit: this program does not call [Init] first in main. The
	// supervisor is this program again, which would run as what it is.
	ErrNoInit     = errors.New("spawn: Init was not called first in main")
	ErrNoCommand  = errors.New("spawn: no command given")
	ErrBadCommand = errors.New("spawn: a command word holds a NUL byte")
	ErrBadEnv     = errors.New("spawn: an environment entry is not NAME=VALUE")
	ErrBadDir     = errors.New("spawn: the working directory is not a directory")
	ErrBadStdin   = errors.New("spawn: the input is not a file that can be read")
	ErrBadTime    = errors.New("spawn: a timeout or grace is negative")
	ErrBadParent  = errors.New("spawn: the parent is not a run id")
	ErrBadLogMax  = fmt.Errorf("spawn: a bound of the console log is less than %d bytes", MinLog)
)

// A FailedError says that a job was recorded and could not be started. Its
// record has spawn_state "failed" unless Err says that not even that could
// be written.
type FailedError struct {
	RunID  string
	Reason string
	Err    error // what kept the failure from being recorded, if anything
}

func (e *FailedError) Error() string {
	text := "job " + e.RunID + " could not start: " + e.Reason
	if e.Err != nil {
		text += " (and that could not be recorded: " + e.Err.Error() + ")"
	}
	return text
}

func (e *FailedError) Unwrap() error { return e.Err }

// Request describes a job.
type Request struct {
	// Argv is the command and its arguments. A command without a separator
	// is looked up in the job's PATH. No shell is involved.
	Argv []string
	// Dir is the working directory, empty for the caller's.
	Dir string
	// Env is the whole environment, nil for the caller's. The variables that
	// mark the job's processes are added.
	Env []string

	// Stdin is the path of the file that the command reads; empty for none.
	Stdin string
	// Timeout is how long the command may run; 0 is for ever. When it is over
	// the job is stopped and ends as "timed_out".
	Timeout time.Duration
	// Grace is the time between SIGTERM and SIGKILL when the job is stopped,
	// because its time is up or its supervisor is told to end; 0 is
	// DefaultGrace.
	Grace time.Duration
	// LogMax bounds console.log, in bytes; 0 is no bound, less than MinLog is
	// refused. What is over the bound is dropped between the first half and the
	// end, and a line in its place says how much. The output then goes through
	// a process of ours, which outlives the supervisor. If that one is killed, a
	// job that prints gets SIGPIPE.
	LogMax int64
	// HideArgv keeps the command line out of the record. It can still be seen
	// in the process table while the job runs.
	HideArgv bool

	// Claim is the key of which at most one live job is admitted; empty for
	// none. See [Claim].
	Claim string
	// Lifecycle is asked how the holder of the claim ended, if that reported
	// no end.
	Lifecycle reap.Lifecycle

	Label         string // free text
	Parent        string // run id of the job this one belongs to
	NotifyCommand []string
	NotifyTarget  string
	NotifySender  string
	// Notifier is run for the end of this job if NotifyCommand is empty and the
	// environment names none: the command of a configuration. It is not in the
	// record, so an end that another program finds is told of by that
	// program's own. See [reap.Notices].
	Notifier []string

	slot *Slot // of the batch that this job is of, nil for none
}

// Handle names a job that was started.
type Handle struct {
	RunID    string            `json:"run_id"`
	PID      int64             `json:"pid"`
	Identity jobprobe.Identity `json:"process_identity"`
	// Supervisor is the process that will record the end.
	Supervisor jobprobe.Identity `json:"supervisor"`
	// Log is the path of the console log.
	Log string `json:"log"`
}

// Start starts a job in a store and returns once its identity is durable and
// its command runs. The job does not depend on the caller afterwards. The
// program must call [Init] first in main: it is also the job's supervisor.
//
// The error is a [*ClaimHeldError] if the claim is held, and a [*FailedError] if
// the job got as far as a record; otherwise nothing of it is left on disk. ctx
// bounds the call, not the job: a job that had started when ctx ended is
// returned as started.
func Start(ctx context.Context, store sidecar.Store, req Request) (Handle, error) {
	dir, err := filepath.Abs(store.Dir)
	if err != nil {
		return Handle{}, err
	}
	store.Dir = dir
	if err := req.check(); err != nil {
		return Handle{}, err
	}
	if err := ctx.Err(); err != nil {
		return Handle{}, err
	}
	obs := req.observer(observe(store))
	r, err := admit(ctx, obs, &req)
	// The notice of a holder that has just been ended is no part of this job.
	defer obs.Flush(context.WithoutCancel(ctx))
	if err != nil {
		return Handle{}, err
	}
	return r.launch(ctx, obs, &req)
}

// observer is one that tells of this job's end as the job asks for.
func (r *Request) observer(obs reap.Observer) reap.Observer {
	obs.Notices, obs.Lifecycle = notices(r.Notifier), r.Lifecycle
	return obs
}

// check refuses what no operating system would start, and makes Dir absolute.
func (r *Request) check() error {
	if !initialized {
		return ErrNoInit
	}
	if len(r.Argv) == 0 || r.Argv[0] == "" {
		return ErrNoCommand
	}
	for _, word := range r.Argv {
		if strings.ContainsRune(word, 0) {
			return ErrBadCommand
		}
	}
	for _, entry := range r.Env {
		if i := strings.IndexByte(entry, '='); i <= 0 || strings.ContainsRune(entry, 0) {
			return fmt.Errorf("%w: %q", ErrBadEnv, envName(entry))
		}
	}
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%w: %s", ErrBadDir, dir)
	}
	r.Dir = dir
	if r.Stdin != "" {
		if r.Stdin, err = filepath.Abs(r.Stdin); err != nil {
			return err
		}
		// Opening a pipe would wait for somebody to write to it.
		if info, err := os.Stat(r.Stdin); err != nil || info.Mode()&(fs.ModeDir|fs.ModeNamedPipe|fs.ModeSocket) != 0 {
			return fmt.Errorf("%w: %s", ErrBadStdin, r.Stdin)
		}
	}
	if r.Timeout < 0 || r.Grace < 0 {
		return ErrBadTime
	}
	if r.LogMax != 0 && r.LogMax < MinLog {
		return ErrBadLogMax
	}
	if r.Parent != "" && !sidecar.ValidRunID(r.Parent) {
		return ErrBadParent
	}
	if r.Claim != "" {
		if err := checkClaim(r.Claim); err != nil {
			return err
		}
	}
	if r.Grace == 0 {
		r.Grace = DefaultGrace
	}
	return nil
}

// envName is what may be said of an environment entry: never its value.
func envName(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}
