package spawn

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Names by which this program knows, as os.Args[0], that it was started as a
// part of a job.
const (
	superviseName = "jobprobe-supervise"
	holdName      = "jobprobe-hold"
)

// Init must be called first in main, and in TestMain, before flags are read. In
// a process that was started for a job, as its supervisor for example, it does
// that duty and does not return; in any other it returns at once. Without it no
// job is started: see [ErrNoInit].
func Init() {
	initialized = true
	switch os.Args[0] {
	case superviseName:
		os.Exit(supervise(os.Stdin, os.Stdout))
	case holdName:
		hold(os.Args[1:])
	case keepName:
		os.Exit(keep(os.Args[1:], os.Stdin, os.Stdout))
	}
}

// initialized says that Init was called, so that a supervisor which is this
// program again will not run main.
var initialized bool

// errNotOurs is the end of a supervisor that lost its record to somebody who
// closed it first.
var errNotOurs = errors.New("the job was closed before it started")

// supervise runs one job from its attachment to its end.
func supervise(in io.Reader, out io.WriteCloser) (code int) {
	told := stopSignals()
	closeInherited()
	self, selfErr := jobprobe.Identify(os.Getpid()) // while the caller makes the record
	t, err := readTask(in)
	if err != nil {
		return 2
	}
	ctx := context.Background()
	obs := observe(sidecar.Store{Dir: t.Dir})
	obs.Notices = notices(t.Notifier)
	defer obs.Flush(ctx)
	if selfErr != nil {
		return fail(ctx, obs, &t, out, selfErr)
	}
	w, id, err := begin(ctx, obs, &t, self)
	if err != nil {
		return fail(ctx, obs, &t, out, err)
	}
	json.MarshalWrite(out, report{Identity: id, Supervisor: self}) // the caller may be gone; the record is what counts
	out.Close()
	group := w.pgid()
	why := attend(w.held, id, &t, told, func(why cause) { asked(obs.Store, t.RunID, why) })
	end := endOf(w.cmd.ProcessState, why)
	w.out.settle()
	won := false
	if !record(func() error {
		got, err := obs.EndBySupervisor(ctx, t.RunID, end)
		won = got.Won
		return err
	}) {
		return 1
	}
	// The exit status came first: nobody else has it. This, others can find
	// out, and whoever has stopped the job does.
	if won {
		_, _ = obs.Prove(ctx, t.RunID, id, group)
	}
	return 0
}

// askPatience is how long a job that is to stop goes on running because its
// record is slow to say so.
const askPatience = time.Second

// asked records that the job is being stopped, so that this is known even if
// this process does not live to tell its end.
func asked(store sidecar.Store, runID string, why cause) {
	store.LockWait = askPatience
	told := make(chan struct{})
	go func() {
		defer close(told)
		i := sidecar.Interruption{Cause: sidecar.CauseUserInterrupt, At: time.Now()}
		if why == timedOut {
			i.Cause = sidecar.CauseDeadline
		}
		_, _ = store.RequestInterrupt(context.Background(), runID, i) // the end tells it too
	}()
	select {
	case <-told:
	case <-time.After(askPatience):
	}
}

// observe returns who writes the ends of the jobs in a store and tells of them.
func observe(store sidecar.Store) reap.Observer {
	obs := reap.New(store.Dir)
	obs.Store, obs.Notices = store, notices(nil)
	return obs
}

// notices are those of the environment, or by the given command where that
// names none. A faulty one is on record with each end that it should have told
// of.
func notices(notifier []string) reap.Notices {
	n, err := reap.NoticesFromEnv(os.Getenv)
	if err == nil && len(n.Command) == 0 {
		n.Command = notifier
	}
	return n
}

// work is the command of a job, while it runs.
type work struct {
	*held
	out *sink
}

// startWork opens the command's input and output, and starts it held.
func startWork(t *task) (*work, error) {
	in, err := openInput(t.Stdin)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := openSink(t)
	if err != nil {
		return nil, err
	}
	h, err := startHeld(t, in, out.File)
	if err != nil {
		out.Close()
		return nil, err
	}
	return &work{h, out}, nil
}

// begin starts the command held, commits its identity, and lets it go.
func begin(ctx context.Context, obs reap.Observer, t *task, self jobprobe.Identity) (*work, jobprobe.Identity, error) {
	w, err := startWork(t)
	if err != nil {
		return nil, jobprobe.Identity{}, err
	}
	id, err := jobprobe.Identify(w.cmd.Process.Pid)
	if err == nil {
		err = commit(ctx, obs.Store, t.RunID, w, id, self)
	}
	if err != nil {
		w.abandon()
		return nil, id, err
	}
	if err := w.release(); err != nil {
		w.cmd.Wait()
		return nil, id, &attachedError{err}
	}
	return w, id, nil
}

// attachedError is why the command of an attached job never ran.
type attachedError struct{ error }

func (e *attachedError) Unwrap() error { return e.error }

// commit makes durable what the held process is. Published, and perhaps lost if
// the power is, is no success.
func commit(ctx context.Context, store sidecar.Store, runID string, w *work, id, self jobprobe.Identity) error {
	created, _ := id.CreateTime()
	got, err := store.Attach(ctx, runID, sidecar.Attachment{
		PID: id.PID, CreateTime: created, PGID: w.pgid(), Identity: id, Supervisor: self, At: time.Now(),
	})
	if err == nil && got.Result == sidecar.WrittenUnsynced {
		err = &attachedError{sidecar.ErrUnsynced}
	}
	return err
}

// fail records that the command never ran, unless the record is nobody's to
// change, and tells the caller. If the store refuses now, nobody else may know:
// then it is tried until it can be written.
func fail(ctx context.Context, obs reap.Observer, t *task, out io.WriteCloser, why error) (code int) {
	var refused error
	_, attached := errors.AsType[*attachedError](why)
	failure := sidecar.SpawnFailure{At: time.Now(), Attached: attached}
	write := func() error { _, err := obs.SpawnFailed(ctx, t.RunID, failure); return err }
	if errors.Is(why, sidecar.ErrNotPreparing) {
		why = errNotOurs
	} else {
		failure.Reason = t.reason(why)
		refused = write()
	}
	rep := report{Error: t.reason(why)}
	if refused != nil {
		rep.Refused = refused.Error()
	}
	json.MarshalWrite(out, rep)
	out.Close()
	if refused != nil {
		record(write)
	}
	return 1
}

// record writes a fact that only this process knows, and tries again while
// the store refuses for a reason that can pass. It gives up when there is no
// record of ours to write to.
func record(write func() error) bool {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 30*time.Second) {
		err := write()
		if err == nil {
			return true
		}
		if refused, ok := errors.AsType[*sidecar.RefusedError](err); !ok || !canPass(refused.Reason) {
			return false
		}
		time.Sleep(pause)
	}
}

// canPass says whether what refused a write may be over later.
func canPass(reason sidecar.Refusal) bool {
	switch reason {
	case sidecar.LockUnavailable, sidecar.NoSpace, sidecar.ReadOnly, sidecar.RecordBusy, sidecar.IOError:
		return true
	case sidecar.Unspecified, sidecar.RecordAbsent, sidecar.RecordUnreadable, sidecar.RecordWrongShape,
		sidecar.NamesAnotherRun, sidecar.TooNew:
	}
	return false
}

// openInput opens what the command reads: nothing, unless a file is named.
func openInput(path string) (*os.File, error) {
	if path == "" {
		path = os.DevNull
	}
	return os.Open(path)
}
