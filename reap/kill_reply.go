package reap

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Reason codes of a kill. What is foreign to this host, boot or namespace has
// the code of its finding, such as "foreign_host".
const (
	// KillSignalled: the signal was sent.
	KillSignalled = "signalled"
	// KillNotRecorded: the signal was sent and the record could not be
	// changed to say so.
	KillNotRecorded = "kill_not_recorded"

	killNoJob            = "no_such_job"
	killUnreadable       = "job_record_unreadable"
	killWrongShape       = "job_record_wrong_shape"
	killOtherRun         = "job_record_names_another_run"
	killNoPID            = "no_pid_on_record"
	killNoIdentity       = "no_recorded_process_identity"
	killUnusable         = "recorded_identity_unusable"
	killUnverified       = "unverified_identity"
	killLeaderUnreadable = "leader_identity_unreadable"
	killRecycled         = "pid_recycled"
	killGroupUnreadable  = "leader_group_unreadable"
	killGroupMismatch    = "leader_group_mismatch"
	killLeaderChanged    = "leader_identity_changed"
	killGroupOfOther     = "group_belongs_to_another_run"
	killConflict         = "group_markers_conflict"
	killIncomplete       = "group_scan_incomplete"
	killGroupGone        = "group_gone"
	killPredates         = "group_predates_run"
	killUnproven         = "group_ownership_unproven"
	killOwnGroup         = "own_group"
	killNotOwner         = "not_owner"
	killGone             = "process_gone"
	killDenied           = "permission_denied"
)

// killTexts say what a reason code means; {…} stands for what is on record.
var killTexts = map[string]string{
	KillSignalled:        "sent {signal} to {group}",
	KillNotRecorded:      "sent {signal} to {group}, but the record of {run} could not be changed to say so ({refused}); a later observation records how the run ended",
	killNoJob:            "no job has the run id {run}",
	killUnreadable:       "the record of {run} is on disk and could not be read or parsed, so nothing was signalled",
	killWrongShape:       "the record of {run} holds valid JSON that is not an object, so nothing was signalled",
	killOtherRun:         "the record stored for {run} does not name that run but another one, so nothing was signalled; kill that run by its own id if it is the one meant to stop",
	killNoPID:            "no process number that can be signalled is on record",
	killNoIdentity:       "the record carries neither a start time nor a process group, so {pid} cannot be told from a reused number and nothing was signalled",
	killUnusable:         "the identity recorded for {pid} cannot be used, so nothing was signalled; stop the process by hand after confirming that it is this run's",
	killUnverified:       "a live process has the number {pid}, and nothing recorded confirms that it is this run's; nothing was signalled",
	killLeaderUnreadable: "whether {pid} is still the recorded process could not be found out ({finding}); nothing was signalled",
	killRecycled:         "already exited; the number {pid} belongs to another process now, which was left alone",
	killGroupUnreadable:  "the process group of {pid} could not be read; nothing was signalled",
	killGroupMismatch:    "{pid} is the recorded process but not in the recorded group {pgid}; nothing was signalled",
	killLeaderChanged:    "the process or the record changed while it was being verified; nothing was signalled; ask again",
	killGroupOfOther:     "{group} carries the marker of another run; nothing was signalled",
	killConflict:         "the processes of {group} carry the markers of different runs; nothing was signalled",
	killIncomplete:       "the recorded process does not lead {group}, or no longer, and not every process of {group} could be examined; nothing was signalled",
	killGroupGone:        "already exited; no live process remains in {group}",
	killPredates:         "the recorded process does not lead {group}, or no longer, and {group} holds a process older than the run; nothing was signalled",
	killUnproven:         "the recorded process does not lead {group}, or no longer, and nothing proves that the rest of {group} is this run's; nothing was signalled",
	killOwnGroup:         "{group} is the group, or that of the session, of the process that asks; nothing was signalled",
	killNotOwner:         "the process belongs to another user than the record of {run} does; nothing was signalled",
	killGone:             "the process exited before it could be signalled",
	killDenied:           "the operating system does not permit signalling {group}",
}

// undecided are the codes of a refusal for want of knowledge: the answer may
// be another one later, or for another user, or elsewhere.
var undecided = []string{
	killLeaderUnreadable, killGroupUnreadable, killIncomplete,
	jobprobe.ForeignHost.String(), jobprobe.ForeignBoot.String(),
	jobprobe.ForeignPIDNamespace.String(), jobprobe.ForeignTimeNamespace.String(),
	jobprobe.ProbeEnvironmentUnusable.String(), jobprobe.UnsupportedPlatform.String(),
}

// KillReply is the answer of Kill.
type KillReply struct {
	RunID string `json:"run_id"`
	// Killed says that a signal was sent.
	Killed bool `json:"killed"`
	// Reason is ReasonCode in a sentence.
	Reason     string `json:"reason"`
	ReasonCode string `json:"reason_code"`
	// PID is the recorded number, whatever JSON it is, and PGID the recorded
	// group if it is one; null if the record was not read that far.
	PID  jsontext.Value `json:"pid"`
	PGID jsontext.Value `json:"pgid"`
	// Signal is the name of the signal that was sent first.
	Signal *string `json:"signal"`
	// Escalated says that SIGKILL was sent after it.
	Escalated bool `json:"escalated"`
	// Cleanup is what is left of the group.
	Cleanup sidecar.Cleanup `json:"cleanup"`
	// Descendants says whether processes of the run live outside its group.
	// They are never signalled.
	Descendants sidecar.Remains `json:"descendants"`
	// Recorded says that the record tells of the kill: as the run's end, or
	// as group_reaped_at if the run had ended before.
	Recorded bool `json:"recorded"`
	// Refused says why the record could not be changed, as a sidecar.Refusal.
	Refused *string `json:"refused"`
}

// Undecided says that nothing was signalled because something could not be
// found out, and not because the answer is no.
func (r *KillReply) Undecided() bool { return !r.Killed && slices.Contains(undecided, r.ReasonCode) }

// explain sets the reason of a reply.
func (k *killing) explain(code string) {
	k.reply.ReasonCode = code
	text, ok := killTexts[code]
	if !ok {
		text = "the recorded process cannot be judged from here ({finding}); nothing was signalled"
	}
	group := "process " + strconv.FormatInt(k.pid, 10)
	if k.pgid != 0 {
		group = "process group " + strconv.FormatInt(k.pgid, 10)
	}
	k.reply.Reason = strings.NewReplacer(
		"{run}", k.id,
		"{pid}", strconv.FormatInt(k.pid, 10),
		"{pgid}", strconv.FormatInt(k.pgid, 10),
		"{group}", group,
		"{finding}", k.finding.String(),
		"{signal}", signalName(k.opt.Signal),
		"{refused}", deref(k.reply.Refused),
	).Replace(text)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
