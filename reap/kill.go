package reap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// ErrSignal is returned by Kill for what is no signal that ends a process by
// default: a job that it was sent to would be recorded as killed and go on.
var ErrSignal = errors.New("reap: not a signal that ends a process")

// KillOptions say how a job is to be stopped.
type KillOptions struct {
	// Signal is sent first; 0 means SIGTERM. Windows terminates, whatever it is.
	Signal syscall.Signal
	// Grace is how long to wait for the group to end before SIGKILL is sent to
	// what is left of it. 0 sends one signal and waits for nothing.
	Grace time.Duration
	// Verify is how long to wait after that for the group to be seen gone;
	// 0 means one second.
	Verify time.Duration
}

// lockPatience is how long a signal waits for the record's lock. A job is
// stopped even if somebody sits on the lock of its record.
const lockPatience = time.Second

// errMoved refuses a signal that was proved from a record which has changed.
var errMoved = errors.New("the record names another process by now")

// killing is one Kill in progress.
type killing struct {
	Observer
	id   string
	opt  KillOptions
	file sidecar.FileInfo
	rec  *sidecar.Record

	target
	plan  plan // of the notice
	reply KillReply
	won   bool // this kill is the run's end
}

// Kill signals the process group of a job, after proving that the group is
// that of this run, and records the kill. Nothing is signalled on a doubt, and
// never a number of 1 or less, the caller's own group, or a process whose user
// is not the owner of the record. The decision is a reason code of the reply.
//
// A leader that is alive must be the recorded process; its group is then
// signalled through a handle that no later process of its number shares, where
// the system has one (see [jobprobe.Process.SignalGroup]). Of a group whose
// leader is gone the members must carry the run's marker; each of them is
// signalled through a handle of its own. Windows has no groups: the process
// is terminated, with all of the job object of its run if package spawn has put
// it into one; what is left of it then is not known.
//
// The kill becomes the run's end (status "killed", outcome "cancelled", source
// "mcp_kill") together with the signal, under the record's lock, so that no
// report of the death that it causes can come before it. If the lock is not to
// be had the signal is sent all the same. An end that was on record before is
// not changed.
//
// The error is sidecar.ErrRunID, ErrSignal, the context's before anything was
// signalled, the operating system's for a signal that was neither sent nor
// denied, or about the notice alone if the reply says Killed.
func (o Observer) Kill(ctx context.Context, id string, opt KillOptions) (KillReply, error) {
	return o.kill(ctx, id, opt, func(k *killing) {
		k.reply.Descendants = k.descendants(k.reply.Cleanup == sidecar.CleanupCompleted, scanMarked(id))
		if opt.Grace > 0 {
			k.told(ctx)
		}
	})
}

// kill is Kill with what is done after a signal that was sent.
func (o Observer) kill(ctx context.Context, id string, opt KillOptions, after func(*killing)) (KillReply, error) {
	if opt.Signal == 0 {
		opt.Signal = syscall.SIGTERM
	}
	if opt.Verify <= 0 {
		opt.Verify = time.Second
	}
	if !endsProcess(opt.Signal) {
		return KillReply{}, fmt.Errorf("%w: %d", ErrSignal, int(opt.Signal))
	}
	reading := o.Store.Read(id)
	if reading.State == sidecar.Unread {
		return KillReply{}, reading.Err
	}
	if err := ctx.Err(); err != nil {
		return KillReply{}, err
	}
	k := &killing{
		Observer: o, id: id, opt: opt, file: reading.File, rec: reading.Record,
		reply: KillReply{RunID: id, PID: null, PGID: null, Cleanup: sidecar.CleanupNotRequested},
	}
	defer k.target.close()
	code := recordCode(reading.State)
	if code == "" {
		code = k.recorded()
	}
	if code == "" {
		k.reach(stepRead)
		code = k.prove()
	}
	if code != "" {
		k.explain(code)
		return k.reply, nil
	}
	if err := k.shoot(ctx); err != nil || !k.reply.Killed {
		return k.reply, err
	}
	if opt.Grace > 0 {
		k.finish(ctx)
	}
	after(k)
	if k.won {
		// Nothing is left to be signalled, which must not wait for a notifier.
		return k.reply, k.deliver(ctx, k.id, k.plan)
	}
	return k.reply, nil
}

// told adds to the job's history what is left of it. What this cannot write,
// another look finds again.
func (k *killing) told(ctx context.Context) {
	if !k.reply.Recorded || !sidecar.HistoryOf(k.rec).Kept {
		return
	}
	left := k.reply.Descendants
	if k.reply.Cleanup == sidecar.CleanupTimedOut {
		left = sidecar.RemainsSome
	}
	_, _ = k.Store.Prove(context.WithoutCancel(ctx), k.id, sidecar.Proof{Left: left, At: k.time()})
}

// recordCode is the refusal of a record that cannot be used.
func recordCode(state sidecar.State) string {
	switch state {
	case sidecar.OK:
		return ""
	case sidecar.Absent:
		return killNoJob
	case sidecar.WrongShape:
		return killWrongShape
	case sidecar.Unreadable, sidecar.Unread:
	}
	return killUnreadable
}

