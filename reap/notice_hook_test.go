//go:build unix

package reap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

func (b *bell) hook(r Report) Hooked {
	b.t.Helper()
	got, err := b.Hook(b.t.Context(), runID, r)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// A hook records its run's end and tells of it before it returns.
func TestNoticeOfAHook(t *testing.T) {
	told := filepath.Join(testproc.TempDir(t), "told")
	b := newBell(t, tells("sh", "-c", `echo "$@" > "$0"`, told, "{status} {reason_code} {target} {sender}x"), set("notify_sender", `"me"`))
	got := b.hook(Report{Status: "timed_out", ReasonCode: "run.timed_out.deadline"})
	if !got.Won || got.Absent || got.State != "delivered" {
		t.Errorf("hooked: %+v", got)
	}
	b.want(okNotice, 0)
	if text, _ := os.ReadFile(told); string(text) != "timed_out run.timed_out.deadline somebody mex\n" {
		t.Errorf("told %q", text)
	}
	if s := b.on(runID, "terminal_source"); s != `"cli_terminal_hook"` {
		t.Errorf("terminal_source %s", s)
	}
}

// The report's own command, target and sender come before the record's.
func TestNoticeOfAHookWithFlags(t *testing.T) {
	told := filepath.Join(testproc.TempDir(t), "told")
	b := newBell(t, rings("exit 1"), set("notify_sender", `"me"`))
	command := string(sidecar.Texts([]string{"sh", "-c", `echo "$@" > "$0"`, told, "{target} {sender}"}))
	b.hook(Report{Status: "completed", Command: command, Target: "T", Sender: "S"})
	b.want(okNotice, 0)
	if text, _ := os.ReadFile(told); string(text) != "T S\n" {
		t.Errorf("told %q", text)
	}
}

// A hook that comes after somebody else's end tells of that end if nobody was
// told, and of nothing otherwise (peer fault 8).
func TestPeerFault8LateHook(t *testing.T) {
	ended := func(delivery string) []sidecar.Field {
		return []sidecar.Field{
			set("finished_at", `"2026-08-01T00:00:00+00:00"`), set("status", `"exited"`), set("outcome", `"indeterminate"`),
			set("notify_delivery", delivery), rings("exit 0"),
		}
	}
	for delivery, rung := range map[string]int{
		noNotice: 1, pendingNotice: 1, "null": 1,
		okNotice: 0, unknownNotice: 0, refusedNotice(faultDistrust, "null"): 0,
		`{"attempted":true,"ok":false,"exit_code":1,"error":null,"failure_class":"unknown","command":"sh"}`: 0,
	} {
		b := newBell(t, ended(delivery)...)
		got := b.hook(Report{Status: "completed"})
		if got.Won || got.Absent {
			t.Errorf("%s: hooked %+v", delivery, got)
		}
		if want := map[int]string{1: okNotice, 0: delivery}[rung]; b.rung() != rung || b.on(runID, "notify_delivery") != want {
			t.Errorf("%s: %d notifiers, delivery %s", delivery, b.rung(), b.on(runID, "notify_delivery"))
		}
		if b.on(runID, "status") != `"exited"` || b.on(runID, "late_report") == "absent" {
			t.Errorf("%s: status %s, late_report %s", delivery, b.on(runID, "status"), b.on(runID, "late_report"))
		}
		told := b.on(runID, "notify_delivery")
		b.hook(Report{Status: "completed"})
		b.hook(Report{Status: "completed", Command: "no JSON"}) // cannot be attempted, nor recorded over what was
		b.look()
		if b.rung() != rung || b.on(runID, "notify_delivery") != told {
			t.Errorf("%s: then %s, %d notifiers", delivery, b.on(runID, "notify_delivery"), b.rung())
		}
	}
}

// After a reap that was delivered, a late hook sends nothing and changes
// nothing but late_report.
func TestPeerFault8HookAfterDeliveredReap(t *testing.T) {
	b := newBell(t, rings("exit 0"))
	b.look()
	before := b.Store.Read(runID).Record
	if got := b.hook(Report{Status: "completed", Command: `["sh", "-c", "echo again >> ` + b.calls + `"]`}); got.Won || got.State != "delivered" {
		t.Errorf("hooked: %+v", got)
	}
	b.want(okNotice, 1)
	after := b.Store.Read(runID).Record
	after.Set("late_report", sidecar.Null())
	before.Set("late_report", sidecar.Null())
	if !before.Equal(after) {
		t.Errorf("the record changed:\n%s", cmp.Diff(string(before.Append(nil)), string(after.Append(nil))))
	}
}

// A job that is not in the store is told of, by what the hook and the caller
// name, and leaves nothing behind.
func TestNoticeOfAnAbsentJob(t *testing.T) {
	b := newBell(t)
	b.Notices.Command = []string{"sh", "-c", `echo "$0" >> ` + b.calls, "{run_id} {status} {label}"}
	got, err := b.Hook(t.Context(), "other", Report{Status: "completed"})
	if err != nil || !got.Absent || got.Won || got.State != "delivered" {
		t.Errorf("hooked: %+v, %v", got, err)
	}
	if text, _ := os.ReadFile(b.calls); string(text) != "other completed run\n" {
		t.Errorf("told %q", text)
	}
	if _, err := os.Lstat(filepath.Join(b.Store.Dir, "other")); !os.IsNotExist(err) {
		t.Errorf("the job's directory: %v", err)
	}
	got, err = b.Hook(t.Context(), "other", Report{Command: "x"})
	if err != nil || got.State != "failed" || !strings.Contains(string(got.Delivery), faultNotJSON) {
		t.Errorf("hooked: %+v, %v", got, err)
	}
	if _, err := b.Hook(t.Context(), "../other", Report{}); !errors.Is(err, sidecar.ErrRunID) {
		t.Errorf("an id that names no job: %v", err)
	}
	if b.rung() != 1 {
		t.Errorf("%d notifiers have run", b.rung())
	}
}

// A refused write is an error, and nothing is sent.
func TestNoticeOfARefusedHook(t *testing.T) {
	b := newBell(t)
	b.rewrite(rings("exit 0"), set("run_id", `"another"`))
	_, err := b.Hook(t.Context(), runID, Report{Status: "completed"})
	var refused *sidecar.RefusedError
	if !errors.As(err, &refused) || refused.Reason != sidecar.NamesAnotherRun || b.rung() != 0 {
		t.Errorf("error %v, %d notifiers", err, b.rung())
	}
}

// What the run left about its failure is recorded with its end, reduced to
// what is known to be harmless.
func TestNoticeHookFailureCause(t *testing.T) {
	for cause, want := range map[string]string{
		`{"class": "ProviderQuotaError", "retryable": true, "status_source": "received", "provider_status": 429}`: `{"class":"ProviderQuotaError","retryable":true,"status_source":"received","provider_status":429}`,
		`{"class": "ProviderAuthError", "retryable": 1, "status_source": "absent", "provider_status": 401}`:       `{"class":"ProviderAuthError","retryable":false,"status_source":"absent"}`,
		`{"class": "rm -rf", "retryable": "true", "status_source": 7, "provider_status": "500", "secret": "s"}`:   `{"class":"unknown","retryable":false,"status_source":"unreadable"}`,
		`{"status_source": "received", "provider_status": 5.5}`:                                                   `{"class":"unknown","retryable":false,"status_source":"received"}`,
		`["ProviderError"]`:         "absent",
		`{"class": "ProviderError"`: "absent",
		`{"class": "ProviderError"` + strings.Repeat(" ", maxCause) + `}`: "absent",
		"": "absent",
	} {
		b := newBell(t)
		if cause != "" {
			writeFile(t, filepath.Join(b.dir, "terminal_cause.json"), cause)
		}
		b.hook(Report{Status: "failed"})
		if got := b.on(runID, "failure_cause"); got != want {
			t.Errorf("%.60s: failure_cause %s, want %s", cause, got, want)
		}
	}
	late := newBell(t, set("finished_at", `"2026-08-01T00:00:00+00:00"`))
	writeFile(t, filepath.Join(late.dir, "terminal_cause.json"), `{"class": "ProviderError"}`)
	late.hook(Report{Status: "failed"})
	if got := late.on(runID, "failure_cause"); got != "absent" {
		t.Errorf("a late report left failure_cause %s", got)
	}
}

// Each writer of an end owns its notice (peer fault 10).
func TestPeerFault10EachEndIsTold(t *testing.T) {
	code := 3
	for name, end := range map[string]func(*bell) (sidecar.Transition, error){
		"supervisor": func(b *bell) (sidecar.Transition, error) {
			return b.EndBySupervisor(t.Context(), runID, sidecar.SupervisorEnd{Status: "failed", ExitCode: &code, At: time.Now()})
		},
		"spawn failure": func(b *bell) (sidecar.Transition, error) {
			return b.SpawnFailed(t.Context(), runID, sidecar.SpawnFailure{Reason: "x", At: time.Now(), Attached: true})
		},
		"hook": func(b *bell) (sidecar.Transition, error) {
			return b.MarkTerminal(t.Context(), runID, Report{Status: "failed"})
		},
		"reaper": func(b *bell) (sidecar.Transition, error) {
			_, err := b.Status(t.Context(), runID)
			return sidecar.Transition{Won: true}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBell(t, rings("exit 0"))
			for i := range 2 {
				if got, err := end(b); err != nil || name != "reaper" && got.Won != (i == 0) {
					t.Fatalf("end %d: %+v, %v", i, got, err)
				}
				if err := b.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				b.want(okNotice, 1)
			}
			silent := newBell(t)
			if _, err := end(silent); err != nil {
				t.Fatal(err)
			}
			if got := silent.on(runID, "notify_delivery"); got != noNotice && got != "absent" {
				t.Errorf("nobody to tell: %s", got)
			}
		})
	}
}

