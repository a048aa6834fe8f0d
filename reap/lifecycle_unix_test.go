//go:build unix

package reap

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// lifecycleScript is a lifecycle command that prints the envelope around a
// value.
func lifecycleScript(t *testing.T, body string) Lifecycle {
	t.Helper()
	path := filepath.Join(testproc.TempDir(t), "lifecycle")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return Lifecycle{Command: []string{path, "lifecycle", "{run_id}", "--machine"}}
}

func envelope(value string) string {
	return fmt.Sprintf(`echo '{"contract_version":1,"ok":true,"data":{"lifecycle":{"available":true,"value":%s}}}'`, value)
}

func TestLifecycle(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   string // status outcome precision, empty if nothing is learnt
	}{
		"exact":            {envelope(`{"terminal":true,"status":"completed","ended_at":1785542400.5}`), "completed succeeded observed"},
		"approximate":      {envelope(`{"terminal":true,"status":"cancelled","ended_at":1785542400.5,"ended_at_is_approximate":true}`), "cancelled cancelled upper_bound"},
		"in the future":    {envelope(`{"terminal":true,"status":"failed","ended_at":9999999999}`), "failed failed upper_bound"},
		"not found":        {envelope(`{"found":false,"terminal":true,"status":"failed"}`), ""},
		"no time":          {envelope(`{"terminal":true,"status":"failed"}`), "failed failed upper_bound"},
		"own outcome":      {envelope(`{"terminal":true,"status":"odd","outcome":"succeeded"}`), "odd succeeded upper_bound"},
		"open outcome":     {envelope(`{"terminal":true,"status":"completed","outcome":"splendid"}`), "completed succeeded upper_bound"},
		"not terminal":     {envelope(`{"terminal":false,"status":"running"}`), ""},
		"no status":        {envelope(`{"terminal":true}`), ""},
		"other version":    {`echo '{"contract_version":2,"ok":true,"data":{"lifecycle":{"available":true,"value":{"terminal":true,"status":"completed"}}}}'`, ""},
		"not ok":           {`echo '{"contract_version":1,"ok":false,"data":{"lifecycle":{"available":true,"value":{"terminal":true,"status":"completed"}}}}'`, ""},
		"not available":    {`echo '{"contract_version":1,"ok":true,"data":{"lifecycle":{"available":false,"value":{"terminal":true,"status":"completed"}}}}'`, ""},
		"exit status":      {envelope(`{"terminal":true,"status":"completed"}`) + "; exit 1", ""},
		"not JSON":         {`echo nothing`, ""},
		"too much":         {`head -c 1000001 /dev/zero | tr '\0' ' '; ` + envelope(`{"terminal":true,"status":"completed"}`), ""},
		"names its run":    {`[ "$2" = ` + runID + ` ] && ` + envelope(`{"terminal":true,"status":"completed"}`), "completed succeeded upper_bound"},
		"leaves a child":   {envelope(`{"terminal":true,"status":"completed"}`) + `; sleep 100 &`, "completed succeeded upper_bound"},
		"is no executable": {"\x00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			jobAs(w, runID, 11, jobprobe.UnusablePID)
			w.Lifecycle = lifecycleScript(t, test.script)
			job, err := w.Status(t.Context(), runID)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if job.Terminal {
				got = strings.Join([]string{job.Status, *job.Outcome, strings.Trim(string(job.FinishedAtPrecision), `"`)}, " ")
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if source := strings.Trim(string(job.TerminalSource), `"`); job.Terminal && source != sidecar.SourceLifecycle {
				t.Errorf("source %s", source)
			}
		})
	}
}

// TestPeerFault4LifecycleUnpublished: the store's end is no answer before it
// is on disk.
func TestPeerFault4LifecycleUnpublished(t *testing.T) {
	w := newWorld(t)
	jobAs(w, runID, 11, jobprobe.PIDAbsent)
	w.Lifecycle = lifecycleScript(t, envelope(`{"terminal":true,"status":"completed"}`))
	w.Store.LockWait = 1
	defer w.lockJob(runID)()
	job, err := w.Status(t.Context(), runID)
	if err != nil || job.Terminal || job.Refused == nil || *job.Refused != "lock_unavailable" {
		t.Errorf("%v: terminal %v, refused %v", err, job.Terminal, job.Refused)
	}
}

// A live job is not asked about, and an end on record is not asked about
// again.
func TestLifecycleNotAsked(t *testing.T) {
	w := newWorld(t)
	mark := filepath.Join(testproc.TempDir(t), "asked")
	w.Lifecycle = lifecycleScript(t, "touch "+mark)
	jobAs(w, "alive", 11, jobprobe.IdentityConfirmed)
	jobAs(w, "dead", 12, jobprobe.PIDAbsent)
	if _, err := w.Status(t.Context(), "alive"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("asked about a live job")
	}
	if job, err := w.Status(t.Context(), "dead"); err != nil || !job.Terminal {
		t.Fatalf("%v: %+v", err, job)
	}
	if err := os.Remove(mark); err != nil {
		t.Fatalf("not asked about a dead job: %v", err)
	}
	if _, err := w.Status(t.Context(), "dead"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("asked about an ended job")
	}
}
