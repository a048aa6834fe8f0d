package reap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// answer is what one observation of a started, unended job says.
type answer struct {
	Status, Identity, Conclusion string
	Alive, Terminal, Orphaned    bool
	Written                      bool
}

// The kinds of answer; the identity word is the finding's own.
func running(word, conclusion string) answer {
	return answer{Status: "running", Identity: word, Conclusion: conclusion, Alive: true}
}

func lost(word string) answer {
	return answer{Status: "exited", Identity: word, Conclusion: "process_gone", Terminal: true, Written: true}
}

// answers is the whole table, one line a finding. Exactly three write.
var answers = map[jobprobe.Finding]answer{
	jobprobe.IdentityConfirmed:        running("confirmed", "alive"),
	jobprobe.IdentityNotRecorded:      running("not_recorded", "alive"),
	jobprobe.IdentityUnusable:         running("unusable", "alive"),
	jobprobe.PIDAbsent:                lost("null"),
	jobprobe.PIDRecycled:              lost("recycled"),
	jobprobe.DisappearedDuringProbe:   lost("gone"),
	jobprobe.UnusablePID:              {Status: "exited", Identity: "unusable_pid", Conclusion: "unknown", Orphaned: true},
	jobprobe.NotProbed:                running("unreadable", "unknown"),
	jobprobe.AccessDenied:             running("unreadable", "unknown"),
	jobprobe.IdentityUnreadable:       running("unreadable", "unknown"),
	jobprobe.ProbeEnvironmentUnusable: running("unreadable", "unknown"),
	jobprobe.ForeignHost:              running("unreadable", "unknown"),
	jobprobe.ForeignBoot:              running("unreadable", "unknown"),
	jobprobe.ForeignPIDNamespace:      running("unreadable", "unknown"),
	jobprobe.ForeignTimeNamespace:     running("unreadable", "unknown"),
	jobprobe.UnsupportedPlatform:      running("unreadable", "unknown"),
	200:                               running("unreadable", "unknown"), // added later
}

func TestPoint1OnlyPositiveFindingsEnd(t *testing.T) {
	for f := range jobprobe.Finding(201) {
		want, listed := answers[f]
		if !listed {
			if _, err := f.MarshalText(); err == nil {
				t.Errorf("the finding %v is not in the table", f)
			}
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			w := newWorld(t)
			w.sees(childPID, f)
			w.putRecord(started())
			before := w.bytes(runID)
			job := w.status(runID)
			got := answer{
				Status: job.Status, Identity: str(job.PIDIdentity), Conclusion: job.LivenessConclusion,
				Alive: job.Alive, Terminal: job.Terminal, Orphaned: job.PossiblyOrphaned,
				Written: string(w.bytes(runID)) != string(before),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want.Written {
				checkReaped(w, f)
			} else {
				w.untouched(runID, before)
			}
			agree(w, &job)
		})
	}
}

// checkReaped fails unless the record tells of exactly this loss.
func checkReaped(w *world, f jobprobe.Finding) {
	w.t.Helper()
	want := map[string]string{
		"status": `"exited"`, "outcome": `"indeterminate"`, "spawn_state": `"started"`,
		"reason_code": `"process_gone_without_outcome"`, "terminal_source": `"mcp_orphan_reaper"`,
		"finished_at": `"2026-08-01T12:00:01.123456+00:00"`, "finished_at_precision": `"upper_bound"`,
	}
	for name, text := range want {
		if got := w.onDisk(runID, name); got != text {
			w.t.Errorf("%s is %s, want %s", name, got, text)
		}
	}
	if got := w.onDisk(runID, "terminal_evidence"); !strings.Contains(got, `"`+f.String()+`"`) {
		w.t.Errorf("terminal_evidence %s does not name %v", got, f)
	}
}

// agree fails unless list and wait say the same as status.
func agree(w *world, job *Job) {
	w.t.Helper()
	rows := w.list(ListOptions{}).Jobs
	runs := w.look1(runID).Runs
	if len(rows) != 1 || len(runs) != 1 {
		w.t.Fatalf("%d rows and %d runs of one job", len(rows), len(runs))
	}
	want := []string{job.Status, str(job.Outcome), str(job.ReasonCode), string(job.FinishedAt)}
	row, run := rows[0], runs[0]
	if diff := cmp.Diff(want, []string{row.Status, str(row.Outcome), str(row.ReasonCode), string(row.FinishedAt)}); diff != "" {
		w.t.Errorf("list (-status +list):\n%s", diff)
	}
	if diff := cmp.Diff(want, []string{run.Status, str(run.Outcome), str(run.ReasonCode), string(run.FinishedAt)}); diff != "" {
		w.t.Errorf("wait (-status +wait):\n%s", diff)
	}
	if row.Terminal != job.Terminal || run.Terminal != job.Terminal || run.PossiblyOrphaned != job.PossiblyOrphaned {
		w.t.Errorf("terminal: status %v, list %v, wait %v", job.Terminal, row.Terminal, run.Terminal)
	}
}

