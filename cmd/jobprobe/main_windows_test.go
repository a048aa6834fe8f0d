package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
	"github.com/jobprobe/jobprobe/spawn"
)

// This binary is the program where mainEnv is set, and work that does not end
// where its argument is endless.
const (
	mainEnv = "JOBPROBE_TEST_MAIN"
	endless = "endless"
)

func TestMain(m *testing.M) {
	spawn.Init()
	switch {
	case slices.Equal(os.Args[1:], []string{endless}):
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case os.Getenv(mainEnv) != "":
		main()
	}
	os.Exit(m.Run())
}

// cliCall runs the program, and returns what it printed and its exit status.
func cliCall(t *testing.T, dir string, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), mainEnv+"=1", "JOBPROBE_DIR="+dir)
	var trouble strings.Builder
	cmd.Stderr = &trouble
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	} else if ok {
		code = exit.ExitCode()
	}
	t.Logf("%q: %d %s%s", args, code, out, trouble.String())
	return strings.TrimSpace(string(out)), code
}

// startEndless starts work that does not end, and returns when it runs: a process
// that is killed while wine starts it can leave its console's host behind, with
// the log open.
func startEndless(t *testing.T, dir string) (id string) {
	t.Helper()
	id, status := cliCall(t, dir, "run", "--", os.Args[0], endless)
	if status != exitOK {
		t.Fatalf("run ended with %d", status)
	}
	for {
		if out, _ := cliCall(t, dir, "output", id); out == "ready" {
			return id
		}
	}
}

// storedText is a text field of the record on disk.
func storedText(t *testing.T, dir, id, name string) string {
	t.Helper()
	got := sidecar.Store{Dir: dir}.Read(id)
	if got.Record == nil {
		t.Fatalf("%s: %v", id, got.Err)
	}
	text, _ := got.Record.Text(name)
	return text
}

// An exit code is the job's, also 259, which the system uses for "still active".
func TestExitCodes(t *testing.T) {
	dir := filepath.Join(testproc.TempDir(t), "jobs")
	for code, want := range map[string]string{
		"0": "completed  succeeded  exit code 0", "3": "failed  failed  exit code 3", "259": "failed  failed  exit code 259",
	} {
		id, status := cliCall(t, dir, "run", "--", "cmd", "/c", "exit "+code)
		if status != exitOK {
			t.Fatalf("exit %s: run ended with %d", code, status)
		}
		if got, _ := cliCall(t, dir, "wait", "--max-wait", "1m", id); got != id+"  "+want {
			t.Errorf("exit %s: %q, want %q", code, got, want)
		}
	}
}

// The main job: supervisor and work are killed, and whoever looks next writes
// the one end.
func TestSilentDeath(t *testing.T) {
	dir := filepath.Join(testproc.TempDir(t), "jobs")
	id := startEndless(t, dir)
	if _, code := cliCall(t, dir, "status", id); code != exitOK {
		t.Errorf("status of a live job ended with %d", code)
	}
	for _, name := range []string{"supervisor", "process_identity"} {
		raw, _ := (sidecar.Store{Dir: dir}).Read(id).Record.Raw(name)
		who, err := jobprobe.ParseIdentity(raw)
		if err != nil {
			t.Fatal(err)
		}
		p, err := jobprobe.Open(who)
		if errors.Is(err, jobprobe.ErrNoProcess) && name == "process_identity" {
			continue // the system ended it with its supervisor's job object
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := p.Signal(os.Kill); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	cliCall(t, dir, "wait", "--max-wait", "1m", id)
	if got := storedText(t, dir, id, "outcome") + " " + storedText(t, dir, id, "reason_code"); got != "indeterminate process_gone_without_outcome" {
		t.Errorf("ended as %s", got)
	}
}

// A kill of the program's own reaches the work, and says so.
func TestKill(t *testing.T) {
	dir := filepath.Join(testproc.TempDir(t), "jobs")
	id := startEndless(t, dir)
	if _, code := cliCall(t, dir, "kill", id); code != exitOK {
		t.Errorf("kill ended with %d", code)
	}
	cliCall(t, dir, "wait", "--max-wait", "1m", id)
	if got := storedText(t, dir, id, "outcome"); got != "cancelled" {
		t.Errorf("ended as %s", got)
	}
}
