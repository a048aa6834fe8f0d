package spawn

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

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
	// a process of ours, which outlives the supervisor; a job that prints after
	// that was killed gets SIGPIPE.
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

// maxReservations bounds the search for a free run id.
const maxReservations = 8

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
	id, err := admit(ctx, obs, &req)
	// The notice of a holder that has just been ended is no part of this job.
	defer obs.Flush(context.WithoutCancel(ctx))
	if err != nil {
		return Handle{}, err
	}
	return launch(ctx, obs, id, &req)
}

// launch starts the supervisor of a reserved job.
func launch(ctx context.Context, obs reap.Observer, id string, req *Request) (Handle, error) {
	dir := obs.Store.Dir
	rep, err := supervised(ctx, task{
		Dir: dir, RunID: id, Argv: req.Argv, Cwd: req.Dir, Env: jobEnv(req.Env, dir, id),
		Stdin: req.Stdin, Timeout: req.Timeout, Grace: req.Grace,
		LogMax: req.LogMax, HideArgv: req.HideArgv, Notifier: req.Notifier,
	})
	if err != nil {
		return unreported(context.WithoutCancel(ctx), obs, id, err)
	}
	if rep.Error != "" {
		return Handle{}, giveUp(context.WithoutCancel(ctx), obs, id, &rep)
	}
	return handle(dir, id, rep.Identity, rep.Supervisor), nil
}

func handle(dir, id string, process, supervisor jobprobe.Identity) Handle {
	return Handle{
		RunID: id, PID: process.PID, Identity: process, Supervisor: supervisor,
		Log: filepath.Join(dir, id, reap.ConsoleName),
	}
}

// giveUp records that a job could not be started, unless the supervisor has.
func giveUp(ctx context.Context, obs reap.Observer, id string, rep *report) error {
	failed := &FailedError{RunID: id, Reason: rep.Error}
	if !rep.Recorded {
		_, failed.Err = obs.SpawnFailed(ctx, id, sidecar.SpawnFailure{Reason: rep.Error, At: time.Now()})
		failed.Err = errors.Join(failed.Err, obs.Flush(ctx))
	}
	return failed
}

