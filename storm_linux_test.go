package jobprobe

import (
	"bytes"
	"os"
	"strconv"
	"testing"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// Probes of each exec storm: in full, and with -short.
const (
	stormProbes      = 200_000
	stormProbesShort = 6_000
	// generations is how many executions the probes are spread over, at least.
	generations = 100
)

// A process whose other threads execute programs, one after the other, is
// alive at every instant, although for moments the kernel shows it as dead:
// state Z without threads, or a readable pidfd (rules 5 to 7).
func TestExecStorm(t *testing.T) {
	probes := stormProbes
	if testing.Short() {
		probes = stormProbesShort
	}
	for _, leader := range []string{"living", "dead"} {
		t.Run(leader+" leader", func(t *testing.T) { execStorm(t, leader, probes/6) })
	}
}

func execStorm(t *testing.T, leader string, probes int) {
	c := testproc.Start(t, nil, "exec-storm", leader)
	id := identify(t, c.PID)
	records := map[string]Identity{"pidfs": id, "ticks": ticksOnly(id), "no stamp": noStamp(id)}
	if id.Uniq == 0 {
		delete(records, "pidfs")
	}
	seen := map[string]int{}
	probe := func(name string, id Identity) {
		v := Probe(id)
		seen[name+": "+verdict(v)]++
		if v.Conclusion == Alive {
			return
		}
		if c.Exits() {
			t.Fatalf("the storm ended after %v", seen)
		}
		t.Fatalf("by %s: %s, after %v\n%s", name, verdict(v), seen, receipt(v))
	}
	for range generations {
		c.Line(t) // the next generation has begun
		for range probes / generations {
			for name, id := range records {
				probe(name, id)
			}
		}
	}
	t.Log(seen)
}

// The same where no pidfd can be had, and where /proc hides the process.
func TestExecStormElsewhere(t *testing.T) {
	probes := stormProbes / 4
	if testing.Short() {
		probes = stormProbesShort
	}
	c := testproc.Start(t, nil, "exec-storm", "dead")
	id := encode(t, identify(t, c.PID))[0]
	c.Line(t) // it has begun
	for _, p := range []prober{
		{nil, "deny=pidfd_open:ENOSYS", nil},
		{testproc.Mounts, "proc=hidepid=2,drop", nil},
	} {
		t.Run(p.setups, func(t *testing.T) {
			for _, line := range testproc.Play(t, p.attr, "often", p.setups, id, strconv.Itoa(probes)) {
				t.Log(line)
			}
			if c.Exits() {
				t.Fatal("the storm ended")
			}
		})
	}
	t.Logf("%d executions", bytes.Count(c.Drain(), []byte("\n")))
}

// oftenStage probes one identity many times and accepts alive only.
func oftenStage(s *testproc.Stage) {
	testproc.Prepare(s, s.Args[0])
	id := decode(s, s.Args[1])
	probes, err := strconv.Atoi(s.Args[2])
	if err != nil {
		s.Fatalf("%v", err)
	}
	seen := map[string]int{}
	for i := range probes {
		v := Probe(id)
		seen[verdict(v)]++
		if v.Conclusion == ProcessGone {
			s.Fatalf("probe %d: %s\n%s", i, verdict(v), receipt(v))
		}
	}
	s.Say("%d probes as %d: %v", probes, os.Getuid(), seen)
}
