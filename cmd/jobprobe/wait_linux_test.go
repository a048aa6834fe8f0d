package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// attended is a run --wait in progress.
type attended struct {
	*exec.Cmd
	store    sidecar.Store
	id       string
	out      *bufio.Reader
	trouble  *bufio.Reader
	identity jobprobe.Identity
}

// attend runs a script with --wait, and returns once it has printed "ready".
func attend(t *testing.T, script string, flags ...string) *attended {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "jobs")
	t.Cleanup(func() { endJobs(dir) })
	a := &attended{store: sidecar.Store{Dir: dir}}
	args := append([]string{"run", "--wait"}, flags...)
	a.Cmd = inText(t, dir, append(args, "--", "sh", "-c", script)...)
	a.Stderr = nil
	stdout, err := a.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := a.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.out, a.trouble = bufio.NewReader(stdout), bufio.NewReader(stderr)
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := a.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	ids, err := a.store.IDs()
	if err != nil || len(ids) != 1 {
		t.Fatalf("jobs %v, %v", ids, err)
	}
	a.id = ids[0]
	raw, _ := a.record(t).Raw("process_identity")
	if a.identity, err = jobprobe.ParseIdentity(raw); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *attended) record(t *testing.T) *sidecar.Record {
	t.Helper()
	r := a.store.Read(a.id)
	if r.Record == nil {
		t.Fatalf("%v: %v", r.State, r.Err)
	}
	return r.Record
}

// interrupt sends what a terminal sends at Ctrl-C.
func (a *attended) interrupt(t *testing.T) {
	t.Helper()
	if err := a.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

// ends returns the exit status and what else was printed.
func (a *attended) ends(t *testing.T) (code int, out, trouble string) {
	t.Helper()
	var rest bytes.Buffer
	_, _ = io.Copy(&rest, a.out)
	said, _ := io.ReadAll(a.trouble)
	_ = a.Wait()
	return a.ProcessState.ExitCode(), rest.String(), string(said)
}

// An interrupt leaves the job, says so, and does it no harm.
func TestInterruptLeavesTheJob(t *testing.T) {
	a := attend(t, "echo ready; exec sleep 600")
	a.interrupt(t)
	code, _, trouble := a.ends(t)
	if code != exitLeft || !strings.Contains(trouble, a.id+", which goes on; interrupt again to kill it") {
		t.Errorf("exit status %d, %q", code, trouble)
	}
	if v := jobprobe.Probe(a.identity); v.Conclusion != jobprobe.Alive || a.record(t).Ended() {
		t.Errorf("the job: %v", v.Finding)
	}
}

// A second interrupt kills the job, with SIGKILL if it will not go.
func TestInterruptTwiceKillsTheJob(t *testing.T) {
	for script, want := range map[string]int{
		"echo ready; exec sleep 600":                            128 + 15,
		"trap '' TERM; echo ready; while :; do sleep 600; done": 128 + 9,
	} {
		a := attend(t, script)
		a.interrupt(t)
		line, err := a.trouble.ReadString('\n')
		if err != nil || !strings.Contains(line, "interrupt again") {
			t.Fatalf("%q, %v", line, err)
		}
		a.interrupt(t)
		code, _, trouble := a.ends(t)
		if code != want || !strings.Contains(trouble, "signalled") {
			t.Errorf("%s: exit status %d, %q", script, code, trouble)
		}
		if v := jobprobe.Probe(a.identity); v.Conclusion != jobprobe.ProcessGone {
			t.Errorf("the job: %v", v.Finding)
		}
		if source, _ := a.record(t).Text("terminal_source"); source != sidecar.SourceKill {
			t.Errorf("ended by %s", source)
		}
	}
}

// A job that is killed while somebody waits for it ends the wait as it would a
// shell's, and says why.
func TestWaitedForJobIsKilled(t *testing.T) {
	a := attend(t, "echo ready; exec sleep 600")
	if out, err := program(t, a.store.Dir, "kill", a.id).Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	code, _, trouble := a.ends(t)
	if code != 128+15 || !strings.Contains(trouble, a.id+" killed: ") {
		t.Errorf("exit status %d, %q", code, trouble)
	}
}

// A job that ends while it is being left is told of.
func TestInterruptedJobEnds(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	a := attend(t, "echo ready; read line <"+fifo+"; echo last; exit 5")
	a.interrupt(t)
	if _, err := a.trouble.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("sh", "-c", "echo go >"+fifo).Run(); err != nil {
		t.Fatal(err)
	}
	if code, out, trouble := a.ends(t); code != 5 || out != "last\n" {
		t.Errorf("exit status %d, %q, %q", code, out, trouble)
	}
}

// The job does not hear of what becomes of who watches it, which says that the
// job goes on if it can.
func TestWatcherKilled(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGHUP, syscall.SIGTERM} {
		a := attend(t, "echo ready; exec sleep 600")
		if err := a.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		code, _, trouble := a.ends(t)
		if sig != syscall.SIGKILL && (code != exitLeft || !strings.Contains(trouble, a.id+" goes on")) {
			t.Errorf("after %v: exit status %d, %q", sig, code, trouble)
		}
		if v := jobprobe.Probe(a.identity); v.Conclusion != jobprobe.Alive || a.record(t).Ended() {
			t.Errorf("after %v the job: %v", sig, v.Finding)
		}
	}
}

// A wait that is asked to end says what it has seen, and that the rest goes on.
func TestWaitInterrupted(t *testing.T) {
	a := attend(t, "echo ready; exec sleep 600")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM} {
		cmd := program(t, a.store.Dir, "wait", a.id)
		var out, trouble bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &trouble
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for !watches(t, cmd.Process.Pid) {
			runtime.Gosched()
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != exitLeft ||
			!strings.Contains(out.String(), `"status":"running"`) || !strings.Contains(trouble.String(), "goes on") {
			t.Errorf("%v: exit status %d, %q, %q", sig, code, out.String(), trouble.String())
		}
	}
}

// watches says whether a process has begun to watch files.
func watches(t *testing.T, pid int) bool {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
		to, _ := os.Readlink(filepath.Join(dir, fd.Name()))
		return to == "anon_inode:inotify"
	})
}
