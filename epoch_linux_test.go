package jobprobe

import (
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// created is the start time that another program would have recorded.
func created(t testproc.T, id Identity) float64 {
	t.Helper()
	seconds, ok := id.CreateTime()
	if !ok {
		t.Fatalf("no start time of %+v", id)
	}
	return seconds
}

// expectEpoch probes a weak identity here and compares.
func expectEpoch(t *testing.T, name string, id EpochIdentity, want string) {
	t.Helper()
	v := ProbeEpoch(id)
	if got := verdict(v); got != want {
		t.Errorf("%s: got %q, want %q\n%s", name, got, want, receipt(v))
	}
}

func TestEpochLive(t *testing.T) {
	_, id := child(t)
	at := created(t, id)
	for _, off := range []float64{0, 0.09, -0.09} {
		expectEpoch(t, "within 0.1 s", EpochIdentity{PID: id.PID, Created: at + off}, "identity_confirmed weak")
	}
	for _, step := range []float64{1, 2, 60, 3600, -1} {
		v := ProbeEpoch(EpochIdentity{PID: id.PID, Created: at + step})
		if v.Finding != IdentityUnreadable || v.Conclusion != Unknown {
			t.Errorf("clock step %v: %v", step, v.Finding)
		}
	}
	for _, off := range []float64{0.5, -0.31, 3600.25} {
		v := ProbeEpoch(EpochIdentity{PID: id.PID, Created: at + off})
		if v.Finding != PIDRecycled {
			t.Errorf("off by %v: %v", off, v.Finding)
		}
	}
	// This one leads no session; a run that did is not it.
	member := identify(t, testproc.Member(t))
	v := ProbeEpoch(EpochIdentity{PID: member.PID, Created: created(t, member) + 60, PGID: member.PID})
	if v.Finding != PIDRecycled {
		t.Errorf("leads no session: %v", v.Finding)
	}
	_, leader := child(t, "session")
	v = ProbeEpoch(EpochIdentity{PID: leader.PID, Created: created(t, leader) + 60, PGID: leader.PID})
	if v.Finding != IdentityUnreadable {
		t.Errorf("leads its session: %v", v.Finding)
	}
}

// The run's own marker confirms it where the clock cannot.
func TestEpochMarker(t *testing.T) {
	for _, name := range []string{"JOBPROBE_RUN_ID", "LIONAGI_MCP_JOB_RUN_ID"} {
		t.Setenv(name, "run-7")
		_, id := child(t)
		os.Unsetenv(name)
		weak := EpochIdentity{PID: id.PID, Created: created(t, id) + 60, RunID: "run-7"}
		expectEpoch(t, name, weak, "identity_confirmed weak")
		for _, other := range []string{"", "run-77", "run-", "run-7\x00"} {
			weak.RunID = other
			if v := ProbeEpoch(weak); v.Finding != IdentityUnreadable {
				t.Errorf("%s, run %q: %v", name, other, v.Finding)
			}
		}
	}
	t.Setenv("X_JOBPROBE_RUN_ID", "run-7")
	_, id := child(t)
	if v := ProbeEpoch(EpochIdentity{PID: id.PID, Created: created(t, id) + 60, RunID: "run-7"}); v.Finding != IdentityUnreadable {
		t.Errorf("another variable: %v", v.Finding)
	}
}

func TestEpochGone(t *testing.T) {
	c, id := child(t)
	at := created(t, id)
	c.Zombie(t)
	for _, at := range []float64{at, at + 60, 0, math.NaN()} {
		expectEpoch(t, "zombie", EpochIdentity{PID: id.PID, Created: at}, "disappeared_during_probe exited_unreaped")
	}
	c.Kill()
	for _, at := range []float64{at, at + 60, 0, math.NaN()} {
		expectEpoch(t, "collected", EpochIdentity{PID: id.PID, Created: at}, "pid_absent")
	}
	expectEpoch(t, "thread", EpochIdentity{PID: int64(testproc.ThreadID(t)), Created: at}, "pid_absent")
}

// A weak identity is as careful about its surroundings as a strong one.
func TestEpochElsewhere(t *testing.T) {
	_, id := child(t)
	gone := reaped(t)
	at := strconv.FormatFloat(created(t, id), 'f', -1, 64)
	for _, c := range []struct {
		prober
		live, gone string
	}{
		{prober{testproc.Mounts, "umount-proc", nil}, "probe_environment_unusable", "probe_environment_unusable"},
		{prober{testproc.Mounts, "proc=hidepid=2,drop", nil}, "access_denied", "pid_absent"},
		{prober{testproc.Mounts, "proc=hidepid=1,drop", nil}, "access_denied", "pid_absent"},
		{prober{testproc.Mounts, "proc=subset=pid", nil}, "identity_unreadable", "pid_absent"},
		{prober{nil, "scope,nofile=3", nil}, "identity_unreadable", "pid_absent"},
		{prober{nil, "deny=pidfd_open:ENOSYS", nil}, "identity_confirmed weak", "pid_absent"},
		{prober{nil, "timens=1000", nil}, "identity_confirmed weak", "pid_absent"},
		// The clock of this namespace is ahead by a fraction of a second, and
		// with it every start time that is read here.
		{prober{nil, "timens=1000.5", nil}, "identity_unreadable", "pid_absent"},
	} {
		t.Run(c.setups, func(t *testing.T) {
			got := testproc.Play(t, c.attr, "probe-epoch", c.setups, at,
				strconv.FormatInt(id.PID, 10), strconv.FormatInt(gone.PID, 10))
			if diff := cmp.Diff([]string{c.live, c.gone}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// probeEpochStage prepares itself and says the verdict on each number.
func probeEpochStage(s *testproc.Stage) {
	prepare(s, s.Args[0])
	at, err := strconv.ParseFloat(s.Args[1], 64)
	if err != nil {
		s.Fatalf("%v", err)
	}
	for _, text := range s.Args[2:] {
		pid, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			s.Fatalf("%v", err)
		}
		s.Say("%s", verdict(ProbeEpoch(EpochIdentity{PID: pid, Created: at})))
	}
}
