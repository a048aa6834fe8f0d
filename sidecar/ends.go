package sidecar

import (
	"context"
	"time"

	"github.com/jobprobe/jobprobe"
)

// The writers of an end, as terminal_source names them.
const (
	SourceHook       = "cli_terminal_hook"
	SourceLifecycle  = "lifecycle_cache"
	SourceSpawn      = "spawn_failure"
	SourceKill       = "mcp_kill"
	SourceReaper     = "mcp_orphan_reaper"
	SourceSupervisor = "supervisor_exit"
	SourceOperator   = "operator_attested"
)

// Outcomes say how the work came out. The set is closed; the empty string is
// the outcome of a run that has not ended.
const (
	Succeeded     = "succeeded"
	Failed        = "failed"
	Cancelled     = "cancelled"
	Indeterminate = "indeterminate" // nobody reported it
)

// OutcomeOf returns the outcome of an ended run: the recorded one, or the one
// that its status implies if none of the closed set is on record.
func OutcomeOf(r *Record) string {
	switch recorded, _ := r.Text("outcome"); recorded {
	case Succeeded, Failed, Cancelled, Indeterminate:
		return recorded
	}
	switch status, _ := r.Text("status"); status {
	case "completed":
		return Succeeded
	case "cancelled", "aborted":
		return Cancelled
	}
	return Failed
}

// How exact finished_at is.
const (
	// Observed: the reporter saw the run end.
	Observed = "observed"
	// UpperBound: the run had ended by then.
	UpperBound = "upper_bound"
)

// end is the terminal fact of a run. Fields are written in the order of more,
// which is the peer's; status and finished_at keep the places they have.
type end struct {
	status string
	at     time.Time
	source string
	more   []Field
	report []Field // what else a late report keeps
	silent bool    // leaves no late report
	owed   bool    // somebody is to be told: leave the marker that says so
}

// write records the end if there is none. A second one changes nothing of the
// first: it is kept as late_report, if it is the first to come late and is not
// the recorded one told again.
func (e *end) write(r *Record) (won bool) {
	if !r.Ended() {
		r.Set("status", Text(e.status))
		r.Set("finished_at", timeValue(e.at))
		for _, f := range e.more {
			r.Set(f.Name, f.Value)
		}
		if e.owed {
			r.Set("notify_delivery", pending())
		}
		follow(r, e.at, func(t *Turn) { *t = ending(r, *t) })
		return true
	}
	if _, told := r.Raw("late_report"); !told && !e.silent && !e.recorded(r) {
		r.Set("late_report", Object(append([]Field{
			{"status", Text(e.status)},
			{"reported_at", timeValue(e.at)},
			{"terminal_source", Text(e.source)},
		}, e.report...)...))
	}
	return false
}

// recorded reports whether the recorded end is this very one, as it is when a
// reporter that never got its answer tries again.
func (e *end) recorded(r *Record) bool {
	status, _ := r.Text("status")
	source, _ := r.Text("terminal_source")
	at, _ := r.Text("finished_at")
	return status == e.status && source == e.source && at == FormatTime(e.at)
}

// given returns the text as a field, or nothing if it is empty.
func given(name, text string) []Field {
	if text == "" {
		return nil
	}
	return []Field{{name, Text(text)}}
}

// precise says who reported the end, and how exact its time is.
func precise(precision, source string) []Field {
	return []Field{
		{"finished_at_precision", Text(precision)},
		{"terminal_source", Text(source)},
	}
}

// HookEnd is the end that a run reports itself.
type HookEnd struct {
	Status     string
	ReasonCode string // may be empty
	At         time.Time
	NoticeOwed bool // a notice is to be delivered; see [Store.ClaimNotice]
}

// EndByHook records the end that the run's terminal hook reports.
func (s Store) EndByHook(ctx context.Context, id string, e HookEnd) (Transition, error) {
	return s.transit(ctx, id, e)
}

// Apply is the change of [Store.EndByHook], for use inside [Store.Update].
func (e HookEnd) Apply(r *Record) (bool, error) {
	reason := given("reason_code", e.ReasonCode)
	more := fresh(r, Field{"cli_status", Text(e.Status)})
	more = append(append(more, reason...), precise(Observed, SourceHook)...)
	end := end{status: e.Status, at: e.At, source: SourceHook, more: more, report: reason, owed: e.NoticeOwed}
	return end.write(r), nil
}

