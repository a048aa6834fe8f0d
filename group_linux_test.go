package jobprobe

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

func init() { stages["group"] = groupStage }

// numbers returns the sorted numbers of members.
func numbers(members []Member) (pids []int) {
	for i := range members {
		pids = append(pids, int(members[i].Identity.PID))
	}
	slices.Sort(pids)
	return pids
}

// pair starts two processes in one group; the first leads it.
func pair(t testproc.T) (leader, member *testproc.Child) {
	t.Helper()
	leader = testproc.Start(t, &syscall.SysProcAttr{Setpgid: true}, "idle")
	member = testproc.Start(t, &syscall.SysProcAttr{Setpgid: true, Pgid: leader.PID}, "idle")
	return leader, member
}

func wantGroup(t testproc.T, pgid int, complete bool, pids ...int) {
	t.Helper()
	slices.Sort(pids)
	members, got := Group(int64(pgid))
	if diff := cmp.Diff(pids, numbers(members)); diff != "" || got != complete {
		t.Fatalf("group %d: complete %t, (-want +got):\n%s", pgid, got, diff)
	}
}

// A group is its live processes: not a zombie, not a thread, and still a group
// when its leader is gone.
func TestGroupMembers(t *testing.T) {
	leader, member := pair(t)
	wantGroup(t, leader.PID, true, leader.PID, member.PID)
	wantGroup(t, member.PID, true)
	leader.Zombie(t)
	wantGroup(t, leader.PID, true, member.PID)
	leader.Kill()
	wantGroup(t, leader.PID, true, member.PID)
	member.Zombie(t)
	wantGroup(t, leader.PID, true)
	member.Kill()
	wantGroup(t, leader.PID, true)
}

