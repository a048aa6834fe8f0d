package jobprobe

import (
	"bufio"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// A process can have the same number in its own namespace and in the outer
// one whose /proc it sees; /proc/self then looks right, and the rest of /proc
// describes strangers.
func TestL2SameNumberInBoth(t *testing.T) {
	got := testproc.Play(t, testproc.PIDs, "twin")
	want := []string{
		"victim: probe_environment_unusable",
		"victim, ticks: probe_environment_unusable",
		"absent: probe_environment_unusable",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Numbers of the stages below: the prober's in both namespaces, and one of these
// the victim's inside, and a stranger's outside. A thread of a stage may have
// taken any of them for good.
const twinPID = 700

var victimPIDs = []int{800, 820, 840, 860}

// twinOuterStage is number 1 of the outer namespace. It starts the stranger,
// then an inner namespace, and makes the outer number of the prober there.
func twinOuterStage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	for _, pid := range victimPIDs {
		for range 20 {
			if stranger := numbered(s, pid); stranger != nil {
				break
			}
		}
	}
	testproc.NextTick()
	cmd := testproc.Command(s, testproc.PIDs, "twin/inner")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.Skipf("nested namespace: %v", err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() != "outer?" {
			s.Say("%s", lines.Text())
			continue
		}
		if err := testproc.NextPID(twinPID); err != nil {
			s.Skipf("%v", err)
		}
		io.WriteString(in, "set\n")
	}
	if err := cmd.Wait(); err != nil {
		s.Fatalf("inner: %v", err)
	}
}

// numbered starts an idle child under a number, or returns nil.
func numbered(s *testproc.Stage, pid int) *testproc.Child {
	if err := testproc.NextPID(pid); err != nil {
		s.Skipf("%v", err)
	}
	c := testproc.Start(s, nil, "idle")
	if c.PID == pid {
		return c
	}
	c.Kill()
	return nil
}

// twinInnerStage is number 1 of the inner namespace and sees the outer /proc.
func twinInnerStage(s *testproc.Stage) {
	var victim *testproc.Child
	for try := range 5 * len(victimPIDs) {
		if victim = numbered(s, victimPIDs[try%len(victimPIDs)]); victim != nil {
			break
		}
	}
	if victim == nil {
		s.Fatalf("no victim")
	}
	// Someone of this namespace with its /proc records the victim.
	record := testproc.Play(s, testproc.Mounts, "identify", "proc", strconv.Itoa(victim.PID))[0]
	absent := decode(s, record)
	absent.PID = 900
	records := []string{record, encode(s, ticksOnly(decode(s, record)))[0], encode(s, absent)[0]}

	answers := bufio.NewReader(os.Stdin)
	for range 50 {
		s.Say("outer?")
		answers.ReadString('\n')
		if err := testproc.NextPID(twinPID); err != nil {
			s.Skipf("%v", err)
		}
		got := testproc.Play(s, nil, "twin/prober", records...)
		if got[0] != "not twins" {
			for i, name := range []string{"victim", "victim, ticks", "absent"} {
				s.Say("%s: %s", name, got[i])
			}
			return
		}
	}
	s.Fatalf("no twin in 50 turns")
}

// twinProberStage probes if it has its number in both namespaces.
func twinProberStage(s *testproc.Stage) {
	status, _ := os.ReadFile("/proc/self/status")
	both := strconv.Itoa(os.Getpid())
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); f[0] == "NSpid:" && slices.Equal(f[1:], []string{both, both}) {
			for _, text := range s.Args {
				s.Say("%s", verdict(Probe(decode(s, text))))
			}
			return
		}
	}
	s.Say("not twins")
}
