package jobprobe

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// Inputs from the field, kind a: recycled numbers, reboots, containers.

func TestCaseA1(t *testing.T) {
	_, live := child(t)
	expect(t, "another host", Identity{PID: live.PID, Host: "pod-old"}, "foreign_host")
}

func TestCaseA2(t *testing.T) {
	earlier := testproc.Play(t, testproc.PIDs, "identify", "proc")[0]
	got := testproc.Play(t, testproc.PIDs, "case-a2", earlier)
	want := []string{"as recorded: not alive", "namespace number repeated: pid_recycled", "no start: unusable_pid"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// caseA2Stage is number 1 and reads a record of an earlier container's number
// 1. The namespace's own number may or may not have been given out again.
func caseA2Stage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	id := decode(s, s.Args[0])
	own := identify(s, 1)
	if v := Probe(id); v.Conclusion != Alive && (v.Finding == PIDRecycled) == (id.PIDNS == own.PIDNS) {
		s.Say("as recorded: not alive")
	} else {
		s.Say("as recorded: %s", verdict(v))
	}
	id.PIDNS = own.PIDNS
	s.Say("namespace number repeated: %s", verdict(Probe(id)))
	s.Say("no start: %s", verdict(Probe(noStamp(id))))
}

func TestCaseA3(t *testing.T) {
	first := testproc.Start(t, testproc.PIDs, "case-a3")
	second := testproc.Start(t, testproc.PIDs, "case-a3")
	records := map[*testproc.Child]string{first: first.Line(t), second: second.Line(t)}
	for reader, other := range map[*testproc.Child]*testproc.Child{first: second, second: first} {
		reader.Tell(t, records[other])
		if got := reader.Line(t); got != "foreign_pid_namespace" {
			t.Errorf("about the other container: %s", got)
		}
	}
}

// caseA3Stage says its identity, and then its verdict on one it is told.
func caseA3Stage(s *testproc.Stage) {
	testproc.Prepare(s, "proc")
	s.Say("ready")
	s.Say("%s", encode(s, identify(s, os.Getpid()))[0])
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		s.Say("%s", verdict(Probe(decode(s, lines.Text()))))
	}
}

func TestCaseA5(t *testing.T) {
	_, id := child(t)
	foreign := id
	foreign.PIDNS--
	expect(t, "namespace differs", foreign, "foreign_pid_namespace")
	expect(t, "namespace equal, start differs", otherStart(ticksOnly(id)), "pid_recycled")
}

func TestCaseA6(t *testing.T) {
	own := identify(t, os.Getpid())
	expect(t, "own number, other start", otherStart(ticksOnly(own)), "pid_recycled")
	if own.Uniq != 0 {
		expect(t, "own number, other process", otherUniq(own), "pid_recycled")
	}
	expect(t, "own number, nothing recorded", noStamp(own), "identity_not_recorded")
}

func TestCaseA9(t *testing.T) {
	_, live := child(t)
	id := Identity{PID: live.PID, Start: 63348, StartUnit: startUnit}
	for _, btime := range []int64{1764540000, 1764540002, 1764540060, 1764543600, 0} {
		sc := fakeProc(t, id.PID, statLine("x", "S", "1", "63348"))
		root := fmt.Sprintf("/proc/self/fd/%d/stat", sc.os.proc)
		if err := os.WriteFile(root, fmt.Appendf(nil, "cpu 1\nbtime %d\n", btime), 0o644); err != nil {
			t.Fatal(err)
		}
		if v := probeAt(&id, sc); verdict(v) != "identity_confirmed weak" {
			t.Errorf("btime %d: %s", btime, verdict(v))
		}
	}
}

func TestCaseA10(t *testing.T) { TestRecycle(t) }
func TestCaseA13(t *testing.T) { TestL3(t) }
func TestCaseA15(t *testing.T) { TestRecycle(t) }
func TestCaseA16(t *testing.T) { TestCaseA3(t) }
func TestCaseA18(t *testing.T) { TestRecycleSameTick(t) }
func TestCaseA19(t *testing.T) { TestCaseA2(t) }

// Kind b: creation times that drift, boot identity.

func TestCaseB1(t *testing.T) { TestCaseA9(t) }

func TestCaseB2(t *testing.T) {
	c, id := child(t)
	want := encode(t, id)[0]
	for _, env := range []string{"TZ=Asia/Kathmandu", "TZ=UTC", "LC_ALL=tr_TR.UTF-8", "LC_ALL=C"} {
		cmd := testproc.Command(t, nil, "identify", "", strconv.Itoa(c.PID))
		cmd.Env = append(cmd.Env, env)
		if got := testproc.Run(t, cmd)[0]; got != want {
			t.Errorf("%s: %s, want %s", env, got, want)
		}
	}
	expect(t, "recorded here", id, verdict(Probe(id)))
}

