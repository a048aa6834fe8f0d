package jobprobe

import (
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// prober is one process that probes: where it stands, and what it must say of each identity.
type prober struct {
	attr   *syscall.SysProcAttr
	setups string
	ask    []ask
}

type ask struct {
	id   Identity
	want string
}

// run starts the prober and compares its verdicts. It is a subtest, so that
// one that cannot be set up skips alone.
func (p prober) run(t *testing.T) {
	t.Helper()
	t.Run(p.setups, func(t *testing.T) {
		var ids []Identity
		var want []string
		for _, a := range p.ask {
			ids, want = append(ids, a.id), append(want, a.want)
		}
		args := append([]string{p.setups}, encode(t, ids...)...)
		got := testproc.Play(t, p.attr, "probe", args...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
	})
}

// unusablePIDs are numbers that must never reach a system call: kill(2) takes
// zero and negative ones for groups, and cuts the others to 32 bits.
func unusablePIDs() []int64 {
	return []int64{
		0, -1, -7, math.MinInt64, math.MaxInt64,
		1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1<<32 + int64(os.Getpid()),
	}
}

// L1: a number that is not askable.
func TestL1(t *testing.T) {
	own := identify(t, os.Getpid())
	for _, pid := range unusablePIDs() {
		id := own
		id.PID = pid
		v := Probe(id)
		if got := verdict(v); got != "unusable_pid" {
			t.Errorf("pid %d: %s", pid, got)
		}
		if n := len(v.Evidence.Calls()); n != 0 || v.Evidence.Observer() != (Scope{}) || v.Alive {
			t.Errorf("pid %d: %d calls, observer %v, alive %v", pid, n, v.Evidence.Observer(), v.Alive)
		}
		if v := ProbeEpoch(EpochIdentity{PID: pid, Created: 1e9}); verdict(v) != "unusable_pid" {
			t.Errorf("epoch pid %d: %s", pid, verdict(v))
		}
		if int64(int(pid)) != pid {
			continue // not an int here
		}
		if _, err := Identify(int(pid)); !errors.Is(err, ErrUnusablePID) {
			t.Errorf("Identify(%d): %v", pid, err)
		}
	}
}

// L2: /proc is not there, not a procfs, or shows another namespace.
func TestL2(t *testing.T) {
	_, live := child(t)
	gone := reaped(t)
	unusable := []ask{{live, "probe_environment_unusable"}, {gone, "probe_environment_unusable"}}
	prober{testproc.Mounts, "umount-proc", unusable}.run(t)
	prober{testproc.Mounts, "tmpfs-proc", unusable}.run(t)
	prober{testproc.PIDs, "", unusable}.run(t)

	// A prober that has verified its /proc keeps it.
	kept := []ask{{ticksOnly(live), "identity_confirmed weak"}, {gone, "pid_absent"}}
	prober{testproc.Mounts, "scope,umount-proc", kept}.run(t)
	prober{testproc.Mounts, "scope,tmpfs-proc", kept}.run(t)
}

// L3: an earlier boot of this host. The stamps are equal on purpose: they mean
// nothing across boots.
func TestL3(t *testing.T) {
	sc, err := currentScope()
	if err != nil || sc.pidNS != initialPIDNS || !sc.bootReal {
		t.Skip("needs the initial pid namespace and the kernel's own boot id")
	}
	_, live := child(t)
	old := func(id Identity) Identity {
		id.Boot = otherBootID
		return id
	}
	thread := old(live)
	thread.PID = int64(testproc.ThreadID(t))
	expect(t, "held", old(live), "pid_recycled")
	expect(t, "held, no stamp", old(noStamp(live)), "pid_recycled")
	expect(t, "free", old(reaped(t)), "pid_absent")
	expect(t, "now a thread id", thread, "pid_absent")

	for name, spoil := range map[string]func(*Identity){
		"other namespace":      func(id *Identity) { id.PIDNS++ },
		"no namespace":         func(id *Identity) { id.PIDNS = 0 },
		"boot not from kernel": func(id *Identity) { id.BootSrc = "" },
		"no host":              func(id *Identity) { id.Host = "" },
		"no boot":              func(id *Identity) { id.Boot = "" },
	} {
		id := old(live)
		spoil(&id)
		expect(t, name, id, "foreign_boot")
	}
	other := old(live)
	other.Host = "another"
	expect(t, "other host", other, "foreign_host")

	booted := bootTime()
	for offset, want := range map[time.Duration]string{
		-time.Hour: "pid_recycled",
		time.Hour:  "foreign_boot", // recorded since this boot: not an earlier one
	} {
		if got := verdict(ProbeRecorded(old(live), booted.Add(offset))); got != want {
			t.Errorf("recorded %v from boot: got %q, want %q", offset, got, want)
		}
	}
}

const otherBootID = "00000000-1111-2222-3333-444444444444"

// L4: the boots cannot be compared.
func TestL4(t *testing.T) {
	_, live := child(t)
	gone := reaped(t)
	old := live
	old.Boot = otherBootID
	all := []ask{{live, "foreign_boot"}, {gone, "foreign_boot"}, {old, "foreign_boot"}}
	prober{testproc.Mounts, "boot=" + otherBootID, all}.run(t)
	prober{testproc.Mounts, "boot=" + live.Boot, all}.run(t)
	prober{testproc.Mounts, "boot=no uuid", all}.run(t)
	prober{testproc.Mounts, "boot-from=boot_id", all}.run(t)
	prober{testproc.Mounts, "boot-from=uuid", all}.run(t)
	prober{testproc.Mounts, "empty=/proc/sys/kernel/random/boot_id", all}.run(t)
	prober{testproc.Mounts, "proc=subset=pid", all}.run(t)
	prober{testproc.Mounts, "boot-own=uuid", all}.run(t)
	// A mount that crosses nothing foreign, as in most containers, is no
	// obstacle. Another boot is proven in the first number space alone.
	usual := []ask{{live, "identity_confirmed"}, {gone, "pid_absent"}}
	if sc, err := currentScope(); err == nil && sc.pidNS == initialPIDNS && sc.bootReal {
		usual = append(usual, ask{old, "pid_recycled"})
	}
	prober{testproc.Mounts, "read-only=/proc/sys", usual}.run(t)
}

// A record made where the boot id was masked says so, and is judged by nobody.
func TestL4RecordedThere(t *testing.T) {
	for _, setup := range []string{"boot=" + otherBootID, "proc=subset=pid"} {
		id := decode(t, testproc.Play(t, testproc.Mounts, "identify", setup)[0])
		if id.BootSrc != "" {
			t.Errorf("%s: boot source %q", setup, id.BootSrc)
		}
		expect(t, setup, id, "foreign_boot")
	}
}

// L5: the number was issued in another pid namespace.
func TestL5(t *testing.T) {
	_, live := child(t)
	one := live
	one.PID = 1
	prober{testproc.PIDs, "proc", []ask{
		{live, "foreign_pid_namespace"}, {reaped(t), "foreign_pid_namespace"},
		{one, "foreign_pid_namespace"}, // its own number
	}}.run(t)
	inner := decode(t, testproc.Play(t, testproc.PIDs, "identify", "proc")[0])
	if inner.PID != 1 {
		t.Fatalf("the stage was number %d", inner.PID)
	}
	expect(t, "from inside", inner, "foreign_pid_namespace")
	none := live
	none.PIDNS = 0
	expect(t, "namespace not recorded", none, "foreign_pid_namespace")
}

// L6: no process has the number.
func TestL6(t *testing.T) {
	gone := reaped(t)
	expect(t, "collected", gone, "pid_absent")
	expect(t, "collected, ticks", ticksOnly(gone), "pid_absent")
	expect(t, "collected, no stamp", noStamp(gone), "pid_absent")
	never := gone
	for _, pid := range []int64{pidMax(t) + 1, 4194305, 1<<31 - 1} {
		never.PID = pid
		expect(t, "never existed: "+strconv.FormatInt(pid, 10), never, "pid_absent")
	}
	absent := []ask{{gone, "pid_absent"}, {never, "pid_absent"}}
	prober{testproc.Mounts, "proc=hidepid=2,drop", absent}.run(t)
	prober{nil, "scope,nofile=3", absent}.run(t)
	prober{nil, "deny=pidfd_open:ENOSYS", absent}.run(t)
}

func pidMax(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
