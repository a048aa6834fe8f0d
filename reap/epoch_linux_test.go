package reap

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
)

// sleeper starts a process that waits, and returns its number and its start
// time as the peer would have recorded them.
func sleeper(t *testing.T, session bool, env ...string) (pid int, created float64) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.Env = append(cmd.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// The program is executed when Start returns, but its environment may be
	// still to be put in place.
	for env := []byte(nil); len(env) == 0; {
		var err error
		if env, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	return cmd.Process.Pid, createdAt(t, cmd.Process.Pid)
}

func createdAt(t *testing.T, pid int) float64 {
	t.Helper()
	id, err := jobprobe.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	created, ok := id.CreateTime()
	if !ok {
		t.Fatal("no start time")
	}
	return created
}

func epoch(seconds float64) string { return strconv.FormatFloat(seconds, 'f', -1, 64) }

// Records of the peer have a pid, a start time in seconds, and a group. The
// clock may have been set since: whole seconds prove nothing.
func TestPeerFault1ClockStep(t *testing.T) {
	marker := "LIONAGI_MCP_JOB_RUN_ID=" + runID
	for _, c := range []struct {
		name    string
		session bool
		member  bool // of a session that another process leads
		env     string
		shift   float64 // of the recorded start time
		own     bool    // the record says that the run led its session
		text    string  // of the start time, if it is no number
		finding string
	}{
		{name: "equal", session: true, own: true, finding: "identity_confirmed"},
		{name: "within the tolerance", session: true, own: true, shift: 0.09, finding: "identity_confirmed"},
		{name: "clock set by an hour", session: true, own: true, shift: 3600, finding: "identity_unreadable"},
		{name: "clock set by a second", session: true, own: true, shift: -1, finding: "identity_unreadable"},
		{name: "another fraction", session: true, own: true, shift: 100.5, finding: "pid_recycled"},
		{name: "another fraction, marked", session: true, own: true, shift: 100.5, env: marker, finding: "identity_confirmed"},
		{name: "marked by ours", session: true, own: true, shift: 7, env: "JOBPROBE_RUN_ID=" + runID, finding: "identity_confirmed"},
		{name: "marked by another run", session: true, own: true, shift: 3600, env: marker + "0", finding: "identity_unreadable"},
		{name: "leads no session", member: true, own: true, shift: 3600, finding: "pid_recycled"},
		{name: "led none either", shift: 3600, finding: "identity_unreadable"},
		{name: "numeric string", session: true, own: true, text: `"1700000000.25"`, finding: "identity_unusable"},
		{name: "bool", session: true, own: true, text: "true", finding: "identity_unusable"},
		{name: "too big", session: true, own: true, text: "1e999", finding: "identity_unusable"},
		{name: "negative", session: true, own: true, text: "-3.5", finding: "identity_unusable"},
		{name: "none", session: true, own: true, text: "null", finding: "identity_not_recorded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pid int
			var created float64
			if c.member {
				pid = testproc.Member(t)
				created = createdAt(t, pid)
			} else {
				pid, created = sleeper(t, c.session, c.env)
			}
			w := newWorld(t)
			w.probe = nil
			if c.text == "" {
				c.text = epoch(created + c.shift)
			}
			group := "1234567"
			if c.own {
				group = fmt.Sprint(pid)
			}
			w.putRecord(started(set("pid", fmt.Sprint(pid)), set("pgid", group),
				set("pid_create_time", c.text), set("process_identity", "null")))
			before := w.bytes(runID)
			job := w.status(runID)
			if job.Finding != c.finding || job.Terminal != (c.finding == "pid_recycled") {
				t.Errorf("finding %s, terminal %v, want %s", job.Finding, job.Terminal, c.finding)
			}
			if c.finding != "pid_recycled" {
				w.untouched(runID, before)
			}
		})
	}
}
