package jobprobe

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// The scope is verified once, by whoever comes first, and is one for all.
func TestScopeConcurrently(t *testing.T) {
	verified.Store(nil)
	own := os.Getpid()
	var wg sync.WaitGroup
	ids := make([]Identity, 16)
	for i := range ids {
		wg.Go(func() { ids[i], _ = Identify(own) })
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || id.Uniq == 0 && id.Start == 0 {
			t.Errorf("%+v and %+v", id, ids[0])
		}
	}
}

// A failure to verify is not kept: the next probe tries again.
func TestScopeRecovers(t *testing.T) {
	got := testproc.Play(t, nil, "recover", "")
	if diff := cmp.Diff([]string{"starved: probe_environment_unusable", "fed: identity_confirmed"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// recoverStage probes itself without descriptors, and then with them.
func recoverStage(s *testproc.Stage) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		s.Fatalf("%v", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}); err != nil {
		s.Skipf("setrlimit: %v", err)
	}
	starved := Probe(Identity{PID: int64(os.Getpid())})
	_, err := Identify(os.Getpid())
	if !errors.Is(err, ErrUnidentified) || !errors.Is(err, unix.EMFILE) {
		s.Fatalf("identified without descriptors: %v", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		s.Fatalf("%v", err)
	}
	s.Say("starved: %s", starved.Finding)
	s.Say("fed: %s", Probe(identify(s, os.Getpid())).Finding)
}

// Of a prober whose first thread has ended, /proc/self shows less.
func TestScopeDeadLeader(t *testing.T) {
	_, live := child(t)
	other := otherStart(ticksOnly(live))
	got := testproc.Play(t, nil, "dead-prober", encode(t, live, other, reaped(t))...)
	want := []string{"identity_confirmed", "pid_recycled", "pid_absent"}
	if live.Uniq == 0 {
		want[0] += " weak"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// deadProberStage ends its first thread and probes from another.
func deadProberStage(s *testproc.Stage) {
	go func() {
		runtime.LockOSThread()
		for own := strconv.Itoa(os.Getpid()); ; {
			line, err := os.ReadFile("/proc/" + own + "/stat")
			st, ok := parseStat(line)
			if err != nil || !ok {
				os.Exit(1)
			}
			if st.state == 'Z' {
				break
			}
		}
		for _, text := range s.Args {
			s.Say("%s", verdict(Probe(decode(s, text))))
		}
		os.Exit(0)
	}()
	testproc.EndThread()
}

// Identify says who cannot be identified, and why.
func TestIdentifyErrors(t *testing.T) {
	gone := reaped(t)
	for pid, want := range map[int]error{
		int(gone.PID): ErrNoProcess, 1<<31 - 1: ErrNoProcess, testproc.ThreadID(t): ErrNoProcess,
		0: ErrUnusablePID, -1: ErrUnusablePID,
	} {
		id, err := Identify(pid)
		if !errors.Is(err, want) || id != (Identity{}) {
			t.Errorf("Identify(%d): %+v, %v", pid, id, err)
		}
	}
}

// What Identify can say under each obstacle: the whole, the unique number
// alone, ticks alone, or nothing.
func TestIdentifyElsewhere(t *testing.T) {
	c, whole := child(t)
	number := strconv.Itoa(c.PID)
	uniqOnly := whole
	uniqOnly.Start, uniqOnly.StartUnit = 0, ""
	for _, p := range []struct {
		prober
		want Identity
	}{
		{prober{nil, "", nil}, whole},
		{prober{nil, "drop", nil}, whole},
		{prober{testproc.Mounts, "proc=hidepid=2,drop", nil}, uniqOnly},
		{prober{testproc.Mounts, "proc=hidepid=1,drop", nil}, uniqOnly},
		{prober{nil, "deny=pidfd_send_signal:EPERM", nil}, whole},
		{prober{nil, "deny=pidfd_open:ENOSYS", nil}, ticksOnly(whole)},
		{prober{nil, "scope,deny=openat:EACCES", nil}, uniqOnly},
	} {
		if whole.Uniq == 0 && p.want.Start == 0 {
			continue
		}
		t.Run(p.setups, func(t *testing.T) {
			want := encode(t, p.want)[0]
			if got := testproc.Play(t, p.attr, "identify", p.setups, number)[0]; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
