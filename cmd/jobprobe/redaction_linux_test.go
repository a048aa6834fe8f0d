package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// secrets are planted, each in the place that it is named after.
var secrets = []string{
	"argv", "cwd", "label", "target", "sender", "command", "noise", "console", "stdin", "env", "status", "reason",
	"source", "outcome", "history", "unknown", "attestation",
}

const secretMark = "S3CRET-"

// told is what commands have printed, on both streams.
type told struct {
	t    *testing.T
	dir  string
	text strings.Builder
}

// ask runs a command in text and in JSON, and returns the latter.
func (a *told) ask(args ...string) string {
	a.t.Helper()
	for _, how := range [][]string{{}, {"--json"}} {
		cmd := program(a.t, a.dir)
		cmd.Args = slices.Concat([]string{"jobprobe", "--dir", a.dir}, how, args)
		out := &strings.Builder{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != exitRefused {
			a.t.Errorf("%v: %v\n%s", args, err, out)
		}
		fmt.Fprintf(&a.text, "== %v\n%s", args, out)
		if len(how) > 0 {
			return out.String()
		}
	}
	return ""
}

// innocent are the parts of an answer that have numbers of their own.
var innocent = regexp.MustCompile(`[0-9]{8}T[0-9]{6}-[0-9a-f]+|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(\+00:00|Z)|"(duration_ms|drain_ms)": ?[0-9]+|drain_seconds[a-z_"]*:? ?[0-9.]+|took: +[0-9.]+m?s`)

// silent fails for each secret, or number of a process, in a text.
func silent(t *testing.T, what, text string, pids []int64, but ...string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(text, secretMark+s) && !slices.Contains(but, s) {
			t.Errorf("%s tells the %s:\n%s", what, s, text)
		}
	}
	rest := innocent.ReplaceAllString(text, "")
	for _, pid := range pids {
		if regexp.MustCompile(fmt.Sprintf(`\b%d\b`, pid)).MatchString(rest) {
			t.Errorf("%s tells process %d:\n%s", what, pid, rest)
		}
	}
}

