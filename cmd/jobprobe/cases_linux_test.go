package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jobprobe/jobprobe"
)

// live starts a job that runs until the test ends.
func live(t *testing.T, dir string) handle {
	t.Helper()
	out, err := program(t, dir, "run", "--", "sleep", "300").Output()
	var h handle
	if err == nil {
		err = json.Unmarshal(out, &h)
	}
	if err != nil {
		t.Fatalf("run: %v in %s", err, out)
	}
	for _, who := range []jobprobe.Identity{h.Process, h.Supervisor} {
		p, err := jobprobe.Open(who)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // the supervisor first, which then writes nothing
			_ = p.Signal(syscall.SIGKILL)
			_, _ = p.Wait(context.Background())
			p.Close()
		})
	}
	return h
}

// rewrite edits a job's record by hand.
func rewrite(t *testing.T, dir, id, old, replacement string) {
	t.Helper()
	path := filepath.Join(dir, id, "job.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := bytes.ReplaceAll(data, []byte(old), []byte(replacement))
	if bytes.Equal(edited, data) {
		t.Fatalf("the record does not hold %q", old)
	}
	if err := os.WriteFile(path, edited, 0o600); err != nil {
		t.Fatal(err)
	}
}

// refusesKill asks to kill a job and insists that nothing is signalled.
func refusesKill(t *testing.T, dir string, h handle, code int, reason string) {
	t.Helper()
	cmd := program(t, dir, "kill", h.RunID)
	cmd.Stderr = nil
	out, _ := cmd.Output()
	if got := cmd.ProcessState.ExitCode(); got != code || !bytes.Contains(out, []byte(`"reason_code":"`+reason+`"`)) {
		t.Errorf("exit status %d, want %d with %s: %s", got, code, reason, out)
	}
	if v := jobprobe.Probe(h.Process); v.Finding != jobprobe.IdentityConfirmed {
		t.Errorf("the process is %v", v.Finding)
	}
}

// A record of another host is neither alive nor gone, and is not killed.
func TestCaseA1(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	h := live(t, dir)
	rewrite(t, dir, h.RunID, h.Process.Boot, "00000000-0000-4000-8000-000000000000")
	rewrite(t, dir, h.RunID, `"host": "`+h.Process.Host+`"`, `"host": "pod-old"`)
	out, err := program(t, dir, "status", h.RunID).Output()
	if err != nil || !bytes.Contains(out, []byte(`"finding":"foreign_host"`)) || !bytes.Contains(out, []byte(`"terminal":false`)) {
		t.Errorf("%v: %s", err, out)
	}
	refusesKill(t, dir, h, exitUnknown, "foreign_host")
}

// A boot id that differs from this boot's, in a record younger than it, is
// nothing to act on.
func TestCaseA17(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	h := live(t, dir)
	rewrite(t, dir, h.RunID, h.Process.Boot, "00000000-0000-4000-8000-000000000000")
	refusesKill(t, dir, h, exitUnknown, "foreign_boot")
}

// Two pid namespaces share a store. Neither can judge the other's job, and
// the lock, which does cross namespaces, orders what both write.
func TestCaseA11(t *testing.T) {
	if out, err := exec.Command("unshare", "-pf", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("unshare: %v: %s", err, out)
	}
	dir := filepath.Join(t.TempDir(), "jobs")
	h := live(t, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inside := func(args ...string) *exec.Cmd {
		const script = `exec -a jobprobe "$0" --json --dir "$@"`
		return exec.CommandContext(t.Context(), "unshare", append([]string{
			"-pf", "--mount-proc", "bash", "-c", script, self, dir}, args...)...)
	}
	out, err := inside("status", h.RunID).Output()
	if err != nil || !bytes.Contains(out, []byte(`"finding":"foreign_pid_namespace"`)) || !bytes.Contains(out, []byte(`"terminal":false`)) {
		t.Fatalf("%v: %s", err, out)
	}
	var wg sync.WaitGroup
	for _, status := range []string{"first", "second"} {
		wg.Go(func() {
			if out, err := inside("hook", "--run-id", h.RunID, "--status", status).CombinedOutput(); err != nil {
				t.Errorf("hook: %v: %s", err, out)
			}
		})
	}
	wg.Wait()
	record, err := os.ReadFile(filepath.Join(dir, h.RunID, "job.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []string{`"status": "first"`, `"status": "second"`} {
		if !strings.Contains(string(record), status) {
			t.Errorf("%s is lost: %s", status, record)
		}
	}
}
