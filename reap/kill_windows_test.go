package reap

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

const killIdle = "JOBPROBE_KILL_IDLE"

// A test binary started as a job to be killed waits for its input's end.
func init() {
	if os.Getenv(killIdle) != "" {
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
}

// idle starts such a job.
func idle(t *testing.T) jobprobe.Identity {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), killIdle+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the job says %q: %v", line, err)
	}
	id, err := jobprobe.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// killRecord writes a record of a run that is this process.
func killRecord(t *testing.T, o Observer, id jobprobe.Identity) {
	t.Helper()
	text, err := id.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	rec := fmt.Sprintf(`{"run_id": %q, "pid": %d, "pid_create_time": null, "pgid": null, "status": "running",
		"spawn_state": "started", "finished_at": null, "process_identity": %s}`, runID, id.PID, text)
	dir := filepath.Join(o.Store.Dir, runID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "job.json"), []byte(rec), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A14: a live program with another creation time survives; the recorded one is
// terminated, which proves nothing of what it has started.
func TestCaseA14(t *testing.T) {
	dir, err := os.MkdirTemp("", "jobprobe-kill")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) // which wine cannot
	o := New(dir)
	id := idle(t)
	other := id
	other.Start++
	killRecord(t, o, other)
	reply, err := o.Kill(t.Context(), runID, KillOptions{})
	if err != nil || reply.Killed || reply.ReasonCode != "pid_recycled" {
		t.Errorf("another process: %+v, %v", reply, err)
	}
	if live := jobprobe.Probe(id); live.Finding != jobprobe.IdentityConfirmed {
		t.Fatalf("it did not survive: %s", live.Finding)
	}
	killRecord(t, o, id)
	reply, err = o.Kill(t.Context(), runID, KillOptions{Grace: 20 * time.Second})
	if err != nil || !reply.Killed || !reply.Recorded || string(reply.PGID) != "null" ||
		reply.Cleanup != sidecar.CleanupUnknown || reply.Descendants != sidecar.RemainsUnknown {
		t.Errorf("reply is %+v, %v", reply, err)
	}
	if live := jobprobe.Probe(id); live.Conclusion != jobprobe.ProcessGone {
		t.Errorf("it is still there: %s", live.Finding)
	}
	if source, _ := o.Store.Read(runID).Record.Text("terminal_source"); source != sidecar.SourceKill {
		t.Errorf("ended by %q", source)
	}
}
