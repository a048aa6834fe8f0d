package sidecar_test

import (
	"testing"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// writer is one kind of change of a record that it finds as begin makes it.
type writer struct {
	begin func() *sidecar.Record
	write func(s sidecar.Store) (sidecar.Transition, error)
}

// writers are all kinds of them.
var writers = map[string]writer{
	"attach": {preparing, func(s sidecar.Store) (sidecar.Transition, error) {
		return s.Attach(ctx, runID, sidecar.Attachment{PID: 4711, PGID: 4711, CreateTime: 1700000000.25})
	}},
	"claim": {ended, func(s sidecar.Store) (sidecar.Transition, error) { return s.ClaimNotice(ctx, runID) }},
	"late": {ended, func(s sidecar.Store) (sidecar.Transition, error) {
		return s.EndBySupervisor(ctx, runID, sidecar.SupervisorEnd{Status: "failed", ExitCode: &code, At: late})
	}},
	"settle": {ended, func(s sidecar.Store) (sidecar.Transition, error) {
		return s.SetNotice(ctx, runID, sidecar.Value(`{"attempted": true, "ok": true}`))
	}},
	"update": {started, func(s sidecar.Store) (sidecar.Transition, error) {
		change, err := s.Update(ctx, runID, set("added", sidecar.Value(`[1e400, {"a": -0}]`)))
		return sidecar.Transition{Change: change}, err
	}},
	"attest": {started, endEarly("attest")}, "hook": {started, endEarly("hook")},
	"kill": {started, endEarly("kill")}, "lifecycle": {started, endEarly("lifecycle")},
	"reap": {started, endEarly("reap")}, "spawn": {preparing, endEarly("spawn")},
	"supervisor": {started, endEarly("supervisor")},
	"interrupt": {func() *sidecar.Record { return told(started()) }, func(s sidecar.Store) (sidecar.Transition, error) {
		return s.RequestInterrupt(ctx, runID, sidecar.Interruption{Cause: sidecar.CauseShutdown, At: early})
	}},
	"prove": {func() *sidecar.Record { return told(ended()) }, func(s sidecar.Store) (sidecar.Transition, error) {
		return s.Prove(ctx, runID, sidecar.Proof{Left: sidecar.RemainsNone, At: early})
	}},
}

func started() *sidecar.Record { return record(runID) }

// ended is the record of a run that was reaped.
func ended() *sidecar.Record {
	r := record(runID)
	if _, err := (sidecar.Reaping{Finding: jobprobe.PIDAbsent, At: early}).Apply(r); err != nil {
		panic(err)
	}
	return r
}

func endEarly(name string) func(s sidecar.Store) (sidecar.Transition, error) {
	return func(s sidecar.Store) (sidecar.Transition, error) { return ends[name](s, early) }
}

// written returns the bytes before and after a writer's change.
func (w writer) written(t *testing.T) (before, after string) {
	t.Helper()
	got, err := w.write(newStore(t, w.begin()))
	if err != nil || got.Result != sidecar.Written {
		t.Fatalf("alone: %+v, %v", got, err)
	}
	return string(w.begin().Append(nil)), string(got.Record.Append(nil))
}
