package jobprobe

import (
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/windows"
)

// neverIssued is a usable number far beyond those that Windows gives out.
const neverIssued = 1<<32 - 4

// Numbers beside a process's own open that very process.
func TestW1(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	for _, pid := range []int64{0, id.PID + 1, id.PID + 2, id.PID + 3, 1 << 32, 1<<32 + id.PID, 1<<32 - 1, -4} {
		near := id
		near.PID = pid
		if v := wantFinding(t, near, UnusablePID); v.Alive || len(v.Evidence.Calls()) != 0 {
			t.Errorf("%d: alive %v after %d calls", pid, v.Alive, len(v.Evidence.Calls()))
		}
		if _, err := Identify(int(pid)); !errors.Is(err, ErrUnusablePID) {
			t.Errorf("Identify(%d): %v", pid, err)
		}
	}
	for _, beside := range []uint32{1, 2, 3} {
		h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(c.pid)+beside)
		if err != nil {
			t.Fatalf("the trap is not there: %v", err)
		}
		l := winLook{pid: uint32(c.pid) + beside}
		l.askHandle(h, new(Evidence))
		windows.CloseHandle(h)
		if seen := l.observation(); seen.presence != presenceUnknown || seen.obstacle != IdentityUnreadable {
			t.Errorf("pid+%d passed for the process: %+v", beside, seen)
		}
	}
}

func TestW2(t *testing.T) {
	id := Identity{PID: neverIssued, Start: 1, StartUnit: startUnit}
	v := wantFinding(t, id, PIDAbsent)
	wantCall(t, v, "OpenProcess", uint32(windows.ERROR_INVALID_PARAMETER))
	if _, err := Identify(neverIssued); !errors.Is(err, ErrNoProcess) {
		t.Errorf("Identify: %v", err)
	}
	// A collected child is gone at once, though its object may linger.
	c := startWinChild(t, 0, "")
	id = c.identity(t)
	c.end(t)
	c.collect()
	if v := Probe(id); v.Conclusion != ProcessGone || v.Alive {
		t.Errorf("collected: %v", v.Finding)
	}
}

// An empty access list refuses even the owner; the table of all processes
// still tells the creation time.
func TestW3(t *testing.T) {
	for name, sddl := range map[string]string{
		"empty access list": "D:",
		"SYNCHRONIZE only":  "D:(A;;0x100000;;;WD)",
	} {
		c := startWinChild(t, 0, sddl)
		id := c.identity(t)
		v := wantFinding(t, id, IdentityConfirmed)
		wantCall(t, v, "OpenProcess", uint32(windows.ERROR_ACCESS_DENIED))
		wantCall(t, v, "NtQuerySystemInformation", 0)
		if created := handleCreated(t, c); id.Start != created {
			t.Errorf("%s: the table says %d, the handle %d", name, id.Start, created)
		}
		id.Start++
		wantFinding(t, id, PIDRecycled)
		id.Start = 0
		wantFinding(t, id, IdentityNotRecorded)
	}
	// A number that the table does not have proves nothing.
	l := winLook{pid: neverIssued, open: winAccessDenied}
	l.lookUp(new(Evidence))
	if seen := l.observation(); l.listed || seen != (observation{obstacle: AccessDenied}) {
		t.Errorf("not listed: %+v", seen)
	}
}

// Exited, refused and still held: no thread is left to prove it alive.
func TestW3Exited(t *testing.T) {
	c := startWinChild(t, 0, "D:")
	id := c.identity(t)
	c.end(t)
	v := Probe(id)
	wantCall(t, v, "OpenProcess", uint32(windows.ERROR_ACCESS_DENIED))
	if v.Finding != AccessDenied {
		t.Errorf("got %v, want %v: %s", v.Finding, AccessDenied, receipt(t, v))
	}
}

// No permission and no number brings about other errors; they are injected
// as OpenProcess would report them.
func TestW4(t *testing.T) {
	for _, err := range []error{
		windows.ERROR_INVALID_HANDLE, windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_NO_SYSTEM_RESOURCES,
		syscall.EINVAL, // failed without a code
	} {
		l := winLook{pid: 4712, open: errnoOf(err)}
		if seen := l.observation(); seen != (observation{obstacle: IdentityUnreadable}) {
			t.Errorf("%v: %+v", err, seen)
		}
	}
}

// A handle that may only be waited for tells neither number nor times.
func TestW5(t *testing.T) {
	c := startWinChild(t, 0, "")
	seen := observeWith(t, c, windows.SYNCHRONIZE)
	if seen != (observation{obstacle: IdentityUnreadable}) {
		t.Errorf("got %+v", seen)
	}
}

func TestW6(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	for _, start := range []uint64{id.Start - 1, id.Start + 1, id.Start + 10_000_000, 1} {
		other := id
		other.Start = start
		if v := wantFinding(t, other, PIDRecycled); v.Conclusion != ProcessGone {
			t.Errorf("got %v", v.Conclusion)
		}
	}
	c.end(t)
	id.Start++
	wantFinding(t, id, PIDRecycled)
}

func TestW7(t *testing.T) {
	c := startWinChild(t, 0, "")
	v := wantFinding(t, c.identity(t), IdentityConfirmed)
	wantCall(t, v, "WaitForSingleObject", 0)
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, self, IdentityConfirmed)
}

