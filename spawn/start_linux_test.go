package spawn

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe"
)

// The work's first instruction finds its record started, with its own number.
func TestRecordIsThereBeforeTheWork(t *testing.T) {
	store := newStore(t)
	h := start(t, store, shell(`cat "$JOBPROBE_DIR/$JOBPROBE_RUN_ID/job.json"; echo; echo $$`)...)
	finished(t, store, h.RunID)
	out := console(t, store, h.RunID)
	end := strings.LastIndexByte(out, '}') + 1
	record, pid := out[:end], strings.TrimSpace(out[end:])
	var rec struct {
		RunID      string            `json:"run_id"`
		PID        int64             `json:"pid"`
		PGID       int64             `json:"pgid"`
		Created    float64           `json:"pid_create_time"`
		SpawnState string            `json:"spawn_state"`
		Status     string            `json:"status"`
		FinishedAt *string           `json:"finished_at"`
		Identity   jobprobe.Identity `json:"process_identity"`
		Supervisor jobprobe.Identity `json:"supervisor"`
		Spawner    jobprobe.Identity `json:"spawner"`
	}
	if err := json.Unmarshal([]byte(record), &rec); err != nil {
		t.Fatalf("%v in %s", err, record)
	}
	if rec.RunID != h.RunID || rec.SpawnState != "started" || rec.Status != "running" || rec.FinishedAt != nil {
		t.Errorf("the work read %+v", rec)
	}
	if fmt.Sprint(rec.PID) != pid || rec.PID != h.PID || rec.PGID != rec.PID {
		t.Errorf("pid %s, its record says %d in group %d, the handle says %d", pid, rec.PID, rec.PGID, h.PID)
	}
	if rec.Identity != h.Identity || rec.Supervisor != h.Supervisor || rec.Identity.PID != rec.PID {
		t.Errorf("identities %+v and %+v, the handle says %+v and %+v", rec.Identity, rec.Supervisor, h.Identity, h.Supervisor)
	}
	if created, ok := h.Identity.CreateTime(); !ok || created != rec.Created {
		t.Errorf("start time %v, recorded %v", created, rec.Created)
	}
	if self, err := jobprobe.Identify(os.Getpid()); err != nil || rec.Spawner != self {
		t.Errorf("spawner %+v, this is %+v (%v)", rec.Spawner, self, err)
	}
}

// A job has no input, a session and a group of its own, and nothing open
// besides its console.
func TestSurroundings(t *testing.T) {
	store := newStore(t)
	out := output(t, store, shell(`readlink /proc/$$/fd/0; cut -d' ' -f1,5,6 /proc/$$/stat; ls /proc/$$/fd; pwd`)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 6 || lines[0] != "/dev/null" {
		t.Fatalf("job says:\n%s", out)
	}
	if ids := strings.Fields(lines[1]); len(ids) != 3 || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("pid, group and session are %s", lines[1])
	}
	if diff := cmp.Diff([]string{"0", "1", "2"}, lines[2:5]); diff != "" {
		t.Errorf("open descriptors (-want +got):\n%s", diff)
	}
	if dir, _ := os.Getwd(); lines[5] != dir {
		t.Errorf("the job runs in %s, this in %s", lines[5], dir)
	}
}

// What the caller has open for its own children (a lock of flock(1), a pipe of
// a shell) must not live as long as the job does.
func TestInheritedDescriptorsEnd(t *testing.T) {
	store := newStore(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := spawner(store.Dir, "sleep", "600")
	cmd.ExtraFiles = []*os.File{w}
	h := spawned(t, cmd)
	w.Close()
	if err := r.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the caller's pipe is held by the job %d or its supervisor %d: %v", h.PID, h.Supervisor.PID, err)
	}
}

// spawned runs a spawner to its end and returns what it started.
func spawned(t *testing.T, cmd *exec.Cmd) Handle {
	t.Helper()
	var trouble strings.Builder
	cmd.Stderr = &trouble
	out, err := cmd.Output()
	var h Handle
	if err == nil {
		err = json.Unmarshal(out, &h)
	}
	if err != nil {
		t.Fatalf("spawner: %v\n%s", err, trouble.String())
	}
	return h
}

