package jobprobe

import (
	"encoding/binary"
	"testing"
)

// The process of the macOS fixtures.
const (
	macPID   = 4711
	macSec   = 1743945645
	macUsec  = 123456
	macStart = macSec*1_000_000 + macUsec
)

// macProcess is a struct kinfo_proc as xnu fills it in.
type macProcess struct {
	sec    uint64
	usec   uint32
	flag   uint32 // p_flag, at 32
	stat   byte
	pid    int32
	pgid   int32
	eflag  uint32
	length int // 0 for the true one
}

func running4711() macProcess {
	return macProcess{sec: macSec, usec: macUsec, stat: 3, pid: macPID, pgid: macPID, eflag: sessionLeader}
}

func (p macProcess) raw() []byte {
	b := make([]byte, 648)
	for i := range b {
		b[i] = 0xA5 // what a probe must not look at
	}
	binary.LittleEndian.PutUint64(b[0:], p.sec)
	binary.LittleEndian.PutUint32(b[8:], p.usec)
	binary.LittleEndian.PutUint32(b[32:], p.flag)
	b[36] = p.stat
	binary.LittleEndian.PutUint32(b[40:], uint32(p.pid))
	binary.LittleEndian.PutUint32(b[564:], uint32(p.pgid))
	binary.LittleEndian.PutUint32(b[612:], p.eflag)
	if p.length != 0 {
		b = append(b, b...)[:p.length]
	}
	return b
}

// macLook is one look on macOS: the two answers that the system can give.
type macLook struct {
	raw   []byte
	errno uint32
	kill  uint32
}

// observe is what probe_darwin.go does with the answers.
func (l macLook) observe() (seen observation, killed bool) {
	seen, killed = kinfoSeen(macPID, l.raw, l.errno)
	if killed {
		seen = killSeen(seen, l.kill)
	}
	return seen, killed
}

// find is the verdict for the fixture's identity in its own boot.
func (l macLook) find(ev *Evidence) Finding {
	seen, _ := l.observe()
	id := Identity{PID: macPID, Start: macStart}
	return classify(&id, relation{start: true}, &seen, ev)
}

const (
	killOK    = 0
	killEPERM = 1
	killESRCH = 3
)

// wantEachKill checks one answer of sysctl with each answer of kill: only
// ESRCH ends the process.
func wantEachKill(t *testing.T, name string, l macLook, otherwise Finding) {
	t.Helper()
	for _, kill := range []uint32{killOK, killEPERM, 22} {
		l.kill = kill
		if got := l.find(new(Evidence)); got != otherwise {
			t.Errorf("%s, kill errno %d: got %v, want %v", name, kill, got, otherwise)
		}
	}
	l.kill = killESRCH
	if got := l.find(new(Evidence)); got != PIDAbsent {
		t.Errorf("%s, kill ESRCH: got %v, want %v", name, got, PIDAbsent)
	}
}

// A number that nobody has is answered with success and nothing.
func TestD2(t *testing.T) {
	l := macLook{raw: []byte{}, kill: killOK}
	if _, killed := l.observe(); killed {
		t.Error("asked kill(2) although the answer is conclusive")
	}
	if got := l.find(new(Evidence)); got != PIDAbsent {
		t.Errorf("got %v, want %v", got, PIDAbsent)
	}
	// An answer that was never read is not an empty one.
	wantEachKill(t, "no answer", macLook{}, IdentityUnreadable)
}

func TestD3(t *testing.T) {
	for name, start := range map[string][2]uint64{
		"a microsecond later":   {macSec, macUsec + 1},
		"a microsecond earlier": {macSec, macUsec - 1},
		"another second":        {macSec + 1, macUsec},
	} {
		for _, stat := range []byte{1, 2, 3, 4, 5} {
			p := running4711()
			p.sec, p.usec, p.stat = start[0], uint32(start[1]), stat
			if got := (macLook{raw: p.raw()}).find(new(Evidence)); got != PIDRecycled {
				t.Errorf("%s, p_stat %d: got %v, want %v", name, stat, got, PIDRecycled)
			}
		}
	}
}

func TestD4(t *testing.T) {
	p := running4711()
	p.stat = 5
	p.pgid, p.eflag = 0, 0 // a zombie has left its session
	var ev Evidence
	if got := (macLook{raw: p.raw()}).find(&ev); got != DisappearedDuringProbe || !ev.ExitedUnreaped {
		t.Errorf("got %v, exited_unreaped %v", got, ev.ExitedUnreaped)
	}
}

func TestD5(t *testing.T) {
	for _, stat := range []byte{1, 2, 3, 4, 0, 6, 255} {
		for _, flag := range []uint32{0, 0x2000 /* P_WEXIT: exiting, not dead */, ^uint32(0)} {
			p := running4711()
			p.stat, p.flag = stat, flag
			var ev Evidence
			if got := (macLook{raw: p.raw()}).find(&ev); got != IdentityConfirmed {
				t.Errorf("p_stat %d, p_flag %#x: got %v, want %v", stat, flag, got, IdentityConfirmed)
			}
		}
	}
}

func TestD6(t *testing.T) {
	for _, errno := range []uint32{1 /* EPERM */, 13 /* EACCES */} {
		wantEachKill(t, "refused", macLook{errno: errno}, AccessDenied)
	}
}

