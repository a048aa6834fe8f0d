package main

// code is a word of answers and records, and what it means to a user.
type code struct {
	Name    string `json:"code"`
	Kind    string `json:"kind"`
	Meaning string `json:"meaning"`
	// Next is what to do about it; empty if nothing needs doing.
	Next string `json:"next,omitzero"`
}

// What a code can be about.
const (
	aConclusion = "conclusion"
	aFinding    = "finding"
	aSource     = "source"
	aReason     = "reason"
	anOutcome   = "outcome"
	aRefusal    = "refusal"
	aKillCode   = "kill"
	aNoticeCode = "notice"
	anError     = "error"
	aStatus     = "status"
	aPrecision  = "precision"
	aClaimState = "claim"
	aWaitList   = "wait"
	aState      = "state"
	aCleanup    = "cleanup"
	anOwnership = "ownership"
	aCause      = "lifecycle reason"
	aWarning    = "warning"
	aDrain      = "drain"
	aKept       = "prune"
	aResult     = "result"
)

const (
	lookAgain  = "Look again later, or from where the record was made."
	closeIt    = "If you know that it is over, say so with \"jobprobe close\"."
	readIt     = "Look at the record's job.json; nothing in it was changed."
	seeList    = "\"jobprobe list\" shows the jobs; --dir names another store."
	theyAsk    = "Try again: nothing was written, and the next command that looks completes it."
	beforeIt   = "Look at what it has done before you run it again."
	notSignals = "Nothing was signalled. Look at the processes yourself."
)

