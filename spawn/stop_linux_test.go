package spawn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

const (
	// deaf ignores SIGTERM, and says so.
	deaf = `trap "" TERM; echo ready; while :; do sleep 600; done`
	// polite ends at SIGTERM, in its own way.
	polite = `trap "exit 9" TERM; echo ready; while :; do sleep 600 & wait; done`
)

// Why a job ended is told apart, and its exit status is kept whatever that was.
func TestStopCauses(t *testing.T) {
	const soon, long = time.Millisecond, time.Hour
	terminate := func(t *testing.T, _ sidecar.Store, h Handle) { send(t, pin(t, h.Supervisor), syscall.SIGTERM) }
	for name, c := range map[string]struct {
		script         string
		timeout, grace time.Duration
		stop           func(t *testing.T, store sidecar.Store, h Handle)
		want           string
	}{
		"exits": {"echo ready; exit 4", 0, 0, nil,
			`failed failed run.failed.exit_nonzero 4 null "supervisor_exit"`},
		"ends before its time": {"echo ready", long, 0, nil,
			`completed succeeded null 0 null "supervisor_exit"`},
		"foreign signal": {"echo ready; exec sleep 600", 0, 0,
			func(t *testing.T, _ sidecar.Store, h Handle) { send(t, pin(t, h.Identity), syscall.SIGINT) },
			`failed failed run.failed.signal null "SIGINT" "supervisor_exit"`},
		"interrupted": {"echo ready; sleep 600", 0, long, terminate,
			`cancelled cancelled run.cancelled.sigterm null "SIGTERM" "supervisor_exit"`},
		"interrupted, polite": {polite, 0, long, terminate,
			`cancelled cancelled run.cancelled.sigterm 9 null "supervisor_exit"`},
		"interrupted, deaf": {deaf, 0, soon, terminate,
			`cancelled cancelled run.cancelled.sigterm null "SIGKILL" "supervisor_exit"`},
		"time is up, deaf": {deaf, 300 * time.Millisecond, soon, nil,
			`timed_out failed run.timed_out.deadline null "SIGKILL" "supervisor_exit"`},
		"killed": {deaf, 0, 0,
			func(t *testing.T, store sidecar.Store, h Handle) {
				reply, err := observer(store).Kill(t.Context(), h.RunID, reap.KillOptions{Grace: soon})
				if err != nil || !reply.Killed || !reply.Recorded {
					t.Errorf("%+v, %v", reply, err)
				}
			},
			`killed cancelled null null null "mcp_kill"`},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			h := began(t, store, Request{Argv: shell(c.script), Timeout: c.timeout, Grace: c.grace})
			if c.stop != nil {
				c.stop(t, store, h)
			}
			if got := strings.TrimSpace(ending(finished(t, store, h.RunID))); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// A job whose time is up before it has done anything.
func TestTimeout(t *testing.T) {
	store := newStore(t)
	h, err := Start(t.Context(), store, Request{Argv: []string{"sleep", "600"}, Timeout: 1, Grace: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	want := `timed_out failed run.timed_out.deadline null "SIGTERM" "supervisor_exit"`
	if got := strings.TrimSpace(ending(finished(t, store, h.RunID))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, bad := range map[string]Request{
		"timeout": {Argv: []string{"true"}, Timeout: -1}, "grace": {Argv: []string{"true"}, Grace: -1},
	} {
		if _, err := Start(t.Context(), store, bad); !errors.Is(err, ErrBadTime) {
			t.Errorf("a negative %s: %v", name, err)
		}
	}
}

// What a stopped job leaves of its group is ended with it.
func TestStopEndsTheGroup(t *testing.T) {
	store := newStore(t)
	pids := filepath.Join(t.TempDir(), "pids")
	h := began(t, store, Request{
		Argv:  []string{"sh", "-c", `(trap "" TERM; sh -c 'echo $PPID' >"$1"; while :; do sleep 600; done) & while [ ! -s "$1" ]; do :; done; echo ready; wait`, "sh", pids},
		Grace: time.Millisecond,
	})
	data, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	var pid int64
	if _, err := fmt.Sscan(string(data), &pid); err != nil || pid <= 1 || state(pid) == 0 {
		t.Fatalf("background process %q, %v", data, err)
	}
	send(t, pin(t, h.Supervisor), syscall.SIGTERM)
	finished(t, store, h.RunID)
	until(t, "the background process is gone", func() bool { return state(pid) == 0 || state(pid) == 'Z' })
}

// The input of a job is a file, if one is named.
func TestStdin(t *testing.T) {
	store := newStore(t)
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "in"), filepath.Join(dir, "fifo")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := Start(t.Context(), store, Request{Argv: []string{"cat"}, Stdin: file})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, store, h.RunID)
	if got := console(t, store, h.RunID); got != "from a file\n" {
		t.Errorf("the job read %q", got)
	}
	for _, bad := range []string{fifo, dir, file + ".not"} {
		if _, err := Start(t.Context(), store, Request{Argv: []string{"cat"}, Stdin: bad}); !errors.Is(err, ErrBadStdin) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A command line that is to be hidden is nowhere in the job's directory, be it
// that the job runs, fails to start, or is killed.
func TestHideArgv(t *testing.T) {
	const secret = "s3cret-word"
	for _, argv := range [][]string{{"true", secret}, {"/no/such/" + secret}, {"sh", "-c", "kill -9 $$", secret}} {
		store := newStore(t)
		h, err := Start(t.Context(), store, Request{Argv: argv, HideArgv: true})
		if err == nil {
			finished(t, store, h.RunID)
		}
		for path, data := range tree(t, store.Dir) {
			if strings.Contains(data, secret) {
				t.Errorf("%v: %s tells it:\n%s", argv, path, data)
			}
		}
	}
}

// A bounded log is whole up to its bound, and all of it is there when the end
// is; the job's record names the bound.
func TestLogMax(t *testing.T) {
	store := newStore(t)
	h, err := Start(t.Context(), store, Request{Argv: []string{"seq", "100000"}, LogMax: 16 << 10})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, store, h.RunID)
	log := console(t, store, h.RunID)
	gap := FindGap(strings.NewReader(log), 16<<10)
	if len(log) > 16<<10 || !strings.HasPrefix(log, "1\n2\n3\n") || !strings.HasSuffix(log, "\n99999\n100000\n") {
		t.Errorf("%d bytes: %.20q ... %q", len(log), log, log[max(0, len(log)-20):])
	}
	const printed = 9*2 + 90*3 + 900*4 + 9000*5 + 90000*6 + 7
	if int64(len(log))-gap.Mark+gap.Dropped != printed {
		t.Errorf("%d bytes and %+v of %d", len(log), gap, printed)
	}
	if n, _ := store.Read(h.RunID).Record.Int("log_max"); n != 16<<10 {
		t.Errorf("the record says %d", n)
	}
	if _, err := Start(t.Context(), store, Request{Argv: []string{"true"}, LogMax: MinLog - 1}); !errors.Is(err, ErrBadLogMax) {
		t.Errorf("%v", err)
	}
}

// What outlives the job prints on; so does the job, if its supervisor is
// killed.
func TestLogMaxGoesOn(t *testing.T) {
	store := newStore(t)
	fifo := filepath.Join(t.TempDir(), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(fifo, os.O_RDWR, 0) // there is always a reader and a writer
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	tell := func() {
		if _, err := pipe.WriteString("go\n"); err != nil {
			t.Fatal(err)
		}
	}
	says := func(h Handle, what string) {
		t.Helper()
		until(t, "it says "+what, func() bool { return strings.HasSuffix(console(t, store, h.RunID), what+"\n") })
	}
	run := func(script string) Handle {
		return began(t, store, Request{Argv: []string{"sh", "-c", script, "sh", fifo}, LogMax: MinLog})
	}
	h := run(`echo one; setsid sh -c 'read line <"$1"; echo late' sh "$1" & exit 0`)
	finished(t, store, h.RunID)
	tell()
	says(h, "late")

	h = run(`echo one; read line <"$1"; echo two; read line <"$1"`)
	kill(t, h.Supervisor)
	tell()
	says(h, "two")
	if job := status(t, store, h.RunID); job.Status != "running" {
		t.Errorf("the job is %s", job.Status)
	}
	tell()
	if job := finished(t, store, h.RunID); text(job.Outcome) != sidecar.Indeterminate {
		t.Errorf("the job is %s", job.Status)
	}
}

// A job whose keeper is killed can print no more, and ends like any other.
func TestLogKeeperKilled(t *testing.T) {
	store := newStore(t)
	h := began(t, store, Request{Argv: shell("echo ready; while :; do sleep 0.01; echo more; done"), LogMax: MinLog})
	keeper := pinChild(t, int(h.Supervisor.PID), keepName)
	send(t, keeper, syscall.SIGTERM) // which it ignores: the job may print yet
	send(t, keeper, syscall.SIGKILL)
	want := `failed failed run.failed.signal null "SIGPIPE" "supervisor_exit"`
	if got := strings.TrimSpace(ending(finished(t, store, h.RunID))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A job that dumped core is told apart, as wait(2) tells it here.
func TestCoreFlag(t *testing.T) {
	store := newStore(t)
	dir := t.TempDir()
	script := "ulimit -c unlimited; kill -ABRT $$"
	control := exec.Command("sh", "-c", script)
	control.Dir = dir
	_ = control.Run()
	want := control.ProcessState.Sys().(syscall.WaitStatus).CoreDump()
	h, err := Start(t.Context(), store, Request{Argv: shell(script), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	job := finished(t, store, h.RunID)
	raw, told := store.Read(h.RunID).Record.Raw("core_dumped")
	if string(job.Signal) != `"SIGABRT"` || told != want || told && string(raw) != "true" {
		t.Errorf("signal %s, core %s, want %v", job.Signal, raw, want)
	}
	t.Logf("count: core dumped here: %v", want)
}
