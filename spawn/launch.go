package spawn

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// A reservation is a job that is recorded, with the supervisor that waits to be
// told of it.
type reservation struct {
	id  string
	sup supervisor
}

// maxReservations bounds the search for a free run id.
const maxReservations = 8

// reserve publishes a job's first record under a fresh run id. The supervisor
// starts meanwhile: writing to disk and starting a program take their time.
// One that is there only perhaps, because a directory would not sync, is closed.
//
// A store that drains is asked before and after: see [reap.Observer.Admits].
func reserve(ctx context.Context, obs reap.Observer, req *Request) (*reservation, error) {
	store := obs.Store
	err := obs.Admits()
	if err != nil {
		return nil, err
	}
	for range maxReservations {
		now := time.Now()
		r := &reservation{id: sidecar.NewRunID(now)}
		if r.sup, err = startSupervisor(r.id); err != nil {
			return nil, err
		}
		var self jobprobe.Identity
		if self, err = jobprobe.Identify(os.Getpid()); err == nil {
			err = store.Create(r.id, preparing(store, r.id, req, self, now))
		}
		switch {
		case err == nil:
			if err := obs.Admits(); err != nil {
				_ = r.withdraw(context.WithoutCancel(ctx), obs, err)
				return nil, err
			}
			return r, nil
		case errors.Is(err, sidecar.ErrUnsynced):
			return nil, r.withdraw(context.WithoutCancel(ctx), obs, err)
		}
		r.sup.close()
		if !errors.Is(err, sidecar.ErrExists) {
			break
		}
	}
	return nil, err
}

// withdraw closes a reserved job that must not start, and returns why.
func (r *reservation) withdraw(ctx context.Context, obs reap.Observer, why error) error {
	r.sup.close()
	failure := sidecar.SpawnFailure{Reason: why.Error(), At: time.Now()}
	if errors.Is(why, reap.ErrDraining) {
		failure.Reason, failure.ReasonCode = "the store is draining", sidecar.ReasonDraining
	}
	_, err := obs.SpawnFailed(ctx, r.id, failure)
	return &FailedError{RunID: r.id, Reason: why.Error(), Err: err}
}

// launch lets the supervisor start the job.
func (r *reservation) launch(ctx context.Context, obs reap.Observer, req *Request) (Handle, error) {
	dir := obs.Store.Dir
	rep, err := r.sup.do(ctx, &task{
		Dir: dir, RunID: r.id, Argv: req.Argv, Cwd: req.Dir, Env: jobEnv(req.Env, dir, r.id),
		Stdin: req.Stdin, Timeout: int64(req.Timeout), Grace: int64(req.Grace),
		LogMax: req.LogMax, HideArgv: req.HideArgv, Notifier: req.Notifier,
	})
	switch {
	case err != nil:
		return r.unreported(context.WithoutCancel(ctx), obs, err)
	case rep.Refused != "":
		return Handle{}, &FailedError{RunID: r.id, Reason: rep.Error, Err: errors.New(rep.Refused)}
	case rep.Error == errNotOurs.Error() && obs.Admits() != nil:
		return Handle{}, obs.Admits()
	case rep.Error != "":
		return Handle{}, &FailedError{RunID: r.id, Reason: rep.Error}
	}
	return handle(dir, r.id, rep.Identity, rep.Supervisor), nil
}

func handle(dir, id string, process, supervisor jobprobe.Identity) Handle {
	return Handle{
		RunID: id, PID: process.PID, Identity: process, Supervisor: supervisor,
		Log: filepath.Join(dir, id, reap.ConsoleName),
	}
}

// unreported settles a start of which no report came: by the record, which
// the supervisor may have moved on before it was lost, or before the caller
// lost patience.
func (r *reservation) unreported(ctx context.Context, obs reap.Observer, cause error) (Handle, error) {
	err := r.withdraw(ctx, obs, cause)
	rec := obs.Store.Read(r.id).Record
	if !errors.Is(err, sidecar.ErrNotPreparing) || rec == nil {
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
	return handle(obs.Store.Dir, r.id, identity("process_identity"), identity("supervisor")), nil
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

// supervisor is a supervisor's process before it has reported: it reads its task
// and writes its report. If the pipe is closed before, it ends.
type supervisor struct{ *pipes }

// startSupervisor starts this program once more. The id shows in the process
// table.
func startSupervisor(id string) (supervisor, error) {
	self, err := program()
	if err != nil {
		return supervisor{}, err
	}
	p, err := newPipes()
	if err != nil {
		return supervisor{}, err
	}
	defer p.handOver()
	cmd, err := StartDetached(exec.Cmd{
		Path:   self,
		Args:   []string{superviseName, id},
		Dir:    rootDir(self),
		Env:    unmarked(os.Environ()),
		Stdin:  p.childIn,
		Stdout: p.childOut,
	})
	if err != nil {
		p.close()
		return supervisor{}, err
	}
	go cmd.Wait() // collect it when it ends, if this process is still there
	return supervisor{p}, nil
}

// do gives the supervisor its task and returns its one report. An error means
// that there was none: it has ended before it had anything to say.
func (s supervisor) do(ctx context.Context, t *task) (rep report, err error) {
	defer s.close()
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	err = t.writeTo(s.to)
	if err == nil {
		err = json.UnmarshalRead(s.from, &rep)
	}
	switch {
	case ctx.Err() != nil:
		return report{}, ctx.Err()
	case err != nil:
		return report{}, errors.New("the supervisor ended without a report")
	}
	return rep, nil
}

// StartDetached starts a process that is to outlive this one, as far apart from
// it as the system allows: in a session of its own, on Windows also outside of
// this one's job object where that may be left. The command that was started is
// returned; like is not changed.
func StartDetached(like exec.Cmd) (cmd *exec.Cmd, err error) {
	for _, attr := range detached() {
		again := like
		cmd, again.SysProcAttr = &again, attr
		if err = cmd.Start(); !errors.Is(err, fs.ErrPermission) {
			break
		}
	}
	return cmd, err
}