// A supervisor that lives will say how its job ended; one that may live may.
// Only a supervisor that is conclusively gone leaves the end to observers.
func TestSupervisorDecides(t *testing.T) {
	for f, of := range answers {
		t.Run(f.String(), func(t *testing.T) {
			w := newWorld(t)
			w.sees(supervisorPID, f)
			w.putRecord(supervised())
			before := w.bytes(runID)
			job := w.status(runID)
			if job.Terminal != of.Written {
				t.Errorf("terminal is %v", job.Terminal)
			}
			want := map[bool]string{true: "ending", false: "exited"}[f == jobprobe.IdentityConfirmed]
			if job.Status != want || job.PossiblyOrphaned != (!of.Written && want == "exited") {
				t.Errorf("status %s, orphaned %v, want status %s", job.Status, job.PossiblyOrphaned, want)
			}
			if !of.Written {
				w.untouched(runID, before)
			}
			agree(w, &job)
		})
	}
}

// While the job itself is not conclusively gone, nobody asks for its supervisor.
func TestSupervisorOfLiveJobIsNotAsked(t *testing.T) {
	w := newWorld(t)
	w.sees(childPID, jobprobe.IdentityConfirmed)
	w.putRecord(supervised())
	if job := w.status(runID); job.Status != "running" || w.asked(supervisorPID) != 0 {
		t.Errorf("status %s, %d probes of the supervisor", job.Status, w.asked(supervisorPID))
	}
}

// Damage in the supervisor's identity proves nothing about the supervisor.
func TestDamagedSupervisorEndsNothing(t *testing.T) {
	for _, text := range []string{
		`{}`, `"x"`, `[]`, `7`, `{"pid": 4243}`, `{"pid": "4243", "pid_ns": "many"}`, `{"pid": "-1"}`, `{"pid": "x"}`,
	} {
		w := newWorld(t)
		w.sees(0, jobprobe.UnusablePID)
		w.sees(-1, jobprobe.UnusablePID)
		w.putRecord(started(set("supervisor", text)))
		before := w.bytes(runID)
		if job := w.status(runID); job.Terminal {
			t.Errorf("supervisor %s: %s, %s", text, job.Status, str(job.ReasonCode))
		}
		w.untouched(runID, before)
	}
}

// Records that a conclusive loss must not end.
func TestPoint16NothingElseEnds(t *testing.T) {
	other := `"20260801T000000-ffffff"`
	for name, rec := range map[string]*sidecar.Record{
		"preparing":         started(set("spawn_state", `"preparing"`)),
		"spawn failed":      started(set("spawn_state", `"failed"`)),
		"no spawn state":    started(set("spawn_state", `null`)),
		"spawn state later": started(set("spawn_state", `"warming_up"`)),
		"ended":             started(set("finished_at", `"2026-08-01T00:00:09+00:00"`)),
		"ended, empty":      started(set("finished_at", `""`)),
		"ended, zero":       started(set("finished_at", `0`)),
		"ended, false":      started(set("finished_at", `false`)),
		"another run":       started(set("run_id", other)),
		"run id no string":  started(set("run_id", `7`)),
		"too new":           started(set("contract_version", `99`)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(runID, string(rec.Append(nil)))
			before := w.bytes(runID)
			w.status(runID)
			w.list(ListOptions{})
			w.look1(runID)
			if got := w.bytes(runID); string(got) != string(before) {
				t.Errorf("written:\n%s", got)
			}
			if entries, _ := os.ReadDir(w.Store.Dir); len(entries) != 1 {
				t.Errorf("other entries in the store: %v", entries)
			}
		})
	}
}

// A record that names another run is never written through, and the reply
// names the run that was asked for.
func TestPeerFault16RecordNamesAnotherRun(t *testing.T) {
	w := newWorld(t)
	const theirs = "20260801T000000-ffffff"
	w.putRecord(started(set("run_id", `"`+theirs+`"`)))
	w.put(runID, string(w.bytes(theirs)))
	before := w.bytes(theirs)
	job := w.status(runID)
	if job.RunID != runID || job.Terminal || !job.PossiblyOrphaned {
		t.Errorf("run %s: terminal %v, orphaned %v", job.RunID, job.Terminal, job.PossiblyOrphaned)
	}
	_, err := w.MarkTerminal(t.Context(), runID, Report{Status: "completed"})
	refused, ok := errors.AsType[*sidecar.RefusedError](err)
	if !ok || refused.Reason != sidecar.NamesAnotherRun {
		t.Errorf("hook: %v", err)
	}
	w.untouched(theirs, before)
}

// The run itself recorded that its notice was not delivered.
func TestGoneUndelivered(t *testing.T) {
	for text, want := range map[string]string{
		`{"ok": false, "n": 1}`: ReasonGoneUndelivered,
		`{"ok": true}`:          sidecar.ReasonGone,
		`{"ok": 0}`:             sidecar.ReasonGone,
		`{"ok": "false"}`:       sidecar.ReasonGone,
		`{"ok": null}`:          sidecar.ReasonGone,
		`[false]`:               sidecar.ReasonGone,
		`{"ok": false`:          sidecar.ReasonGone,
		``:                      sidecar.ReasonGone,
	} {
		w := newWorld(t)
		w.putRecord(started())
		dir := filepath.Join(w.RunsDir, runID)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "notify_outcome.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		job := w.status(runID)
		if str(job.ReasonCode) != want || w.onDisk(runID, "reason_code") != `"`+want+`"` {
			t.Errorf("%s: reason %s, on disk %s", text, str(job.ReasonCode), w.onDisk(runID, "reason_code"))
		}
	}
}