// Nothing of what a job is, does or says, and no number of a process, is in what
// is told of its life, in counts, in drains, in evidence, and in the ledger. A
// notice holds its documented fields.
func TestRedaction(t *testing.T) {
	work := t.TempDir()
	t.Cleanup(func() { endJobs(work) })
	dir := filepath.Join(work, "jobs")
	cwd := filepath.Join(work, secretMark+"cwd")
	stdin := filepath.Join(work, "stdin")
	notice := filepath.Join(work, "notice")
	if err := os.Mkdir(cwd, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stdin, []byte(secretMark+"stdin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var pids []int64
	start := func(script string, more ...string) string {
		t.Helper()
		notify, _ := json.Marshal([]string{"sh", "-c", "cat >" + notice + "; echo " + secretMark + "noise # " + secretMark + "command"})
		args := []string{
			"run", "--label", secretMark + "label", "--cwd", cwd, "--env", "VARIABLE=" + secretMark + "env", "--stdin", stdin,
			"--notify-command", string(notify), "--notify-target", secretMark + "target", "--notify-sender", secretMark + "sender",
		}
		args = slices.Concat(args, more, []string{"--", "sh", "-c", script, secretMark + "argv"})
		out, err := program(t, dir, args...).Output()
		var h handle
		if err == nil {
			err = json.Unmarshal(out, &h)
		}
		if err != nil {
			t.Fatalf("run: %v in %s", err, out)
		}
		pids = append(pids, h.Process.PID, h.Supervisor.PID)
		return h.RunID
	}
	plain := func(args ...string) {
		t.Helper()
		err := program(t, dir, args...).Run()
		if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != exitGone) {
			t.Errorf("%v: %v", args, err)
		}
	}
	failed := start("echo " + secretMark + "console; cat; exit 3")
	plain("wait", failed)
	hooked, live := start("sleep 300"), start("sleep 300")
	plain("hook", "--run-id", hooked, "--status", secretMark+"status", "--reason", secretMark+"reason")
	gone := lost(t, dir)
	pids = append(pids, gone.Process.PID, gone.Supervisor.PID)
	plant(t, dir, "byhand", strings.ReplaceAll(`{"run_id": "byhand", "pid": 2147483001, "status": "@status", "spawn_state": "started",
		"finished_at": "2026-08-01T00:00:00+00:00", "terminal_source": "@source", "outcome": "@outcome", "reason_code": "@reason", "x": "@unknown",
		"lifecycle": {"schema_version": 1, "state": "@history", "cleanup": "@history", "ownership": "@history", "reason": "@history", "@history": 1,
		"history": [{"at": "@history", "state": "running"}, "@history"]}}`, "@", secretMark))
	plant(t, dir, "abroad", `{"run_id": "abroad", "pid": 2147483001, "status": "running", "spawn_state": "started", "finished_at": null,
		"process_identity": {"os": "linux", "pid": "2147483001", "start": "7", "start_unit": "boot_ticks", "boot": "00000000-0000-4000-8000-000000000000", "host": "pod-old"}}`)
	plain("close", "abroad", "--attest", secretMark+"attestation")
	pids = append(pids, 2147483001)
	planted(t, dir, "env", "noise") // which no file holds

	a := &told{t: t, dir: dir}
	ids := []string{failed, hooked, live, gone.RunID, "byhand", "abroad"}
	for _, id := range ids {
		a.ask("lifecycle", id)
	}
	a.ask("metrics")
	a.ask("prune", "--older-than", "0s", "--dry-run")
	a.ask("drain")
	for _, id := range ids {
		a.ask("lifecycle", id)
	}
	a.ask("prune", "--older-than", "0s")
	a.ask("metrics")
	silent(t, "an answer", a.text.String(), pids)
	if n := strings.Count(a.text.String(), "=="); n != 2*(2*len(ids)+5) {
		t.Errorf("%d answers", n)
	}

	ledger, err := os.ReadFile(filepath.Join(dir, ".lifecycle", "ledger", "job.json"))
	if err != nil {
		t.Fatal(err)
	}
	silent(t, "the ledger", string(ledger), pids)
	told, err := os.ReadFile(notice)
	if err != nil {
		t.Fatal(err)
	}
	silent(t, "a notice", string(told), pids, "label", "target", "sender", "status", "reason")
	var fields map[string]any
	if err := json.Unmarshal(told, &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		if !slices.Contains([]string{"run_id", "status", "label", "target", "sender", "reason_code"}, name) {
			t.Errorf("a notice holds %q", name)
		}
	}
	t.Logf("count: %d secrets and %d numbers of processes in no answer of %d", len(secrets), len(pids), 2*(2*len(ids)+5))
}

// What proves an end holds no secret but, by contract, an operator's own words.
func TestRedactionOfEvidence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	h := lost(t, dir)
	rewrite(t, dir, h.RunID, `"label": null`, `"label": "`+secretMark+`label"`)
	for _, args := range [][]string{{"status", h.RunID}, {"list"}} {
		if err := program(t, dir, args...).Run(); err != nil {
			t.Fatal(err)
		}
	}
	var rec struct {
		Evidence json.RawMessage `json:"terminal_evidence"`
	}
	data, err := os.ReadFile(filepath.Join(dir, h.RunID, "job.json"))
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	if err != nil || len(rec.Evidence) == 0 {
		t.Fatalf("no evidence: %v in %s", err, data)
	}
	silent(t, "the evidence", string(rec.Evidence), []int64{h.Process.PID, h.Supervisor.PID})
}

// plant writes a record as another program left it.
func plant(t *testing.T, dir, id, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, id), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, id, "job.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// planted checks that every secret is where it could be told from.
func planted(t *testing.T, dir string, but ...string) {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"job.json", "console.log"} {
		files, _ := filepath.Glob(filepath.Join(dir, "*", name))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(data)
		}
	}
	for _, s := range secrets {
		if !strings.Contains(all.String(), secretMark+s) && !slices.Contains(but, s) {
			t.Errorf("the %s was not planted", s)
		}
	}
}