// Signals that the caller ignores or blocks are no business of the job's: a
// job that ignores SIGTERM because a shell did could not be stopped.
func TestSignalsAreDefault(t *testing.T) {
	store := newStore(t)
	cmd := spawner(store.Dir, "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
	cmd.Args = append([]string{"sh", "-c",
		`trap '' HUP INT QUIT PIPE TERM USR1 CHLD TSTP TTIN TTOU WINCH; exec /proc/$PPID/exe "$@"`, "sh"}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var blocked, before unix.Sigset_t
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR2, syscall.SIGINT} {
		blocked.Val[0] |= 1 << (uint(sig) - 1)
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before); err != nil {
		t.Fatal(err)
	}
	h := spawned(t, cmd)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); err != nil {
		t.Fatal(err)
	}
	finished(t, store, h.RunID)
	for line := range strings.Lines(console(t, store, h.RunID)) {
		name, mask, _ := strings.Cut(strings.TrimSpace(line), ":")
		// 32 and 33 are glibc's own, which its posix_spawn(3) ignores in a child.
		const internal = 3 << 31
		if set, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64); err != nil || set&^internal != 0 {
			t.Errorf("%s is %#x", name, set)
		}
	}
}

// The environment is the caller's, in order, and three markers. A marker of an
// outer job is replaced.
func TestEnvironment(t *testing.T) {
	store := newStore(t)
	env := []string{"PATH=" + os.Getenv("PATH"), "EMPTY=", "EQUALS==a=b", "LINES=x\ny", "JOBPROBE_RUN_ID=outer", "LATIN1=\xe9\xff"}
	h, err := Start(t.Context(), store, Request{Argv: []string{"env", "-0"}, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, store, h.RunID)
	got := strings.Split(strings.TrimSuffix(console(t, store, h.RunID), "\x00"), "\x00")
	want := append(env[:4:4], env[5],
		"JOBPROBE_RUN_ID="+h.RunID, "LIONAGI_MCP_JOB_RUN_ID="+h.RunID, "JOBPROBE_DIR="+store.Dir)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Arguments and paths are bytes, not text.
func TestBytes(t *testing.T) {
	store := newStore(t)
	dir := filepath.Join(t.TempDir(), "caf\xe9")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skipf("no such names here: %v", err)
	}
	h, err := Start(t.Context(), store, Request{Argv: []string{"sh", "-c", `printf '%s' "$1"; pwd`, "sh", "\xff\xfe,\\ \n"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, store, h.RunID)
	if got, want := console(t, store, h.RunID), "\xff\xfe,\\ \n"+dir+"\n"; got != want {
		t.Errorf("the job got %q, want %q", got, want)
	}
}

// The caller's umask and limits are the job's; its files are for their owner
// alone whatever the umask allows.
func TestModes(t *testing.T) {
	store := newStore(t)
	cmd := spawner(store.Dir, shell(`umask; ulimit -Sn; grep flags /proc/$$/fdinfo/1; echo trouble >&2`)...)
	cmd.Args = append([]string{"sh", "-c", `umask 0; ulimit -Sn 123; exec /proc/$PPID/exe "$@"`, "sh"}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	h := spawned(t, cmd)
	finished(t, store, h.RunID)
	lines := strings.Split(console(t, store, h.RunID), "\n")
	if len(lines) != 5 || lines[0] != "0000" || lines[1] != "123" || lines[3] != "trouble" {
		t.Errorf("job says %q", lines)
	}
	if flags, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(lines[2], "flags:")), 8, 64); err != nil || flags&unix.O_APPEND == 0 {
		t.Errorf("the console is not appended to: %q", lines[2])
	}
	job := filepath.Join(store.Dir, h.RunID)
	for path, want := range map[string]os.FileMode{
		store.Dir: os.ModeDir | 0o700, job: os.ModeDir | 0o700, filepath.Join(job, "job.json"): 0o600,
		filepath.Join(job, "job.lock"): 0o600, filepath.Join(job, "console.log"): 0o600,
	} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, want)
		}
	}
}