// An Observer that New did not make tells before it answers.
func TestNoticeInLine(t *testing.T) {
	b := newBell(t, rings("exit 0"))
	b.Observer = Observer{Store: b.Store}
	if _, err := b.Status(t.Context(), runID); err != nil {
		t.Fatal(err)
	}
	b.want(okNotice, 1)
	if err := b.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

// What has no end is told to nobody.
func TestPoint2NoNoticeWithoutAnEnd(t *testing.T) {
	self, err := jobprobe.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	identity, err := self.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, fields := range map[string][]sidecar.Field{
		"unusable pid":     {set("pid", `"x"`)},
		"preparing":        {set("spawn_state", `"preparing"`)},
		"alive":            {set("pid", string(sidecar.Int(self.PID))), set("process_identity", string(identity))},
		"damaged identity": {set("process_identity", `{"os": 7}`)},
		"another run":      {set("run_id", `"another"`)},
		"pending, no end":  {set("spawn_state", `"preparing"`), set("notify_delivery", pendingNotice)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBell(t)
			b.rewrite(append(fields, rings("exit 0"))...)
			path := filepath.Join(b.dir, "job.json")
			b.Notices.Command = []string{"sh", "-c", "echo configured >> " + b.calls}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if job := b.look(); job.Terminal {
				t.Errorf("ended: %+v", job)
			}
			if after, err := os.ReadFile(path); string(after) != string(before) || err != nil {
				t.Errorf("the record changed to %s, %v", after, err)
			}
			if b.rung() != 0 {
				t.Error("somebody was told")
			}
		})
	}
}
