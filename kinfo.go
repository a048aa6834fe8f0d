package jobprobe

import "encoding/binary"

// The layout of struct kinfo_proc (sys/sysctl.h and sys/proc.h of xnu) on
// both macOS ports, which probe_darwin.go checks at compile time.
const (
	kinfoSize  = 648
	kinfoSec   = 0   // kp_proc.p_starttime.tv_sec, int64
	kinfoUsec  = 8   // kp_proc.p_starttime.tv_usec, int32
	kinfoStat  = 36  // kp_proc.p_stat, int8
	kinfoPID   = 40  // kp_proc.p_pid, int32
	kinfoPgid  = 564 // kp_eproc.e_pgid, int32
	kinfoEflag = 612 // kp_eproc.e_flag, int32
)

const (
	statZombie    = 5    // SZOMB in sys/proc.h
	sessionLeader = 0x02 // EPROC_SLEADER in sys/sysctl.h
)

// Error numbers of sys/errno.h that kinfoSeen and killSeen tell apart.
const (
	darwinEPERM  = 1
	darwinESRCH  = 3
	darwinEACCES = 13
)

// notLeading is the session of a process that leads none, where its leader is
// not told.
const notLeading = -1

// kinfo holds what a probe uses of a struct kinfo_proc.
type kinfo struct {
	pid     int64
	start   uint64 // microseconds since 1970, as they were at fork
	stat    byte   // SIDL 1, SRUN 2, SSLEEP 3, SSTOP 4, SZOMB 5
	session int64
}

// parseKinfo reads one struct kinfo_proc. It refuses another length, which is
// another layout, and a start time that no process can have.
//
// A start time is the wall clock at fork, stored once and copied over exec:
// later clock steps do not move it, and a zombie keeps it.
func parseKinfo(raw []byte) (k kinfo, ok bool) {
	if len(raw) != kinfoSize {
		return kinfo{}, false
	}
	sec := binary.LittleEndian.Uint64(raw[kinfoSec:])
	usec := binary.LittleEndian.Uint32(raw[kinfoUsec:])
	if sec == 0 || sec > 1<<40 || usec >= 1e6 {
		return kinfo{}, false
	}
	k = kinfo{
		pid:   int64(int32(binary.LittleEndian.Uint32(raw[kinfoPID:]))),
		start: sec*1e6 + uint64(usec),
		stat:  raw[kinfoStat],
	}
	switch pgid := binary.LittleEndian.Uint32(raw[kinfoPgid:]); {
	case binary.LittleEndian.Uint32(raw[kinfoEflag:])&sessionLeader != 0:
		k.session = k.pid
	case pgid != 0: // zero: the kernel could not look its session up
		k.session = notLeading
	}
	return k, true
}

// letter is the state as ps(1) prints it.
func (k *kinfo) letter() byte {
	const letters = "?IRSTZ"
	if int(k.stat) < len(letters) {
		return letters[k.stat]
	}
	return '?'
}

// kinfoSeen turns the answer of sysctl kern.proc.pid into an observation, and
// says whether kill(2) must be asked as well.
//
// The kernel answers for a number that nobody has with success and length
// zero: it scans running and zombie processes under one lock, and exec leaves
// no gap. Only an empty slice means that; nil says that the answer was never
// read. P_WEXIT is not looked at: a process that is exiting can still run.
func kinfoSeen(pid int64, raw []byte, errno uint32) (seen observation, askKill bool) {
	switch {
	case errno == darwinEPERM || errno == darwinEACCES:
		return observation{obstacle: AccessDenied}, true
	case errno != 0 || raw == nil:
		return observation{obstacle: IdentityUnreadable}, true
	case len(raw) == 0:
		return observation{presence: absent}, false
	}
	k, ok := parseKinfo(raw)
	if !ok || k.pid != pid {
		return observation{obstacle: IdentityUnreadable}, true
	}
	seen = observation{presence: held, running: runs, start: k.start, session: k.session}
	if k.stat == statZombie {
		seen.running = exited
	}
	return seen, false
}

// killSeen adds the answer of kill(pid, 0) to an observation that met an
// obstacle. ESRCH is absence and success is presence; EPERM is neither, as a
// sandbox gives it without looking.
func killSeen(seen observation, errno uint32) observation {
	switch errno {
	case 0:
		seen.presence = held
	case darwinESRCH:
		return observation{presence: absent}
	}
	return seen
}

// isUUID36 accepts a UUID in its text form of 36 characters, of either case:
// macOS writes them in capitals.
func isUUID36(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
			continue
		}
		hex := c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
		if !hex {
			return false
		}
	}
	return true
}
