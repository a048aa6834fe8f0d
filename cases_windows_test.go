package jobprobe

import (
	"testing"

	"golang.org/x/sys/windows"
)

// Inputs from public bug reports, each test named after its row in the
// project's list.

// Somebody holds a handle to a child that has exited.
func TestCaseD1(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	c.end(t)
	v := wantFinding(t, id, DisappearedDuringProbe)
	wantCall(t, v, "OpenProcess", 0)
	wantCall(t, v, "WaitForSingleObject", 0)
	if v.Conclusion != ProcessGone || !v.Evidence.ExitedUnreaped {
		t.Errorf("got %v, exited_unreaped %v", v.Conclusion, v.Evidence.ExitedUnreaped)
	}
}

// Access denied is not absence, and a wrong number is not a refusal.
func TestCaseD2(t *testing.T) {
	c := startWinChild(t, 0, "D:")
	refused := Probe(Identity{PID: int64(c.pid)})
	wantCall(t, refused, "OpenProcess", uint32(windows.ERROR_ACCESS_DENIED))
	if refused.Conclusion == ProcessGone {
		t.Errorf("refused: got %v", refused.Finding)
	}
	// Without the table there is nothing else to go by.
	l := winLook{pid: uint32(c.pid), open: winAccessDenied}
	if got := l.sees(new(Evidence)); got != AccessDenied {
		t.Errorf("refused, no table: got %v", got)
	}
	wantFinding(t, Identity{PID: neverIssued}, PIDAbsent)
}

// A live process with another creation time (also A14: it survives).
func TestCaseD3(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	other := id
	other.Start -= 10_000
	if v := wantFinding(t, other, PIDRecycled); v.Conclusion != ProcessGone {
		t.Errorf("got %v", v.Conclusion)
	}
	wantFinding(t, id, IdentityConfirmed)
}

// The process opens with limited rights, and its times cannot be read.
func TestCaseD6(t *testing.T) {
	l := winLook{number: 4712, waited: true, wait: winWaitTimeout}
	if got := l.sees(new(Evidence)); got != IdentityUnreadable {
		t.Errorf("got %v, want %v", got, IdentityUnreadable)
	}
}

// An identity recorded while the handle that started the child is open is the
// child's own, even if the child has exited by then.
func TestCaseD8(t *testing.T) {
	for _, exited := range []bool{false, true} {
		c := startWinChild(t, 0, "")
		if exited {
			c.end(t)
		}
		id := c.identity(t)
		if created := handleCreated(t, c); id.Start != created || id.PID != int64(c.pid) {
			t.Errorf("exited %v: recorded %+v, the handle says %d", exited, id, created)
		}
	}
}

func TestCaseD10(t *testing.T) {
	v := wantFinding(t, Identity{PID: 4294967295, Start: 1, StartUnit: startUnit}, UnusablePID)
	if v.Conclusion != Unknown {
		t.Errorf("got %v", v.Conclusion)
	}
	id, err := ParseIdentity([]byte(`{"os":"windows","pid":"4294967295","start":"1","start_unit":"filetime_100ns"}`))
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, id, UnusablePID)
}

func TestCaseD11(t *testing.T) {
	c := startWinChild(t, 259, "")
	id := c.identity(t)
	c.end(t)
	for range 3 { // as often as it is asked
		wantFinding(t, id, DisappearedDuringProbe)
	}
}

// Creation times that a float64 cannot tell apart.
func TestCaseB12(t *testing.T) {
	c := startWinChild(t, 0, "")
	id := c.identity(t)
	if a, b := float64(id.Start), float64(id.Start^1); a != b {
		t.Fatalf("%v and %v differ as floats: the case needs a larger stamp", a, b)
	}
	near := id
	near.Start ^= 1
	wantFinding(t, near, PIDRecycled)
	wantFinding(t, id, IdentityConfirmed)
}

// A stamp carries no time zone and no locale (also B2).
func TestCaseB18(t *testing.T) {
	c := startWinChild(t, 0, "")
	want := identifyIn(t, c.pid, "TZ=UTC")
	for _, env := range []string{"TZ=Asia/Tokyo", "TZ=America/New_York", "TZ=EST5EDT", "LC_ALL=de_DE.UTF-8"} {
		if got := identifyIn(t, c.pid, env); got != want {
			t.Errorf("%s: got %s, want %s", env, got, want)
		}
	}
	id, err := ParseIdentity([]byte(want))
	if err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	wantFinding(t, id, IdentityConfirmed)
}