// Exit code 259 is also the code of a running process.
func TestW8(t *testing.T) {
	for _, code := range []uint32{0, 7, 259} {
		c := startWinChild(t, code, "")
		id := c.identity(t)
		c.end(t)
		v := wantFinding(t, id, DisappearedDuringProbe)
		if v.Alive || v.Conclusion != ProcessGone || !v.Evidence.ExitedUnreaped {
			t.Errorf("code %d: %+v", code, v)
		}
		again, err := Identify(c.pid)
		if err != nil || again != id {
			t.Errorf("code %d: identified as %+v, %v after its exit; want %+v", code, again, err, id)
		}
		c.collect()
		if got := c.cmd.ProcessState.ExitCode(); got != int(code) {
			t.Errorf("exit code %d, want %d", got, code)
		}
	}
}

// A handle that may not be waited for cannot tell exited from running.
func TestW9(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	for _, when := range []string{"running", "exited"} {
		seen := observeWith(t, c, windows.PROCESS_QUERY_LIMITED_INFORMATION)
		got := classify(&id, relation{start: true}, &seen, new(Evidence))
		if got != AccessDenied || seen.start != id.Start {
			t.Errorf("%s: got %v from %+v", when, got, seen)
		}
		if when == "running" {
			c.end(t)
		}
	}
}

func TestW10(t *testing.T) {
	c := startWinChild(t, 0, "")
	bare := Identity{PID: int64(c.pid)}
	if v := wantFinding(t, bare, IdentityNotRecorded); !v.Alive {
		t.Errorf("not alive: %v", v.Conclusion)
	}
	c.end(t)
	wantFinding(t, bare, DisappearedDuringProbe)
	wantFinding(t, Identity{PID: neverIssued}, PIDAbsent)
}

// observeWith asks a handle that has only the given rights.
func observeWith(t *testing.T, c *winChild, rights uint32) observation {
	t.Helper()
	h, err := windows.OpenProcess(rights, false, uint32(c.pid))
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(h)
	l := winLook{pid: uint32(c.pid)}
	l.askHandle(h, new(Evidence))
	return l.observation()
}

// handleCreated returns the creation time from the handle that started the
// child.
func handleCreated(t *testing.T, c *winChild) (created uint64) {
	t.Helper()
	if err := c.cmd.Process.WithHandle(func(h uintptr) {
		var start, exit, kernel, user windows.Filetime
		if err := windows.GetProcessTimes(windows.Handle(h), &start, &exit, &kernel, &user); err != nil {
			t.Error(err)
		}
		created = uint64(start.HighDateTime)<<32 | uint64(start.LowDateTime)
	}); err != nil {
		t.Fatal(err)
	}
	return created
}

// A FILETIME is beyond 2^53: neighbours must stay different in JSON.
func TestWindowsIdentityJSON(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	if id.Start <= 1<<53 || id.StartUnit != "filetime_100ns" || id.OS != "windows" || id.Boot != "" || id.Host == "" {
		t.Errorf("got %+v", id)
	}
	for _, start := range []uint64{id.Start, id.Start + 1, id.Start - 1} {
		want := id
		want.Start = start
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseIdentity(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		finding := PIDRecycled
		if start == id.Start {
			finding = IdentityConfirmed
		}
		wantFinding(t, got, finding)
	}
}

// A record from another host or with a foreign boot id proves nothing.
func TestWindowsScope(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	other := id
	other.Host = "0123456789abcdef0123456789abcdef"
	wantFinding(t, other, ForeignHost)
	other = id
	other.Boot, other.BootSrc = "1b09c02f-faea-4231-b87d-354d3aa5b314", "procfs"
	wantFinding(t, other, ForeignBoot)
	other = id
	other.OS = "linux"
	wantFinding(t, other, ForeignHost)
	other = id
	other.Host = ""
	wantFinding(t, other, IdentityConfirmed)
}

func TestWindowsHostID(t *testing.T) {
	id, whole := hostID()
	again, _ := hostID()
	if !whole || len(id) != 32 || id != again {
		t.Errorf("got %q, then %q, whole %v", id, again, whole)
	}
}

func TestWindowsErrnoName(t *testing.T) {
	for code, want := range map[uint32]string{
		5:  "ERROR_ACCESS_DENIED",
		87: "ERROR_INVALID_PARAMETER",
		2:  "error 2",
		uint32(windows.STATUS_INFO_LENGTH_MISMATCH): "NTSTATUS 0xc0000004",
		errnoOf(syscall.EINVAL):                     "no error code",
	} {
		if got := errnoName(code); got != want {
			t.Errorf("%d: got %q, want %q", code, got, want)
		}
	}
	if errnoOf(nil) != 0 || errnoOf(errors.New("another")) == 0 {
		t.Error("an error without a number looks like success")
	}
}

func TestWindowsCreatedAt(t *testing.T) {
	const epoch = 116444736000000000
	for start, want := range map[uint64]float64{
		epoch + 1:                   1e-7,
		epoch + 15_000_000:          1.5,
		133_700_000_000_000_000:     1725526400,
		133_700_000_000_000_000 + 5: 1725526400.0000005,
	} {
		if got, ok := createdAt(nil, start); !ok || got != want {
			t.Errorf("%d: got %v %v, want %v", start, got, ok, want)
		}
	}
	for _, start := range []uint64{0, 1, epoch} {
		if got, ok := createdAt(nil, start); ok {
			t.Errorf("%d: got %v", start, got)
		}
	}
}

func TestWindowsProbeAllocates(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	gone := id
	gone.PID = neverIssued
	for name, id := range map[string]Identity{"running": id, "absent": gone} {
		if got := testing.AllocsPerRun(100, func() { Probe(id) }); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func BenchmarkWindowsProbe(b *testing.B) {
	id, err := Identify(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Probe(id)
	}
}