func TestD7(t *testing.T) {
	for _, errno := range []uint32{2, 5, 12, 22, 78} {
		wantEachKill(t, "another errno", macLook{errno: errno}, IdentityUnreadable)
	}
	for _, length := range []int{1, 296, 492, 647, 649, 1296} {
		p := running4711()
		p.length = length
		wantEachKill(t, "another length", macLook{raw: p.raw()}, IdentityUnreadable)
	}
	for name, damage := range map[string]func(*macProcess){
		"another process":  func(p *macProcess) { p.pid++ },
		"cut to 32 bits":   func(p *macProcess) { p.pid = -macPID },
		"tv_sec 0":         func(p *macProcess) { p.sec = 0 },
		"tv_sec negative":  func(p *macProcess) { p.sec = ^uint64(0) },
		"tv_usec 1000000":  func(p *macProcess) { p.usec = 1e6 },
		"tv_usec negative": func(p *macProcess) { p.usec = ^uint32(0) },
	} {
		p := running4711()
		damage(&p)
		wantEachKill(t, name, macLook{raw: p.raw()}, IdentityUnreadable)
	}
}

// An earlier boot of this host: whoever has the number now is another.
func TestD8(t *testing.T) {
	earlier := relation{otherBoot: true}
	id := Identity{PID: macPID, Start: macStart}
	zombie := running4711()
	zombie.stat = 5
	for _, tt := range []struct {
		name string
		look macLook
		want Finding
	}{
		{"free", macLook{raw: []byte{}}, PIDAbsent},
		{"held, start equal by chance", macLook{raw: running4711().raw()}, PIDRecycled},
		{"held by a zombie", macLook{raw: zombie.raw()}, PIDRecycled},
		{"refused but held", macLook{errno: 1, kill: killOK}, PIDRecycled},
		{"refused and free", macLook{errno: 1, kill: killESRCH}, PIDAbsent},
		{"refused and perhaps held", macLook{errno: 1, kill: killEPERM}, AccessDenied},
	} {
		seen, _ := tt.look.observe()
		if got := classify(&id, earlier, &seen, new(Evidence)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestD9(t *testing.T) {
	zombie := running4711()
	zombie.stat = 5
	for _, tt := range []struct {
		name string
		look macLook
		want Finding
	}{
		{"free", macLook{raw: []byte{}}, PIDAbsent},
		{"zombie", macLook{raw: zombie.raw()}, DisappearedDuringProbe},
		{"running", macLook{raw: running4711().raw()}, IdentityNotRecorded},
		{"refused", macLook{errno: 1, kill: killOK}, AccessDenied},
	} {
		seen, _ := tt.look.observe()
		id := Identity{PID: macPID}
		if got := classify(&id, relation{}, &seen, new(Evidence)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestKinfoSession(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pgid  int32
		eflag uint32
		want  int64
	}{
		{"session leader", macPID, 0x02, macPID},
		{"session leader with a terminal", macPID, 0x03, macPID},
		{"group leader only", macPID, 0x01, notLeading},
		{"group member", macPID - 1, 0, notLeading},
		{"not told", 0, 0, 0},
	} {
		p := running4711()
		p.pgid, p.eflag = tt.pgid, tt.eflag
		if k, ok := parseKinfo(p.raw()); !ok || k.session != tt.want {
			t.Errorf("%s: got %d %v, want %d", tt.name, k.session, ok, tt.want)
		}
	}
}

func TestKinfoLetter(t *testing.T) {
	for stat, want := range map[byte]byte{0: '?', 1: 'I', 2: 'R', 3: 'S', 4: 'T', 5: 'Z', 6: '?', 255: '?'} {
		if got := (&kinfo{stat: stat}).letter(); got != want {
			t.Errorf("p_stat %d: got %c, want %c", stat, got, want)
		}
	}
}

func TestIsUUID36(t *testing.T) {
	for s, want := range map[string]bool{
		"E5E1E5A2-3F0B-4D2C-9A57-0123456789AB":    true,
		"e5e1e5a2-3f0b-4d2c-9a57-0123456789ab":    true,
		"":                                        false,
		"E5E1E5A2-3F0B-4D2C-9A57-0123456789A":     false,
		"E5E1E5A2-3F0B-4D2C-9A57-0123456789ABC":   false,
		"E5E1E5A2-3F0B-4D2C-9A57-0123456789AG":    false,
		"E5E1E5A2x3F0B-4D2C-9A57-0123456789AB":    false,
		"E5E1E5A2-3F0B-4D2C-9A57-0123456789\x10B": false,
	} {
		if got := isUUID36(s); got != want {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
}

// FuzzKinfo holds that no bytes and no error numbers end a process but for
// the three proofs: nothing was found, kill(2) said ESRCH, or a whole struct
// of that very number says another start time or a zombie.
func FuzzKinfo(f *testing.F) {
	zombie, other, foreign := running4711(), running4711(), running4711()
	zombie.stat = 5
	other.usec++
	foreign.pid++
	for _, p := range []macProcess{running4711(), zombie, other, foreign} {
		f.Add(p.raw(), true, uint32(0), uint32(0))
	}
	f.Add([]byte{}, true, uint32(0), uint32(0))
	f.Add([]byte{}, false, uint32(1), uint32(3))
	f.Add(make([]byte, 647), true, uint32(0), uint32(1))
	f.Fuzz(func(t *testing.T, raw []byte, answered bool, errno, kill uint32) {
		if !answered {
			raw = nil
		} else if raw == nil {
			raw = []byte{}
		}
		l := macLook{raw, errno, kill}
		seen, killed := l.observe()
		got := l.find(new(Evidence))
		whole := errno == 0 && len(raw) == 648 && binary.LittleEndian.Uint32(raw[40:]) == macPID
		empty := errno == 0 && answered && len(raw) == 0
		if got.Conclusion() == ProcessGone && !empty && !(killed && kill == 3) && !whole {
			t.Errorf("%v from no proof", got)
		}
		if got == IdentityConfirmed && (!whole || seen.start != macStart || raw[36] == 5) {
			t.Errorf("confirmed by %x", raw)
		}
		if got == UnusablePID || got == NotProbed {
			t.Errorf("got %v", got)
		}
	})
}