// fresh puts an unattempted notice before the fields, unless there is a notice.
func fresh(r *Record, fields ...Field) []Field {
	if _, ok := r.Raw("notify_delivery"); ok {
		return fields
	}
	return append([]Field{{"notify_delivery", unattempted()}}, fields...)
}

// SpawnFailure is the end of a run whose command could not be started.
type SpawnFailure struct {
	Reason     string // what the system said
	ReasonCode string // may be empty
	At         time.Time
	// Attached says that the reporter attached the run itself and knows that
	// its command never began: the run may be started by its record.
	Attached   bool
	NoticeOwed bool // a notice is to be delivered; see [Store.ClaimNotice]
}

// SpawnFailed records that a preparing run could not be started. A run that
// has started is not touched, unless Attached: the error is [ErrNotPreparing].
func (s Store) SpawnFailed(ctx context.Context, id string, f SpawnFailure) (Transition, error) {
	return s.transit(ctx, id, f)
}

// Apply is the change of [Store.SpawnFailed], for use inside [Store.Update].
func (f SpawnFailure) Apply(r *Record) (bool, error) {
	if !r.Ended() {
		if !preparing(r) && !f.Attached {
			return false, ErrNotPreparing
		}
		r.Set("spawn_state", Text("failed"))
	}
	reason := given("reason_code", f.ReasonCode)
	more := append([]Field{{"reason", Text("spawn failed: " + f.Reason)}}, reason...)
	more = append(more, precise(Observed, SourceSpawn)...)
	end := end{status: "failed", at: f.At, source: SourceSpawn, more: more, report: reason, owed: f.NoticeOwed}
	return end.write(r), nil
}

// ReasonGone is the reason code of a run whose process is gone and that
// reported no end.
const ReasonGone = "process_gone_without_outcome"

// ReasonDraining is the reason code of a run that was being started when its
// store was drained.
const ReasonDraining = "draining"

// Reaping is the end of a run whose process was found gone.
type Reaping struct {
	Finding    jobprobe.Finding
	ReasonCode string    // empty means [ReasonGone]
	At         time.Time // of the finding; the end came no later
	NoticeOwed bool      // a notice is to be delivered; see [Store.ClaimNotice]
}

// Reap records the end of a started run that reported none. The finding must
// conclude [jobprobe.ProcessGone]; any other is [ErrNotGone]. A run that has
// ended, or has not started, is left as it is, and the call has not won.
func (s Store) Reap(ctx context.Context, id string, f Reaping) (Transition, error) {
	return s.transit(ctx, id, f)
}

// Apply is the change of [Store.Reap], for use inside [Store.Update].
func (f Reaping) Apply(r *Record) (bool, error) {
	if f.Finding.Conclusion() != jobprobe.ProcessGone {
		return false, ErrNotGone
	}
	if spawnState(r) != "started" {
		return false, nil
	}
	reason := f.ReasonCode
	if reason == "" {
		reason = ReasonGone
	}
	more := []Field{{"outcome", Text("indeterminate")}, {"reason_code", Text(reason)}}
	more = append(more, precise(UpperBound, SourceReaper)...)
	more = append(more,
		Field{"terminal_evidence", Object(
			Field{"kind", Text("process_identity_conclusively_gone")},
			Field{"finding", Text(f.Finding.String())})},
		Field{"notify_delivery", unattempted()})
	end := end{status: "exited", at: f.At, source: SourceReaper, more: more, silent: true, owed: f.NoticeOwed}
	return end.write(r), nil
}

// SupervisorEnd is the end that a run's supervisor saw.
type SupervisorEnd struct {
	Status     string
	Outcome    string // may be empty: derived from the status by readers
	ReasonCode string // may be empty
	ExitCode   *int   // nil if the command did not exit
	Signal     string // the signal's name, if one ended the command
	Core       bool   // the command dumped core
	At         time.Time
	NoticeOwed bool // a notice is to be delivered; see [Store.ClaimNotice]
}

// EndBySupervisor records how the run's supervisor saw it end.
func (s Store) EndBySupervisor(ctx context.Context, id string, e SupervisorEnd) (Transition, error) {
	return s.transit(ctx, id, e)
}

