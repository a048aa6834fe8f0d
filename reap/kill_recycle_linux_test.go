package reap

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// maxTurns bounds how often a number is tried to be passed on, since threads
// of the test take numbers too.
const maxTurns = 200

// recycleCases are what the stage "kill-recycle" plays: who loses the number,
// and when. The stranger that gets it leads a session, so that it also has the
// group's number.
var recycleCases = []struct {
	who  string
	step step
	want string // where it depends on the machine's speed, one of several
}{
	{"stamped", stepRead, "pid_recycled"},
	{"stamped", stepPinned, "leader_identity_changed"},
	{"stamped", stepDescribed, "leader_identity_changed"},
	{"stamped", stepProved, "leader_identity_changed"},
	{"stamped", stepLocked, "leader_identity_changed"},
	{"stamped", stepSignalled, "signalled completed"},
	{"deaf", stepGrace, "signalled completed"},
	{"deaf", stepAimed, "signalled completed"},
	{"plain", stepRead, "unverified_identity or pid_recycled"},
	{"plain", stepPinned, "leader_identity_changed"},
	{"plain", stepDescribed, "leader_identity_changed"},
	{"plain", stepProved, "leader_identity_changed"},
	{"plain", stepLocked, "leader_identity_changed"},
	{"orphan", stepRead, "pid_recycled"},
	{"orphan", stepProved, "process_gone"},
	{"orphan", stepLocked, "process_gone"},
	{"member", stepProved, "process_gone"},
	{"member", stepLocked, "process_gone"},
	{"deaf orphan", stepSignalled, "signalled completed"},
	{"deaf orphan", stepGrace, "signalled completed"},
	{"deaf orphan", stepAimed, "signalled completed"},
}

// The number of the leader, of a member or of the group passes to a stranger
// at each step of a kill; the stranger lives on every time.
func TestPoint15RecycledAtEveryStep(t *testing.T) {
	for _, c := range recycleCases {
		step := strconv.Itoa(int(c.step))
		name := strings.ReplaceAll(c.who, " ", "-") + "/" + step
		t.Run(name, func(t *testing.T) {
			got := killStage(t, testproc.PIDs, "kill-recycle", c.who, step)
			if len(got) != 1 || !slices.Contains(strings.Split(c.want, " or "), got[0]) {
				t.Errorf("got %q, want %s", got, c.want)
			}
		})
	}
}

// A10 and A15: a kill after the number was recycled, and another one.
func TestCaseA10(t *testing.T) {
	got := killStage(t, testproc.PIDs, "kill-recycle", "twice", strconv.Itoa(int(stepRead)))
	if diff := cmp.Diff([]string{"pid_recycled", "pid_recycled"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// killRecycleStage is number 1 of its own namespace, so it can choose numbers
// and collects orphans.
func killRecycleStage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	who := s.Args[0]
	at, err := strconv.Atoi(s.Args[1])
	if err != nil {
		s.Fatalf("%v", err)
	}
	for range maxTurns {
		if recycleTurn(s, who, step(at)) {
			return
		}
	}
	s.Fatalf("no number could be recycled in %d turns", maxTurns)
}

// recycleTurn says whether the stranger got the number, and then what became
// of the kill.
func recycleTurn(s *testproc.Stage, who string, when step) bool {
	k := newPack(s)
	victim, wanted, free := k.quarry(who)
	var stranger *prey
	pass := func() {
		free()
		testproc.NextTick()
		if err := testproc.NextPID(wanted); err != nil {
			s.Skipf("%v", err)
		}
		stranger = session(s, scriptIdle).ready()
	}
	k.at(when, pass)
	opt := KillOptions{}
	if when > stepLocked {
		opt.Grace, opt.Verify = 50*time.Millisecond, 10*time.Second
	}
	reply := k.kill(opt)
	defer victim.end()
	if stranger == nil {
		s.Fatalf("the kill ended before step %d: %+v", when, reply)
	}
	defer stranger.end()
	if stranger.pid != wanted {
		return false
	}
	id := whoIs(s, stranger.pid)
	mustLive(s, id)
	said := []string{reply.ReasonCode}
	if reply.Killed {
		said[0] += " " + reply.Cleanup.String()
	}
	if who == "twice" {
		said = append(said, k.kill(KillOptions{Grace: time.Millisecond}).ReasonCode)
		mustLive(s, id)
	}
	for _, word := range said {
		s.Say("%s", word)
	}
	return true
}

// quarry starts what is to be killed and records it. It returns the number
// that will pass on, and what frees it.
func (k *pack) quarry(who string) (victim *prey, wanted int, free func()) {
	s := k.t
	switch who {
	case "stamped", "plain", "twice":
		victim = session(s, scriptIdle, runID).ready()
	case "deaf":
		victim = session(s, `trap "" TERM; echo ready; cat >/dev/null`, runID).ready()
	default:
		return k.orphans(who)
	}
	id := whoIs(s, victim.pid)
	if who == "plain" {
		k.record(plainly(s, id)...)
	} else {
		k.record(stamped(s, id)...)
	}
	return victim, victim.pid, func() {
		syscall.Kill(-victim.pid, syscall.SIGKILL)
		victim.reap()
		collectAll()
	}
}

// orphans is a group without its leader.
func (k *pack) orphans(who string) (victim *prey, wanted int, free func()) {
	s := k.t
	script := `read go; ` + scriptOrphan
	if strings.HasPrefix(who, "deaf") {
		script = `trap "" TERM; ` + script
	}
	victim = session(s, script, runID)
	k.record(stamped(s, whoIs(s, victim.pid))...)
	victim.in.Write([]byte("go\n"))
	member := victim.member()
	victim.collect()
	wanted = victim.pid
	if who == "member" {
		wanted = member
	}
	return victim, wanted, func() {
		syscall.Kill(member, syscall.SIGKILL)
		collectAll()
	}
}

// collectAll collects every child and orphan; all of them are ending.
func collectAll() {
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			return
		}
	}
}