var codes = []code{
	{"alive", aConclusion, "A live process holds the recorded pid, and nothing contradicts that it is the recorded one. Only identity_confirmed is a positive identification.", ""},
	{"process_gone", aConclusion, "The recorded process can run no more code. Only this ends a job.", ""},
	{"unknown", aConclusion, "Nothing is proved, in either direction.", "Do nothing that assumes an answer. The finding says why."},

	{"not_probed", aFinding, "Nobody looked.", ""},
	{"identity_confirmed", aFinding, "A live process has the pid, and the kernel's stamp of it is the recorded one.", ""},
	{"identity_not_recorded", aFinding, "A live process has the pid, and nothing was recorded to compare it with.", "Record the whole output of \"jobprobe identify\" next time."},
	{"identity_unusable", aFinding, "A live process has the pid, and what was recorded of it cannot be compared: it is malformed, or of another unit.", "Compare the recorded identity with \"jobprobe identify\"."},
	{"pid_absent", aFinding, "No process has the pid in the namespace that issued it.", ""},
	{"pid_recycled", aFinding, "The pid belongs to another process now.", "Signal nothing by that number."},
	{"disappeared_during_probe", aFinding, "The process ended while it was looked at, or has exited and only its number is still held.", ""},
	{"unusable_pid", aFinding, "The recorded number names no process here. Nothing was asked of the system, which may take such a number for a group or for everyone.", closeIt},
	{"access_denied", aFinding, "The system refused or hid the answer.", "Ask as the process's owner or as root."},
	{"identity_unreadable", aFinding, "The pid is held, or may be, and its stamp could not be read or compared with certainty.", lookAgain},
	{"probe_environment_unusable", aFinding, "The probe cannot see even its own process: /proc is missing or is another namespace's.", "Ask where /proc is mounted."},
	{"foreign_host", aFinding, "The record belongs to another host.", "Ask there. " + closeIt},
	{"foreign_boot", aFinding, "The record belongs to another boot, or the boots cannot be compared.", lookAgain + " " + closeIt},
	{"foreign_pid_namespace", aFinding, "The pid was issued in another pid namespace, as of a container.", "Ask there. " + closeIt},
	{"foreign_time_namespace", aFinding, "The start time was read in another time namespace, and nothing finer was recorded.", "Ask there."},
	{"unsupported_platform", aFinding, "This operating system gives processes no identity that could be compared.", ""},

	{"supervisor_exit", aSource, "The job's supervisor saw its exit status.", ""},
	{"cli_terminal_hook", aSource, "The run reported its own end.", ""},
	{"mcp_orphan_reaper", aSource, "An observer found the process conclusively gone.", ""},
	{"spawn_failure", aSource, "The job's command never ran.", ""},
	{"mcp_kill", aSource, "It was killed by \"jobprobe kill\" or the peer's.", ""},
	{"lifecycle_cache", aSource, "The lifecycle command knew the end.", ""},
	{"operator_attested", aSource, "Somebody said so, with \"jobprobe close\".", ""},

	{"succeeded", anOutcome, "The work reported success.", ""},
	{"failed", anOutcome, "The work reported failure, or never started.", ""},
	{"cancelled", anOutcome, "The work was stopped.", ""},
	{"indeterminate", anOutcome, "The process is gone and reported nothing. It may have done its work, or half of it.", beforeIt},

	{"process_gone_without_outcome", aReason, "The process is conclusively gone and nobody saw how it ended.", beforeIt},
	{"process_gone_notice_recorded_undelivered", aReason, "As process_gone_without_outcome, of a run that left a notice which was not delivered.", "Read the run's own artifacts."},
	{"spawn_failed", aReason, "The command could not be started.", "The record says why; \"jobprobe status\" shows it."},
	{"spawn_abandoned", aReason, "Whoever was starting the job is gone, and its command never ran.", "Run it again."},
	{"no_artifacts", aReason, "The run completed and left no artifacts.", ""},
	{"run.failed.exit_nonzero", aReason, "The command exited with a status that is not 0.", "\"jobprobe output\" shows what it printed."},
	{"run.failed.signal", aReason, "A signal ended the command that was not one of ours.", "\"jobprobe output\" shows what it printed."},
	{"run.timed_out.deadline", aReason, "The command was stopped when its --timeout had passed.", ""},
	{"draining", aReason, "The store was drained before the job had started; its command never ran.", "\"jobprobe drain --reopen\" admits jobs again."},
	{"descendants_remain", aReason, "Processes that carry the job's mark live outside of its group. They are never signalled.", "Find them by JOBPROBE_RUN_ID in their environment."},
	{"reopened", aReason, "The store was reopened while it was drained.", "Drain again."},
	{"run.cancelled.sigterm", aReason, "The supervisor was asked to stop (SIGTERM), and stopped the command.", ""},

	{"unspecified", aRefusal, "Why the record was not changed is not known.", theyAsk},
	{"absent", aRefusal, "There is no such record, or its directory was moved away.", seeList},
	{"lock_unavailable", aRefusal, "The record's lock was not to be had in time, or at all.", theyAsk},
	{"unreadable", aRefusal, "The record is damaged.", readIt},
	{"wrong_shape", aRefusal, "The record is JSON, and no object.", readIt},
	{"names_another_run", aRefusal, "The record's run_id is not the name of its directory.", readIt},
	{"too_new", aRefusal, "The record was written by a newer program, whose facts this one might lose.", "Use the newer program."},
	{"no_space", aRefusal, "The disk or the quota is full.", theyAsk},
	{"read_only", aRefusal, "The file system is read-only.", theyAsk},
	{"record_busy", aRefusal, "Another program kept the record from being replaced (Windows).", theyAsk},
	{"io_error", aRefusal, "The system failed to write the record; the message has its error.", theyAsk},

	{"not_done", aResult, "Nothing was written.", ""},
	{"written", aResult, "The changed record is published and durable.", ""},
	{"written_unsynced", aResult, "The changed record is published, and a loss of power may undo that.", ""},
	{"unchanged", aResult, "There was nothing to change, and nothing was written.", ""},

	{"signalled", aKillCode, "The signal was sent.", ""},
	{"kill_not_recorded", aKillCode, "The signal was sent, and the record could not be changed to say so.", "The next command that looks records the end."},
	{"no_such_job", aKillCode, "No job has this run id.", seeList},
	{"job_record_unreadable", aKillCode, "The record is damaged.", readIt},
	{"job_record_wrong_shape", aKillCode, "The record is JSON, and no object.", readIt},
	{"job_record_names_another_run", aKillCode, "The record's run_id is not the name of its directory.", readIt},
	{"no_pid_on_record", aKillCode, "The record names no process.", ""},
	{"no_recorded_process_identity", aKillCode, "The record has a pid and nothing to tell its process by.", notSignals},
	{"recorded_identity_unusable", aKillCode, "What the record has to tell the process by cannot be compared.", notSignals},
	{"unverified_identity", aKillCode, "It could not be proved that the process is the recorded one.", notSignals},
	{"leader_identity_unreadable", aKillCode, "The process is there, and its stamp could not be read.", "Ask as the process's owner or as root."},
	{"pid_recycled", aKillCode, "The pid belongs to another process now, which was left alone.", ""},
	{"leader_group_unreadable", aKillCode, "The process group of the process could not be read.", notSignals},
	{"leader_group_mismatch", aKillCode, "The process is in another group than the recorded one.", notSignals},
	{"leader_identity_changed", aKillCode, "The process was replaced while it was looked at.", lookAgain},
	{"group_belongs_to_another_run", aKillCode, "The processes of the group carry another run's mark.", notSignals},
	{"group_markers_conflict", aKillCode, "The processes of the group carry the marks of several runs.", notSignals},
	{"group_scan_incomplete", aKillCode, "Not every process could be looked at.", "Ask as the job's owner or as root."},
	{"group_gone", aKillCode, "No process of the group is left.", ""},
	{"group_predates_run", aKillCode, "The group is older than the run.", notSignals},
	{"group_ownership_unproven", aKillCode, "The recorded process does not lead the group, or no longer, and nothing proves that the rest of it is the run's.", notSignals},
	{"own_group", aKillCode, "The recorded group is the one that asks.", ""},
	{"not_owner", aKillCode, "The job belongs to another user.", "Ask as that user."},
	{"process_gone", aKillCode, "The process had exited before it could be signalled.", ""},
	{"permission_denied", aKillCode, "The system refused to signal the process.", "Ask as the process's owner or as root."},

	{"delivery_command_is_not_valid_json", aNoticeCode, "The notify command is not JSON.", "Give it as a JSON list of words."},
	{"delivery_command_is_not_a_list_of_strings", aNoticeCode, "The notify command is no list of words.", "Give it as a JSON list of words."},
	{"delivery_command_is_empty", aNoticeCode, "The notify command has no words.", "Give it as a JSON list of words."},
	{"delivery_command_needs_a_sender_and_none_was_given", aNoticeCode, "The notify command has {sender} in it, and the job names none.", "Start jobs with --notify-sender."},
	{"delivery_cwd_unavailable_at_submit", aNoticeCode, "The directory to notify from was not known when the job was started.", ""},
	{"delivery_cwd_is_not_a_directory", aNoticeCode, "The directory to notify from is no directory any more.", ""},
	{"record_not_trusted", aNoticeCode, "Somebody else owns the record or could have written it, so its command was not run.", "Make the record and its directories writable by their owner only."},

	{"invalid_input", anError, "This is no run id.", seeList},
	{"not_found", anError, "No job has this run id.", seeList},
	{"record_unusable", anError, "The record is damaged.", readIt},
	{"no_such_process", anError, "No process has this pid.", ""},
	{"unknown", anError, "It cannot be told from here.", lookAgain},
	{"refused", anError, "The command could not be carried out; the message says why.", ""},
	{"usage", anError, "The command line or the configuration is wrong.", "\"jobprobe COMMAND --help\" shows what it takes."},
	{"claim_held", anError, "A live job holds the key, or one of which it is not known.", "Wait for the job that the message names."},
	{"interrupted", anError, "A signal ended the command before it was through; the message says how far it was.", "Run it again: what it has recorded stays."},
	{"left_running", anError, "The wait was interrupted; the job goes on.", "\"jobprobe wait\" waits for it again."},

	{"running", aStatus, "No end is on record, and the process is there or nothing else is proved.", ""},
	{"ending", aStatus, "The process is gone, and its supervisor is there to say how it ended.", "Wait for it."},
	{"completed", aStatus, "The run's word for an end in success.", ""},
	{"failed", aStatus, "The run's word for an end in failure, or the job never started.", "\"jobprobe output\" shows what it printed."},
	{"cancelled", aStatus, "The run's word for an end because it was asked to stop.", ""},
	{"killed", aStatus, "It was ended by \"jobprobe kill\" or the peer's. Its processes may take a while to go.", ""},
	{"timed_out", aStatus, "It was stopped when its --timeout had passed.", ""},
	{"exited", aStatus, "The process is gone and reported nothing.", beforeIt},
	{"unknown", aStatus, "The record does not say.", readIt},

	{"observed", aPrecision, "The time of an end that its reporter saw or caused.", ""},
	{"upper_bound", aPrecision, "The end came no later than this; how much earlier is not known.", ""},

	{"held", aClaimState, "The job that holds the key is starting, alive, or about to record its end.", ""},
	{"free", aClaimState, "The end of the key's last job is on record.", ""},
	{"unknown", aClaimState, "The record of the job that holds the key cannot be used, or its process cannot be asked about from here. The key is not free.", closeIt},

	{"draining", anError, "The store admits no jobs.", "\"jobprobe drain --reopen\" admits them again."},
	{"spawn_failed", anError, "The job was recorded and could not be started; the message says why.", "\"jobprobe status\" shows it."},

	{"none", aState, "The job has not started.", ""},
	{"running", aState, "The job has started, and no end is on record.", ""},
	{"interrupt_requested", aState, "The job runs, and was asked to stop.", ""},
	{"completed", aState, "The job reported success.", ""},
	{"failed", aState, "The job reported failure, or never started.", ""},
	{"interrupted", aState, "The job was stopped: on request, or because its time was up.", ""},
	{"recovery_needed", aState, "The job is over and nobody reported how it came out.", beforeIt},

	{"unknown", aCleanup, "Not everything could be seen.", lookAgain},
	{"not_requested", aCleanup, "Nobody asked the job to stop.", ""},
	{"requested", aCleanup, "The job was signalled, and nobody has looked since.", "\"jobprobe lifecycle\" looks."},
	{"completed", aCleanup, "No process of the job is left.", ""},
	{"timed_out", aCleanup, "Processes of the job were left when the time for it was over.", "\"jobprobe lifecycle\" looks again."},

	{"runtime_task_only", anOwnership, "At most the recorded process is accounted for, not what it started.", "\"jobprobe lifecycle\" looks again."},
	{"cleanup_pending", anOwnership, "Processes of the job live, or nobody has looked since it was asked to stop.", "\"jobprobe lifecycle\" looks again."},
	{"cleanup_confirmed", anOwnership, "Every process of the job was seen gone: its group, and whatever carries its mark. A process that has left both, or, but for root, became another user's, is not seen.", ""},

	{"none", aCause, "There is nothing to tell.", ""},
	{"user_interrupt", aCause, "Somebody stopped it.", ""},
	{"shutdown", aCause, "The store was drained.", ""},
	{"deadline_exceeded", aCause, "Its --timeout had passed.", ""},
	{"provider_failure", aCause, "Its own command failed.", "\"jobprobe output\" shows what it printed."},
	{"runtime_restart", aCause, "Its supervisor was lost, and the job was found gone.", beforeIt},
	{"runtime_failure", aCause, "It could not be started.", "\"jobprobe status\" says why."},

	{"recovery_needed", aWarning, "The job is over and nobody reported how it came out.", beforeIt},
	{"history_damaged", aWarning, "A part of the job's history could not be read. The rest of the record is not affected.", ""},

	{"unknown", aDrain, "There was no drain.", ""},
	{"clean", aDrain, "No jobs are admitted, and nothing that can be seen of any job of this host runs.", ""},
	{"deadline_exceeded", aDrain, "Something may still run of the jobs that remain.", "Drain again, or look at what remains."},
	{"persistence_failed", aDrain, "Something that happened is not on record.", "See that the store can be written, and drain again."},

	{"process_alive", aKept, "A process of the ended job lives.", ""},
	{"process_unknown", aKept, "Whether the ended job's process lives cannot be told from here.", "Prune where the job ran."},
	{"notice_pending", aKept, "Somebody is still to be told of the end.", ""},

	{"pending", aWaitList, "Jobs that waiting longer can still help.", ""},
	{"stopped_without_end", aWaitList, "Jobs whose process is not there to wait for, and whose end could not be recorded.", "\"jobprobe status\" says why."},
	{"unresolved_spawn", aWaitList, "Jobs that were being started long ago and have not begun.", "\"jobprobe status\" shows who was starting them."},
}
