package reap

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/jobprobe/jobprobe/sidecar"
)

// maxCause bounds what is read of terminal_cause.json, in bytes.
const maxCause = 4096

// causeClasses are the failures that a run may blame. Any other is "unknown".
var causeClasses = []string{
	"ProviderError", "ProviderQuotaError", "ProviderAuthError", "ProviderContextError",
	"ProviderCapacityError", "ProviderUnsupportedModelError", "ProviderSafetyError",
	"ProviderStreamDisconnectError", "ProviderTeardownError", "ProviderPermissionError",
	"ProviderAdapterError", "WorkerLivenessError",
}

// failureCause is what a run left in its job's directory about why it failed,
// reduced to what may be recorded; nil if there is nothing that can be used.
func (o Observer) failureCause(id string) sidecar.Value {
	if !sidecar.ValidRunID(id) {
		return nil
	}
	cause := readObject(filepath.Join(o.Store.Dir, id, "terminal_cause.json"), maxCause)
	if cause == nil {
		return nil
	}
	class, source := textOf(cause, "class"), textOf(cause, "status_source")
	if !slices.Contains(causeClasses, class) {
		class = "unknown"
	}
	if !slices.Contains([]string{"received", "absent", "unreadable"}, source) {
		source = "unreadable"
	}
	fields := []sidecar.Field{
		{Name: "class", Value: sidecar.Text(class)},
		{Name: "retryable", Value: sidecar.Bool(literal(cause, "retryable", "true"))},
		{Name: "status_source", Value: sidecar.Text(source)},
	}
	if status, ok := cause.Int("provider_status"); ok && source == "received" {
		fields = append(fields, sidecar.Field{Name: "provider_status", Value: sidecar.Int(status)})
	}
	return sidecar.Object(fields...)
}

// reasonCodes are the codes that a run may give for its end.
var reasonCodes = strings.Fields(`
	legacy.imported
	run.aborted.user
	run.cancelled.force_kill run.cancelled.manual_kill run.cancelled.orchestrator run.cancelled.sigint
	run.cancelled.sigterm run.cancelled.stale_auto run.cancelled.system
	run.completed.finalize_error run.completed.gate_rejected run.completed.ok run.completed.spawn_refused
	run.completed_empty.no_evidence
	run.failed.artifact_write run.failed.cwd_inherit_refused run.failed.escalated run.failed.exception
	run.failed.exit_nonzero run.failed.lease_attempts_exhausted run.failed.missing_artifact
	run.failed.missing_cwd run.failed.never_dispatched run.failed.provider_nonretryable
	run.failed.provider_retryable
	run.paused.operator run.queued.lease_expired
	run.skipped.duration_exceeds_lease run.skipped.waiter_cap_exceeded
	run.started.ok run.timed_out.deadline
`)

// ReasonOf returns the reason_code of the JSON object that a run's own
// notification carries, empty if there is none or it is not a known code of
// runs.
func ReasonOf(payload string) string {
	rec, err := sidecar.Parse([]byte(payload))
	if err != nil {
		return ""
	}
	if code := textOf(rec, "reason_code"); slices.Contains(reasonCodes, code) {
		return code
	}
	return ""
}