// unreported settles a start of which no report came: by the record, which
// the supervisor may have moved on before it was lost, or before the caller
// lost patience.
func unreported(ctx context.Context, obs reap.Observer, id string, cause error) (Handle, error) {
	err := giveUp(ctx, obs, id, &report{Error: cause.Error()})
	if !errors.Is(err, sidecar.ErrNotPreparing) {
		return Handle{}, err
	}
	rec := obs.Store.Read(id).Record
	if rec == nil {
		return Handle{}, err
	}
	identity := func(name string) jobprobe.Identity {
		raw, _ := rec.Raw(name)
		got, _ := jobprobe.ParseIdentity(raw)
		return got
	}
	if state, _ := rec.Text("spawn_state"); state != "started" {
		return Handle{}, err
	}
	return handle(obs.Store.Dir, id, identity("process_identity"), identity("supervisor")), nil
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
		if i := strings.IndexByte(entry, '='); i < 0 || strings.ContainsRune(entry, 0) {
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

// jobEnv adds the marker variables by which a job's processes are known.
func jobEnv(env []string, dir, id string) []string {
	if env == nil {
		env = os.Environ()
	}
	env = slices.Clone(env)
	return append(env, "JOBPROBE_RUN_ID="+id, "LIONAGI_MCP_JOB_RUN_ID="+id, "JOBPROBE_DIR="+dir)
}

// unmarked is the supervisor's environment: it is no process of a job that
// its caller may be one of.
func unmarked(env []string) []string {
	return slices.DeleteFunc(env, func(entry string) bool {
		return slices.Contains([]string{"JOBPROBE_RUN_ID", "LIONAGI_MCP_JOB_RUN_ID"}, envName(entry))
	})
}

// reserve publishes the record under a fresh run id.
func reserve(store sidecar.Store, req *Request) (id string, err error) {
	self, err := jobprobe.Identify(os.Getpid())
	if err != nil {
		return "", err
	}
	for range maxReservations {
		now := time.Now()
		id = sidecar.NewRunID(now)
		err = store.Create(id, preparing(store, id, req, self, now))
		switch {
		case err == nil, errors.Is(err, sidecar.ErrUnsynced): // published; attaching it syncs again
			return id, nil
		case !errors.Is(err, sidecar.ErrExists):
			return "", err
		}
	}
	return "", err
}

// preparing is the record of a job that has no process yet. The fields and
// their order are the peer's; what is ours follows.
func preparing(store sidecar.Store, id string, req *Request, spawner jobprobe.Identity, now time.Time) *sidecar.Record {
	cwd := sidecar.Null()
	if dir, err := os.Getwd(); err == nil {
		cwd = sidecar.Text(dir)
	}
	argv := req.Argv
	if req.HideArgv {
		argv = nil
	}
	notify := ""
	if len(req.NotifyCommand) > 0 {
		notify = string(sidecar.Texts(req.NotifyCommand))
	}
	rec := sidecar.NewRecord(
		sidecar.Field{Name: "run_id", Value: sidecar.Text(id)},
		sidecar.Field{Name: "pid", Value: sidecar.Null()},
		sidecar.Field{Name: "pid_create_time", Value: sidecar.Null()},
		sidecar.Field{Name: "pgid", Value: sidecar.Null()},
		sidecar.Field{Name: "kind", Value: sidecar.Text("command")},
		sidecar.Field{Name: "argv", Value: sidecar.Texts(argv)},
		sidecar.Field{Name: "cwd", Value: sidecar.Text(req.Dir)},
		sidecar.Field{Name: "submit_cwd", Value: cwd},
		sidecar.Field{Name: "label", Value: textOrNull(req.Label)},
		sidecar.Field{Name: "notify_command", Value: textOrNull(notify)},
		sidecar.Field{Name: "notify_target", Value: textOrNull(req.NotifyTarget)},
		sidecar.Field{Name: "notify_sender", Value: textOrNull(req.NotifySender)},
		sidecar.Field{Name: "submitted_at", Value: sidecar.Text(sidecar.FormatTime(now))},
		sidecar.Field{Name: "finished_at", Value: sidecar.Null()},
		sidecar.Field{Name: "status", Value: sidecar.Text("running")},
		sidecar.Field{Name: "spawn_state", Value: sidecar.Text("preparing")},
		sidecar.Field{Name: "log", Value: sidecar.Text(filepath.Join(store.Dir, id, reap.ConsoleName))},
		sidecar.Field{Name: "spawner", Value: identityValue(spawner)},
	)
	if req.Claim != "" {
		rec.Set("claim", sidecar.Text(req.Claim))
	}
	if req.Parent != "" {
		rec.Set("parent_run_id", sidecar.Text(req.Parent))
	}
	if req.LogMax != 0 {
		rec.Set("log_max", sidecar.Int(req.LogMax))
	}
	if req.slot != nil {
		rec.Set("spawn_index", sidecar.Int(int64(req.slot.SpawnIndex)))
		rec.Set("tool_call_id", sidecar.Text(req.slot.ToolCallID))
	}
	return rec
}

func textOrNull(s string) sidecar.Value {
	if s == "" {
		return sidecar.Null()
	}
	return sidecar.Text(s)
}

// supervised starts the supervisor and returns its one report. An error
// means that there was none: the supervisor could not start, or it ended
// before it had anything to say.
func supervised(ctx context.Context, t task) (report, error) {
	var spec bytes.Buffer
	if err := gob.NewEncoder(&spec).Encode(t); err != nil {
		return report{}, err
	}
	self, err := program()
	if err != nil {
		return report{}, err
	}
	out, w, err := os.Pipe()
	if err != nil {
		return report{}, err
	}
	defer out.Close()
	cmd, err := startDetached(exec.Cmd{
		Path:   self,
		Args:   []string{superviseName, t.RunID},
		Dir:    rootDir(self),
		Env:    unmarked(os.Environ()),
		Stdin:  &spec,
		Stdout: w,
	})
	w.Close()
	if err != nil {
		return report{}, err
	}
	stop := context.AfterFunc(ctx, func() { out.Close() })
	defer stop()
	var rep report
	readErr := json.UnmarshalRead(out, &rep)
	go cmd.Wait() // collect it when it ends, if this process is still there
	if ctx.Err() != nil {
		return report{}, ctx.Err()
	}
	if readErr != nil {
		return report{}, errors.New("the supervisor ended without a report")
	}
	return rep, nil
}

// startDetached starts a process that is to outlive this one, as far apart from
// it as the system allows.
func startDetached(like exec.Cmd) (cmd *exec.Cmd, err error) {
	for _, attr := range detached() {
		again := like
		cmd, again.SysProcAttr = &again, attr
		if err = cmd.Start(); !errors.Is(err, fs.ErrPermission) {
			break
		}
	}
	return cmd, err
}

func identityValue(id jobprobe.Identity) sidecar.Value {
	text, err := id.MarshalJSON()
	if err != nil {
		return sidecar.Null()
	}
	return text
}