// A process whose first thread has ended lives; what it was started with is
// the other threads' to tell.
func TestGroupDeadLeaderThread(t *testing.T) {
	t.Setenv("LIONAGI_MCP_JOB_RUN_ID", "a-run")
	c := testproc.Start(t, &syscall.SysProcAttr{Setpgid: true}, "dead-leader")
	wantGroup(t, c.PID, true, c.PID)
	m, err := Describe(int64(c.PID))
	if err != nil || m.Marker != MarkerFound || m.RunID != "a-run" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestDescribe(t *testing.T) {
	t.Setenv("A_LONG_ENVIRONMENT", strings.Repeat("x", 100_000))
	t.Setenv("JOBPROBE_RUN_ID", "outer")
	t.Setenv("LIONAGI_MCP_JOB_RUN_ID", "a-run")
	c := testproc.Start(t, &syscall.SysProcAttr{Setsid: true}, "idle")
	got, err := Describe(int64(c.PID))
	n := int64(c.PID)
	want := Member{
		Identity: identify(t, c.PID), PGID: n, Session: n,
		UID: uint32(os.Getuid()), HasUID: true, Marker: MarkerFound, RunID: "a-run",
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	found, _ := Marked("a-run")
	if !slices.Contains(numbers(found), c.PID) || slices.Contains(numbers(found), os.Getpid()) {
		t.Errorf("marked: %v", numbers(found))
	}
	if found, _ := Marked("outer"); slices.Contains(numbers(found), c.PID) {
		t.Error("the outer run's marker is found where the inner one's is")
	}
	if _, err := Describe(int64(testproc.ThreadID(t))); !errors.Is(err, ErrNoProcess) {
		t.Errorf("a thread: %v", err)
	}
	c.Zombie(t)
	if _, err := Describe(n); !errors.Is(err, ErrNoProcess) {
		t.Errorf("a zombie: %v", err)
	}
}

// An execve shows an empty environment for a moment. It is waited for.
func TestMarkerDuringExec(t *testing.T) {
	t.Setenv("JOBPROBE_RUN_ID", "execing")
	c := testproc.Start(t, nil, "exec-storm")
	for range 300 {
		if marker, runID := markerOf(int64(c.PID)); marker == MarkerNone || marker == MarkerFound && runID != "execing" {
			t.Fatalf("%s %q", marker, runID)
		}
	}
}

// Nobody's marker: kernel threads, and a process without an environment.
func TestMarkerNone(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.Env = []string{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if marker, _ := markerOf(int64(cmd.Process.Pid)); marker != MarkerNone {
		t.Errorf("no environment: %s", marker)
	}
	sc, err := currentScope()
	if err != nil {
		t.Fatal(err)
	}
	if _, kernel := taskState(sc, 2); kernel { // kthreadd, outside containers
		if marker, _ := markerOf(2); marker != MarkerNone && os.Geteuid() == 0 {
			t.Errorf("a kernel thread: %s", marker)
		}
	}
}

// The handle names the group also after its leader has been collected, and
// no other group of the number.
func TestSignalGroup(t *testing.T) {
	needPidfs(t) // as old as the flag
	leader, member := pair(t)
	p, err := Open(identify(t, leader.PID))
	if err != nil {
		t.Fatal(err)
	}
	leader.Kill()
	if err := p.SignalGroup(syscall.Signal(0)); err != nil {
		t.Fatalf("a group without its leader: %v", err)
	}
	if err := p.SignalGroup(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	member.Exited(t)
	member.Kill()
	if err := p.SignalGroup(unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a group that is gone: %v", err)
	}
	p.Close()
	if err := p.SignalGroup(unix.SIGKILL); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed handle: %v", err)
	}
}

// A process that leads no group has none to be signalled.
func TestSignalGroupOfMember(t *testing.T) {
	leader, member := pair(t)
	p, err := Open(identify(t, member.PID))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.SignalGroup(unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("error is %v", err)
	}
	if err := p.signalGroupByNumber(unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("by number: %v", err)
	}
	wantGroup(t, leader.PID, true, leader.PID, member.PID)
}

// Before Linux 6.9 the number is used, while the leader is there.
func TestSignalGroupByNumber(t *testing.T) {
	leader, member := pair(t)
	p, err := Open(identify(t, leader.PID))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.signalGroupByNumber(syscall.Signal(0)); err != nil {
		t.Fatal(err)
	}
	leader.Kill()
	if err := p.signalGroupByNumber(unix.SIGKILL); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without the leader: %v", err)
	}
	if member.Exits() {
		t.Error("the member was signalled by the number of a leader that is gone")
	}
}

// Where processes are hidden, a list of nobody is no proof.
func TestGroupHidden(t *testing.T) {
	needPidfs(t)
	for setups, want := range map[string]string{
		"proc":                          "visible 2 true, gone 0 true",
		"proc,drop":                     "visible 2 true, gone 0 true",
		"proc=hidepid=1":                "visible 2 true, gone 0 true",   // root sees all
		"proc=hidepid=1,drop":           "visible 2 false, gone 0 false", // by pidfd and getpgid
		"proc=hidepid=2,drop":           "visible 0 false, gone 0 false",
		"proc,scope,umount-proc":        "visible 2 true, gone 0 true", // the descriptor stays
		"proc,drop,deny=openat:EACCES":  "visible 0 false, gone 0 false",
		"proc,scope,deny=openat:EMFILE": "visible 0 false, gone 0 false",
	} {
		got := testproc.Play(t, testproc.PIDs, "group", setups)
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", setups, diff)
		}
	}
}

// groupStage prepares itself, with the scope verified at the mark, after a
// pair of root's has been started.
func groupStage(s *testproc.Stage) {
	leader, member := pair(s)
	s.Cleanup(leader.End) // a stage without privilege cannot kill them
	s.Cleanup(member.End)
	gone := testproc.Start(s, &syscall.SysProcAttr{Setpgid: true}, "idle")
	gone.Kill()
	for setups := range strings.SplitSeq(s.Args[0], ","+scopeMark+",") {
		testproc.Prepare(s, setups)
		if _, err := currentScope(); err != nil {
			s.Logf("scope: %v", err)
		}
	}
	visible, complete := Group(int64(leader.PID))
	none, proved := Group(int64(gone.PID))
	s.Say("visible %d %s, gone %d %s", len(visible), strconv.FormatBool(complete), len(none), strconv.FormatBool(proved))
}
