package jobprobe

import (
	"bytes"
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"
)

// processNumbers lists all processes by sysctl kern.proc.all, which leaves
// nobody out and needs no permission (sysctl_prochandle in xnu).
func processNumbers() (pids []int64, complete bool) {
	table, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	for i := range table {
		pids = append(pids, int64(table[i].Proc.P_pid))
	}
	return pids, err == nil && len(pids) > 0
}

// describe asks by number; the caller verifies that it was one process's. The
// real user id is the one that kp_eproc.e_pcred carries (sys/sysctl.h).
func (m *Member) describe(pid int64) {
	m.PGID, _ = groupOf(pid)
	m.Session = sessionOf(pid)
	if k, err := unix.SysctlKinfoProc("kern.proc.pid", int(pid)); err == nil {
		m.UID, m.HasUID = k.Eproc.Pcred.P_ruid, true
	}
	m.Marker, m.RunID = markerOf(pid)
}

// markerOf reads the environment that the process was started with; see
// markedProcargs for its layout. The kernel shows it to its user and to root.
func markerOf(pid int64) (Marker, string) {
	raw, err := unix.SysctlRaw("kern.procargs2", int(pid))
	if err != nil || len(raw) < 4 {
		return MarkerUnreadable, ""
	}
	argc := binary.LittleEndian.Uint32(raw)
	_, rest, ok := bytes.Cut(raw[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for ; ok && argc > 0; argc-- {
		_, rest, ok = bytes.Cut(rest, []byte{0})
	}
	if !ok {
		return MarkerUnreadable, ""
	}
	env, _, _ := bytes.Cut(rest, []byte{0, 0}) // an empty string ends it
	return parseMarker(env)
}

func glimpse(pid int64) (Marker, string) { return markerOf(pid) }

// signalGroup has no handle to go through: kill(2) takes the leader's number.
func (p *Process) signalGroup(sig syscall.Signal) error { return p.signalGroupByNumber(sig) }
