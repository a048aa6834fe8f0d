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
	var (
		w   *work
		rep report
	)
	if err = selfErr; err == nil {
		w, rep, err = begin(ctx, obs, &t, self)
	}
	if err != nil {
		rep.Error = t.reason(err)
	}
	json.MarshalWrite(out, rep) // the caller may be gone; the record is what counts
	out.Close()
	if err != nil {
		return 1
	}
	why := attend(w.held, rep.Identity, &t, told)
	end := endOf(w.cmd.ProcessState, why)
	w.out.settle()
	if !record(func() error { _, err := obs.EndBySupervisor(ctx, t.RunID, end); return err }) {
		return 1
	}
	return 0
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
func begin(ctx context.Context, obs reap.Observer, t *task, self jobprobe.Identity) (w *work, rep report, err error) {
	h, err := startWork(t)
	if err != nil {
		return nil, rep, err
	}
	id, err := jobprobe.Identify(h.cmd.Process.Pid)
	if err == nil {
		err = commit(ctx, obs.Store, t.RunID, h, id, self)
	}
	if err != nil {
		h.abandon()
		switch {
		case errors.Is(err, sidecar.ErrNotPreparing):
			return nil, report{Recorded: true}, errNotOurs
		case errors.Is(err, sidecar.ErrUnsynced):
			rep.Recorded = neverBegan(ctx, obs, t, err)
		}
		return nil, rep, err
	}
	if err := h.release(); err != nil {
		h.cmd.Wait()
		rep.Recorded = neverBegan(ctx, obs, t, err)
		return nil, rep, err
	}
	return h, report{Identity: id, Supervisor: self}, nil
}

// commit makes durable what the held process is. [sidecar.ErrUnsynced] is that this
// is published, and may not survive a loss of power.
func commit(ctx context.Context, store sidecar.Store, runID string, w *work, id, self jobprobe.Identity) error {
	created, _ := id.CreateTime()
	got, err := store.Attach(ctx, runID, sidecar.Attachment{
		PID: id.PID, CreateTime: created, PGID: w.pgid(), Identity: id, Supervisor: self,
	})
	if err == nil && got.Result == sidecar.WrittenUnsynced {
		err = sidecar.ErrUnsynced
	}
	return err
}

// neverBegan records that the command of an attached job never ran.
func neverBegan(ctx context.Context, obs reap.Observer, t *task, err error) (recorded bool) {
	failure := sidecar.SpawnFailure{Reason: t.reason(err), At: time.Now(), Attached: true}
	return record(func() error { _, err := obs.SpawnFailed(ctx, t.RunID, failure); return err })
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
