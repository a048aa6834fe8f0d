package jobprobe

import "testing"

// sees is the verdict for a record of process 4712, created at winCreated.
func (l winLook) sees(ev *Evidence) Finding {
	l.pid = 4712
	seen := l.observation()
	id := Identity{PID: 4712, Start: winCreated}
	return classify(&id, relation{start: true}, &seen, ev)
}

// seesUnrecorded is the verdict for a record without a creation time.
func (l winLook) seesUnrecorded() Finding {
	l.pid = 4712
	seen := l.observation()
	return classify(&Identity{PID: 4712}, relation{}, &seen, new(Evidence))
}

// TestWinLook goes through all that Windows can answer, the parts included
// that no emulator and no permission can bring about.
func TestWinLook(t *testing.T) {
	const noCode = 0x20000000 + 37 // what x/sys makes of a failure without a code
	for _, tt := range []struct {
		name       string
		look       winLook
		want       Finding
		unrecorded Finding
	}{
		{"W2 free", winLook{open: 87}, PIDAbsent, PIDAbsent},
		{"W3 denied, not listed", winLook{open: 5}, AccessDenied, AccessDenied},
		{"W3 denied, same", winLook{open: 5, listed: true, row: tableRow{winCreated, 2}}, IdentityConfirmed, IdentityNotRecorded},
		{"W3 denied, other", winLook{open: 5, listed: true, row: tableRow{winCreated + 1, 2}}, PIDRecycled, IdentityNotRecorded},
		{"W3 denied, same, no threads", winLook{open: 5, listed: true, row: tableRow{winCreated, 0}}, AccessDenied, AccessDenied},
		{"W3 denied, other, no threads", winLook{open: 5, listed: true, row: tableRow{winCreated - 1, 0}}, PIDRecycled, AccessDenied},
		{"W3 denied, no creation time", winLook{open: 5, listed: true, row: tableRow{0, 2}}, AccessDenied, AccessDenied},
		{"W4 bad handle", winLook{open: 6}, IdentityUnreadable, IdentityUnreadable},
		{"W4 no memory", winLook{open: 8}, IdentityUnreadable, IdentityUnreadable},
		{"W4 no resources", winLook{open: 1450}, IdentityUnreadable, IdentityUnreadable},
		{"W4 no code", winLook{open: noCode}, IdentityUnreadable, IdentityUnreadable},
		{"W5 number unknown", winLook{number: 0}, IdentityUnreadable, IdentityUnreadable},
		{"W5 number of another", winLook{number: 4716, created: 1, waited: true, wait: 0}, IdentityUnreadable, IdentityUnreadable},
		{"W6 other, running", winLook{number: 4712, created: winCreated + 1, waited: true, wait: 258}, PIDRecycled, IdentityNotRecorded},
		{"W6 other, exited", winLook{number: 4712, created: winCreated - 1, waited: true, wait: 0}, PIDRecycled, DisappearedDuringProbe},
		{"W6 other, wait failed", winLook{number: 4712, created: winCreated + 1}, PIDRecycled, AccessDenied},
		{"W7 same, running", winLook{number: 4712, created: winCreated, waited: true, wait: 258}, IdentityConfirmed, IdentityNotRecorded},
		{"W8 same, exited", winLook{number: 4712, created: winCreated, waited: true, wait: 0}, DisappearedDuringProbe, DisappearedDuringProbe},
		{"W9 same, wait failed", winLook{number: 4712, created: winCreated}, AccessDenied, AccessDenied},
		{"W9 same, abandoned", winLook{number: 4712, created: winCreated, waited: true, wait: 128}, IdentityUnreadable, IdentityUnreadable},
		{"times failed, running", winLook{number: 4712, waited: true, wait: 258}, IdentityUnreadable, IdentityUnreadable},
		{"times failed, exited", winLook{number: 4712, waited: true, wait: 0}, DisappearedDuringProbe, DisappearedDuringProbe},
		{"times and wait failed", winLook{number: 4712}, IdentityUnreadable, IdentityUnreadable},
	} {
		var ev Evidence
		if got := tt.look.sees(&ev); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		} else if ev.ExitedUnreaped != (got == DisappearedDuringProbe) {
			t.Errorf("%s: exited_unreaped %v", tt.name, ev.ExitedUnreaped)
		}
		if got := tt.look.seesUnrecorded(); got != tt.unrecorded {
			t.Errorf("%s, nothing recorded: got %v, want %v", tt.name, got, tt.unrecorded)
		}
	}
}

func TestUsableWinPID(t *testing.T) {
	for pid, want := range map[int64]bool{
		4: true, 8: true, 4712: true, 1<<32 - 4: true,
		0: false, 1: false, 2: false, 3: false, 4713: false, 4714: false, 4715: false,
		-4: false, 1<<32 - 1: false, 1 << 32: false, 1<<32 + 4712: false, 1<<63 - 1: false,
	} {
		if got := usableWinPID(pid); got != want {
			t.Errorf("%d: got %v, want %v", pid, got, want)
		}
	}
}