// Apply is the change of [Store.EndBySupervisor], for use inside [Store.Update].
func (e SupervisorEnd) Apply(r *Record) (bool, error) {
	var report []Field
	if e.ExitCode != nil {
		report = append(report, Field{"exit_code", Int(int64(*e.ExitCode))})
	}
	report = append(report, given("signal", e.Signal)...)
	if e.Core {
		report = append(report, Field{"core_dumped", Bool(true)})
	}
	report = append(report, given("reason_code", e.ReasonCode)...)
	more := append(given("outcome", e.Outcome), report...)
	more = append(more, precise(Observed, SourceSupervisor)...)
	more = append(more, fresh(r)...)
	end := end{status: e.Status, at: e.At, source: SourceSupervisor, more: more, report: report, owed: e.NoticeOwed}
	return end.write(r), nil
}

// KillEnd is the end by a signal that was sent on request.
type KillEnd struct {
	At         time.Time
	NoticeOwed bool // a notice is to be delivered; see [Store.ClaimNotice]
}

// EndByKill records that a run was killed. Of a run that has ended only
// group_reaped_at is set: the signal went to what was left of its group.
func (s Store) EndByKill(ctx context.Context, id string, e KillEnd) (Transition, error) {
	return s.transit(ctx, id, e)
}

// Apply is the change of [Store.EndByKill], for use inside [Store.Update].
func (e KillEnd) Apply(r *Record) (bool, error) {
	if r.Ended() {
		r.Set("group_reaped_at", timeValue(e.At))
		follow(r, e.At, func(t *Turn) { t.Cleanup, t.Ownership = CleanupRequested, CleanupPending })
		return false, nil
	}
	more := append([]Field{{"outcome", Text("cancelled")}}, precise(Observed, SourceKill)...)
	end := end{status: "killed", at: e.At, source: SourceKill, more: more, silent: true, owed: e.NoticeOwed}
	return end.write(r), nil
}

// LifecycleEnd is the end that another store of the run's state reports.
type LifecycleEnd struct {
	Status      string
	Outcome     string // may be empty: derived from the status by readers
	ReasonCode  string // empty is recorded as null
	At          time.Time
	Approximate bool // At is not the end itself but some time after it
	NoticeOwed  bool // a notice is to be delivered; see [Store.ClaimNotice]
}

// EndByLifecycle records an end that a lifecycle adapter reports.
func (s Store) EndByLifecycle(ctx context.Context, id string, e LifecycleEnd) (Transition, error) {
	return s.transit(ctx, id, e)
}

// Apply is the change of [Store.EndByLifecycle], for use inside [Store.Update].
func (e LifecycleEnd) Apply(r *Record) (bool, error) {
	precision := Observed
	if e.Approximate {
		precision = UpperBound
	}
	more := append(given("outcome", e.Outcome), Field{"reason_code", textOrNull(e.ReasonCode)})
	more = append(more, precise(precision, SourceLifecycle)...)
	end := end{
		status: e.Status, at: e.At, source: SourceLifecycle, more: more,
		report: given("reason_code", e.ReasonCode), owed: e.NoticeOwed,
	}
	return end.write(r), nil
}

// Attestation is an operator's word that a run has ended.
type Attestation struct {
	Text       string
	At         time.Time
	NoticeOwed bool // a notice is to be delivered; see [Store.ClaimNotice]
}

// Attest records an end on an operator's word. The caller has made sure that
// the process is not alive.
func (s Store) Attest(ctx context.Context, id string, a Attestation) (Transition, error) {
	return s.transit(ctx, id, a)
}

// Apply is the change of [Store.Attest], for use inside [Store.Update].
func (a Attestation) Apply(r *Record) (bool, error) {
	more := append([]Field{{"outcome", Text("indeterminate")}}, precise(UpperBound, SourceOperator)...)
	more = append(more, Field{"terminal_evidence", Object(
		Field{"kind", Text("operator_attestation")}, Field{"text", Text(a.Text)})})
	end := end{status: "exited", at: a.At, source: SourceOperator, more: more, silent: true, owed: a.NoticeOwed}
	return end.write(r), nil
}