// The times of /proc/<pid> are those of the first look-up, and change when the
// kernel drops and makes the entry again.
func TestCaseB3(t *testing.T) {
	c, id := child(t)
	dir := "/proc/" + strconv.Itoa(c.PID)
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	testproc.NextTick()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0); err != nil {
		t.Skipf("drop_caches: %v", err)
	}
	after, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("times of %s moved by %v", dir, after.ModTime().Sub(before.ModTime()))
	if again := identify(t, c.PID); again != id {
		t.Errorf("identity changed from %+v to %+v", id, again)
	}
}

func TestCaseB4(t *testing.T)  { TestL3(t) }
func TestCaseB20(t *testing.T) { TestL3(t) }

func TestCaseB6(t *testing.T) {
	_, live := child(t)
	id := Identity{PID: live.PID, Start: 6345, StartUnit: startUnit}
	if v := probeFake(t, id, statLine("x", "S", "1", "6349")); verdict(v) != "pid_recycled" {
		t.Errorf("ticks 6345 and 6349: %s", verdict(v))
	}
}

func TestCaseB7(t *testing.T) {
	_, live := child(t)
	id := Identity{PID: live.PID, Start: 63348, StartUnit: startUnit}
	if v := probeFake(t, id, statLine("x", "S", "1", "0")); verdict(v) != "identity_unreadable" {
		t.Errorf("read as 0: %s", verdict(v))
	}
	prober{testproc.Mounts, "proc=hidepid=2,drop", []ask{{ticksOnly(live), "access_denied"}}}.run(t)
}

func TestCaseB8(t *testing.T) {
	id := Identity{OS: "linux", PID: 7, Start: 1743945645, StartUnit: startUnit}
	if got := decode(t, encode(t, id)[0]); got != id {
		t.Errorf("%+v came back as %+v", id, got)
	}
}

func TestCaseB11(t *testing.T) {
	c, id := child(t)
	for range 1000 {
		if again := identify(t, c.PID); again != id {
			t.Fatalf("%+v, then %+v", id, again)
		}
	}
}

func TestCaseB13(t *testing.T) {
	_, live := child(t)
	id := Identity{PID: live.PID, Start: 22, StartUnit: startUnit}
	line := strings.Replace(statLine("x", "S", "1", "22"), " 0 22 0 0\n", " 21 22 23 24\n", 1)
	if v := probeFake(t, id, line); verdict(v) != "identity_confirmed weak" {
		t.Errorf("field 22: %s", verdict(v))
	}
	own := identify(t, os.Getpid())
	grown := make([]byte, 64<<20)
	for i := 0; i < len(grown); i += os.Getpagesize() {
		grown[i] = 1
	}
	if again := identify(t, os.Getpid()); again != own {
		t.Errorf("grown by %d bytes: %+v, was %+v", len(grown), again, own)
	}
}

func TestCaseB16(t *testing.T) { TestCaseA9(t) }
func TestCaseB19(t *testing.T) { TestCaseA9(t) }

// probeAt probes an unscoped identity below any /proc.
func probeAt(id *Identity, sc *scope) Liveness {
	var v Liveness
	rel := relate(id, sc, v.Evidence.At())
	seen := observe(id, sc, rel, &v.Evidence)
	v.conclude(classify(id, rel, &seen, &v.Evidence))
	return v
}

// fakeProc is a scope whose /proc is a directory with one stat file, and
// whose kernel has no pidfs. The pid is a live child's.
func fakeProc(t *testing.T, pid int64, stat string) *scope {
	t.Helper()
	dir := t.TempDir()
	sub := filepath.Join(dir, strconv.FormatInt(pid, 10))
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sub, "stat"), []byte(stat), 0o644); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return &scope{os: osScope{proc: fd}}
}

// probeFake probes an unscoped identity against a fake stat line.
func probeFake(t *testing.T, id Identity, stat string) Liveness {
	t.Helper()
	return probeAt(&id, fakeProc(t, id.PID, stat))
}

func statLine(comm, state, threads, start string) string {
	return "7 (" + comm + ") " + state + " 1 7 7 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 " + threads + " 0 " + start + " 0 0\n"
}

// What has not the form of a boot id is not another boot: nothing is proved.
func TestDamagedBootID(t *testing.T) {
	whole, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if whole.Boot == "" {
		t.Skip("no boot id here")
	}
	for _, boot := range []string{
		"0", "x", strings.ToUpper(whole.Boot), whole.Boot + " ", whole.Boot[1:], whole.Boot[:35] + "g", whole.Boot + whole.Boot,
	} {
		id := whole
		id.Boot = boot
		if v := Probe(id); v.Finding != ForeignBoot || v.Conclusion != Unknown {
			t.Errorf("boot %q: %v (%v)", boot, v.Conclusion, v.Finding)
		}
	}
}
