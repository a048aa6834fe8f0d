package jobprobe

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// Markers around what is traced: files that are not there.
const beginMark, endMark = "/jobprobe-begin", "/jobprobe-end"

// No system call is made with a number that cannot name a process (L1), as a
// tracer sees it.
func TestL1NoSystemCall(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := testproc.Command(t, nil, "unusable")
	trace := filepath.Join(t.TempDir(), "trace")
	traced := exec.Command(strace, "-f", "-o", trace, "-e", "trace=%file,%desc,%process,%signal", exe)
	traced.Env, traced.ExtraFiles = cmd.Env, cmd.ExtraFiles
	out, err := traced.CombinedOutput()
	if err != nil && strings.Contains(string(out), "ptrace") {
		t.Skipf("strace may not trace here: %s", out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(text), beginMark)
	between, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended || !strings.Contains(after, "pidfd_open") {
		t.Fatalf("the trace is not whole:\n%s", text)
	}
	for _, call := range []string{"pidfd_open", "kill(", "/proc", "stat(", "statfs", "readlink", "tgkill"} {
		if strings.Contains(between, call) {
			t.Errorf("%s between the marks:\n%s", call, between)
		}
	}
}

// unusableStage probes unusable numbers before anything else, between marks,
// and then one that is not, to show that the tracer sees probes.
func unusableStage(s *testproc.Stage) {
	debug.SetGCPercent(-1)
	pids := unusablePIDs()
	unix.Access(beginMark, 0)
	for _, pid := range pids {
		Probe(Identity{PID: pid, Start: 1, StartUnit: startUnit})
		ProbeEpoch(EpochIdentity{PID: pid, Created: 1})
		if int64(int(pid)) == pid {
			Identify(int(pid))
		}
	}
	unix.Access(endMark, 0)
	Probe(Identity{PID: int64(os.Getpid())})
}
