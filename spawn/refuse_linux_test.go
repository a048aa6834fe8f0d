package spawn

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jobprobe/jobprobe/sidecar"
)

// Requests that no system would start leave nothing on disk and name no secret.
func TestRefusedRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		req  Request
		want error
	}{
		"no command":     {Request{}, ErrNoCommand},
		"empty command":  {Request{Argv: []string{""}}, ErrNoCommand},
		"NUL":            {Request{Argv: []string{"echo", "a\x00b"}}, ErrBadCommand},
		"NUL in name":    {Request{Argv: []string{"ec\x00ho"}}, ErrBadCommand},
		"no such dir":    {Request{Argv: []string{"true"}, Dir: file + ".not"}, ErrBadDir},
		"file as dir":    {Request{Argv: []string{"true"}, Dir: file}, ErrBadDir},
		"NUL in dir":     {Request{Argv: []string{"true"}, Dir: "/\x00"}, ErrBadDir},
		"env no value":   {Request{Argv: []string{"true"}, Env: []string{"S3CRET"}}, ErrBadEnv},
		"env with a NUL": {Request{Argv: []string{"true"}, Env: []string{"K=S3CRET\x00"}}, ErrBadEnv},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			_, err := Start(t.Context(), store, c.req)
			if !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if strings.HasPrefix(name, "env with") && strings.Contains(err.Error(), "S3CRET") {
				t.Errorf("the error tells a value: %v", err)
			}
			if _, err := os.Lstat(store.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the store was made: %v", err)
			}
		})
	}
}

// What the system would not start has a record that says so, and its run id is
// in the error.
func TestFailedStarts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, data string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, argv := range map[string][]string{
		"not executable": {write("plain", "#!/bin/sh\n", 0o644)},
		"no interpreter": {write("lost", "#!/no/such/shell\n", 0o755)},
		"no format":      {write("text", "just text\n", 0o755)},
		"empty file":     {write("empty", "", 0o755)},
		"directory":      {dir},
		"no such path":   {filepath.Join(dir, "nothing")},
		"no such name":   {"no-such-command-in-any-path"},
		"long argument":  {"true", strings.Repeat("x", 128<<10)},
		"long list":      append([]string{"true"}, slices.Repeat([]string{strings.Repeat("x", 100<<10)}, 70)...),
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			_, err := Start(t.Context(), store, Request{Argv: argv})
			failed, ok := errors.AsType[*FailedError](err)
			if !ok || failed.Err != nil || failed.Reason == "" || !strings.Contains(err.Error(), failed.RunID) {
				t.Fatalf("%.300v", err)
			}
			job := status(t, store, failed.RunID)
			if !job.Terminal || text(job.Outcome) != "failed" || text(job.ReasonCode) != "spawn_failed" ||
				string(job.SpawnState) != `"failed"` || string(job.TerminalSource) != `"spawn_failure"` ||
				string(job.FinishedAtPrecision) != `"observed"` || job.Status != "failed" {
				t.Errorf("%s, outcome %s, reason %s, spawn %s, source %s", job.Status,
					text(job.Outcome), text(job.ReasonCode), job.SpawnState, job.TerminalSource)
			}
			reason, _ := store.Read(failed.RunID).Record.Text("reason")
			if reason != "spawn failed: "+failed.Reason {
				t.Errorf("recorded %q, returned %q", reason, failed.Reason)
			}
			noChildren(t)
		})
	}
}

// noChildren fails while this process has children that it does not collect:
// supervisors of failed starts end.
func noChildren(t *testing.T) {
	t.Helper()
	until(t, "the supervisor is collected", func() bool {
		tasks, _ := filepath.Glob("/proc/self/task/*/children") // empty on a kernel without that file
		for _, path := range tasks {
			if data, _ := os.ReadFile(path); len(data) != 0 {
				return false
			}
		}
		return true
	})
}

// A caller without the right to write to the store is told so, and nothing runs.
func TestNoPermission(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	const nobody = 65534
	parent, err := os.MkdirTemp("", "spawn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(parent, "ran")
	mine := filepath.Join(parent, "mine")
	for dir, mode := range map[string]os.FileMode{"closed": 0o700, "open": 0o755, "mine": 0o700} {
		if err := os.Mkdir(filepath.Join(parent, dir), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(mine, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	as := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	for _, dir := range []string{"closed", "open", "closed/jobs", "open/jobs"} {
		cmd := spawner(filepath.Join(parent, dir), "touch", ran)
		cmd.SysProcAttr = as
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "permission denied") {
			t.Errorf("%s: %v\n%s", dir, err, out)
		}
		if entries, err := os.ReadDir(filepath.Join(parent, dir)); len(entries) != 0 {
			t.Errorf("%s: left %v (%v)", dir, entries, err)
		}
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("the work ran")
	}
	store := storeAt(t, filepath.Join(mine, "jobs"))
	cmd := spawner(store.Dir, "id", "-u")
	cmd.SysProcAttr = as
	h := spawned(t, cmd)
	finished(t, store, h.RunID)
	if got := console(t, store, h.RunID); got != "65534\n" {
		t.Errorf("the job of another user says %q", got)
	}
}

// A caller whose context is done gets no job.
func TestDoneContext(t *testing.T) {
	store := newStore(t)
	ran := filepath.Join(t.TempDir(), "ran")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, store, Request{Argv: []string{"touch", ran}}); err == nil {
		t.Error("started")
	}
	noChildren(t)
	ids, err := store.IDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if job := finished(t, store, id); string(job.SpawnState) != `"failed"` {
			t.Errorf("spawn state %s", job.SpawnState)
		}
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("the work ran")
	}
}

// The identities and fields of a request are in the record.
func TestRequestIsRecorded(t *testing.T) {
	store := newStore(t)
	dir := t.TempDir()
	h, err := Start(t.Context(), store, Request{
		Argv: []string{"true", "a b"}, Dir: dir, Label: "l\u00e9 \x1b", Parent: "20260801T000000-abcdef",
		NotifyTarget: "who", NotifySender: "me",
	})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, store, h.RunID)
	rec := store.Read(h.RunID).Record
	for name, want := range map[string]string{
		"cwd": dir, "label": "l\u00e9 \x1b", "parent_run_id": "20260801T000000-abcdef",
		"notify_target": "who", "notify_sender": "me", "kind": "command", "log": h.Log,
	} {
		if got, _ := rec.Text(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if raw, _ := rec.Raw("argv"); string(raw) != string(sidecar.Texts([]string{"true", "a b"})) &&
		strings.Join(strings.Fields(string(raw)), "") != `["true","ab"]` {
		t.Errorf("argv is %s", raw)
	}
}