// recorded takes from the record what names its process, and refuses what
// names none. It asks the system nothing.
func (k *killing) recorded() string {
	if k.rec.RunID() != k.id {
		return killOtherRun
	}
	k.runID = k.id
	k.reply.PID = field(k.rec, "pid")
	pid, ok := k.rec.Int("pid")
	if !ok || pid <= 1 || unaskable(pid) {
		return killNoPID
	}
	k.pid = pid
	k.owner, k.owned = k.file.UID, k.file.HasOwner
	stamped := !k.rec.Null("process_identity")
	_, hasTime := k.rec.Raw("pid_create_time")
	_, hasGroup := k.rec.Raw("pgid")
	if !stamped && !hasTime && !hasGroup {
		return killNoIdentity
	}
	pgid, _ := k.rec.Int("pgid")
	if groups && (pgid <= 1 || unaskable(pgid)) {
		return killUnusable
	}
	if stamped {
		// A damaged identity is not made up for by a weaker one.
		k.stamped = identityOf(k.rec, "process_identity")
		if k.stamped.PID != pid || k.stamped.Start == 0 && k.stamped.Uniq == 0 {
			return killUnusable
		}
	} else if created := createTime(k.rec); !(created > 0) {
		return killUnusable
	} else {
		k.weak = jobprobe.EpochIdentity{PID: pid, Created: created, PGID: pgid, RunID: k.id}
	}
	if groups {
		k.pgid = pgid
		k.reply.PGID = jsontext.Value(strconv.FormatInt(pgid, 10))
	}
	return ""
}

// unaskable says whether no process can have the number here.
func unaskable(n int64) bool {
	return jobprobe.Probe(jobprobe.Identity{PID: n}).Finding == jobprobe.UnusablePID
}

// prove identifies what is to be signalled, and aims at it.
func (k *killing) prove() string {
	code := k.identify(k.rec, k.Observer)
	if code == "" {
		code = k.aim()
	}
	if code == "" {
		k.reach(stepProved)
	}
	return code
}

// shoot sends the first signal and records it in one transaction: the death
// that it causes wakes a supervisor at once, whose report would else compete
// for being the end. What is done under the lock beside that are a few system
// calls on handles; the proof was made before.
func (k *killing) shoot(ctx context.Context) error {
	var (
		sent  error
		fired bool
		won   bool
	)
	k.plan = k.notice(k.id, k.rec, k.file)
	end := sidecar.KillEnd{NoticeOwed: k.plan.owed()}
	change := func(r *sidecar.Record) (err error) {
		if !sameProcess(r, k.rec) {
			return errMoved
		}
		k.reach(stepLocked)
		fired = true
		if sent = k.fire(k.opt.Signal); sent != nil {
			return sent
		}
		end.At = k.time()
		won, err = end.Apply(r)
		return err
	}
	store := k.Store
	if store.LockWait <= 0 || store.LockWait > lockPatience {
		store.LockWait = lockPatience
	}
	_, err := store.Update(ctx, k.id, change)
	switch {
	case fired && sent != nil:
		return k.notSent(sent)
	case !fired: // the lock was not to be had, or the record is not what it was
		if code := lostRecord(err); code != "" {
			k.explain(code)
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if sent = k.fire(k.opt.Signal); sent != nil {
			return k.notSent(sent)
		}
		end.At = k.time()
		var got sidecar.Transition
		got, err = k.Store.EndByKill(context.WithoutCancel(ctx), k.id, end)
		won = got.Won
	}
	k.won = won && err == nil
	k.signalled(err)
	k.reach(stepSignalled)
	return nil
}

// signalled fills in the reply to a signal that was sent.
func (k *killing) signalled(err error) {
	name := signalName(k.opt.Signal)
	k.reply.Killed, k.reply.Signal = true, &name
	if err != nil {
		k.reply.Refused = refusal(err)
		k.explain(KillNotRecorded)
		return
	}
	k.reply.Recorded = true
	k.explain(KillSignalled)
}

// notSent explains a signal that was not sent, and returns what is no answer.
func (k *killing) notSent(err error) error {
	switch {
	case errors.Is(err, errChanged):
		k.explain(killLeaderChanged)
	case errors.Is(err, os.ErrProcessDone):
		k.explain(killGone)
	case errors.Is(err, fs.ErrPermission):
		k.explain(killDenied)
	default:
		return fmt.Errorf("run %s: signal %s: %w", k.id, signalName(k.opt.Signal), err)
	}
	return nil
}

// lostRecord is the refusal, if any, that follows from a transaction which did
// not come to the signal. A lock or a disk that cannot be had is none.
func lostRecord(err error) string {
	if errors.Is(err, errMoved) {
		return killLeaderChanged
	}
	refused, ok := errors.AsType[*sidecar.RefusedError](err)
	if !ok {
		return ""
	}
	switch refused.Reason {
	case sidecar.RecordAbsent:
		return killNoJob
	case sidecar.RecordUnreadable:
		return killUnreadable
	case sidecar.RecordWrongShape:
		return killWrongShape
	case sidecar.NamesAnotherRun:
		return killOtherRun
	case sidecar.Unspecified, sidecar.LockUnavailable, sidecar.TooNew, sidecar.NoSpace,
		sidecar.ReadOnly, sidecar.RecordBusy, sidecar.IOError:
	}
	return ""
}

// sameProcess says whether two readings of a record name the same process.
func sameProcess(a, b *sidecar.Record) bool {
	for _, name := range [...]string{"pid", "pid_create_time", "pgid", "process_identity"} {
		was, had := a.Raw(name)
		is, has := b.Raw(name)
		if had != has || string(was) != string(is) {
			return false
		}
	}
	return true
}
