package jobprobe

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processNumbers lists the verified /proc. complete says that it hides nobody
// from this process. The descriptor of the scope is an O_PATH one, which cannot
// be read (open(2)), so the directory is opened anew below it.
func processNumbers() (pids []int64, complete bool) {
	sc, err := currentScope()
	if err != nil {
		return nil, false
	}
	fd, err := unix.Openat(sc.os.proc, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	dir := os.NewFile(uintptr(fd), "/proc")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, ok := digits([]byte(name)); ok && usablePID(int64(pid)) {
			pids = append(pids, int64(pid))
		}
	}
	return pids, err == nil && len(pids) > 0 && (mayTrace(sc) || !hidesProcesses(sc))
}

// hidesProcesses reads the options of the mount that /proc was opened on: with
// hidepid, other users' processes and those that are not dumpable are not
// listed or cannot be opened (proc(5)). What cannot be found out counts as
// hiding.
func hidesProcesses(sc *scope) bool {
	info, ok := readAllProc(sc, "self/fdinfo/"+strconv.Itoa(sc.os.proc))
	_, rest, found := bytes.Cut(info, []byte("mnt_id:\t"))
	mount, _, _ := bytes.Cut(rest, []byte("\n"))
	if !ok || !found {
		return true
	}
	table, ok := readAllProc(sc, "self/mountinfo")
	if !ok {
		return true
	}
	for line := range bytes.Lines(table) {
		if id, rest, _ := bytes.Cut(line, []byte(" ")); bytes.Equal(id, mount) {
			_, options, found := bytes.Cut(rest, []byte(" - proc "))
			return !found || bytes.Contains(options, []byte("hidepid="))
		}
	}
	return true // unmounted since
}

// initialUserNS is the inode number of every host's first user namespace
// (PROC_USER_INIT_INO in include/linux/proc_ns.h).
const initialUserNS = 0xEFFFFFFD

// mayTrace says whether this process may look into all others, which also
// lifts hidepid: CAP_SYS_PTRACE in the first user namespace (capabilities(7)).
func mayTrace(sc *scope) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil || data[0].Effective&(1<<unix.CAP_SYS_PTRACE) == 0 {
		return false
	}
	ns, err := nsInode(sc.os.proc, "self/ns/user")
	return err == nil && ns == initialUserNS
}

// describe asks by number; the caller verifies that it was one process's.
func (m *Member) describe(pid int64) {
	m.PGID, _ = groupOf(pid)
	m.Session = sessionOf(pid)
	m.UID, m.HasUID = userOf(pid)
	m.Marker, m.RunID = markerOf(pid)
}

// userOf returns the real user id, the first number in the line
//
//	Uid:	1000	1000	1000	1000
//
// of proc_pid_status(5). The owner of /proc/<pid> would be the effective one.
func userOf(pid int64) (uid uint32, ok bool) {
	sc, err := currentScope()
	if err != nil {
		return 0, false
	}
	var buf [2048]byte
	n, errno := readProc(sc.os.proc, int(pid), "/status", buf[:])
	if errno != 0 {
		return 0, false
	}
	_, rest, found := bytes.Cut(buf[:n], []byte("\nUid:\t"))
	word, _, ended := bytes.Cut(rest, []byte("\t"))
	value, ok := digits(word)
	if !found || !ended || !ok || value > 1<<32-1 {
		return 0, false
	}
	return uint32(value), true
}

const (
	// execTries and execPause bound how long an execve is waited for, during
	// which environment and arguments are empty.
	execTries = 8
	execPause = 500 * time.Microsecond
)

// markerOf reads the environment that the process was started with, which the
// kernel shows to its user and to root. An empty one is that of a kernel
// thread, of a process whose first thread has ended, of one that really has
// none, or it is a moment of an execve.
func markerOf(pid int64) (Marker, string) {
	sc, err := currentScope()
	if err != nil {
		return MarkerUnreadable, ""
	}
	name := strconv.FormatInt(pid, 10)
	settled := true // as far as was seen
	for try := range execTries {
		if try > 0 {
			time.Sleep(execPause)
		}
		env, ok := readWhole(sc, name+"/environ")
		if ok && len(env) > 0 {
			return parseMarker(env)
		}
		state, kernel := taskState(sc, pid)
		switch {
		case kernel:
			return MarkerNone, ""
		case state == 'Z':
			if env := threadEnviron(sc, name); len(env) > 0 {
				return parseMarker(env)
			}
			settled = false
			continue
		case !ok || state == 0 || state == 'X':
			return MarkerUnreadable, ""
		}
		args, _ := readAllProc(sc, name+"/cmdline")
		settled = settled && len(args) > 0
	}
	if settled {
		return MarkerNone, ""
	}
	return MarkerUnreadable, ""
}

// glimpse is markerOf without patience: MarkerUnreadable where that would look
// again.
func glimpse(pid int64) (Marker, string) {
	sc, err := currentScope()
	if err != nil {
		return MarkerUnreadable, ""
	}
	if env, ok := readWhole(sc, strconv.FormatInt(pid, 10)+"/environ"); ok && len(env) > 0 {
		return parseMarker(env)
	}
	if _, kernel := taskState(sc, pid); kernel {
		return MarkerNone, ""
	}
	return MarkerUnreadable, ""
}

// threadEnviron returns the environment as the other threads of a process see
// it whose first one has ended; nothing if it has no others.
func threadEnviron(sc *scope, name string) []byte {
	fd, err := unix.Openat(sc.os.proc, name+"/task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	threads, _ := dir.Readdirnames(-1)
	for _, thread := range threads {
		if env, ok := readWhole(sc, name+"/task/"+thread+"/environ"); ok && len(env) > 0 {
			return env
		}
	}
	return nil
}

// readWhole reads a file below the verified /proc, up to 8 MiB, with one
// read(2): an execve between two of them ends the file early.
func readWhole(sc *scope, name string) ([]byte, bool) {
	for size := 32 << 10; size <= 8<<20; size *= 4 {
		fd, err := unix.Openat(sc.os.proc, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, false
		}
		buf := make([]byte, size)
		n, errno := readOnce(fd, buf)
		unix.Close(fd)
		if errno != 0 {
			return nil, false
		}
		if n < size {
			return buf[:n], true
		}
	}
	return nil, false
}

// kernelThread is PF_KTHREAD of include/linux/sched.h.
const kernelThread = 0x00200000

// taskState returns the state letter, 0 if it could not be read and 'X' if the
// whole process has exited, and whether the flags (field 9 of
// proc_pid_stat(5)) are those of a kernel thread.
func taskState(sc *scope, pid int64) (state byte, kernel bool) {
	var buf [1024]byte
	n, errno := readProc(sc.os.proc, int(pid), "/stat", buf[:])
	end := bytes.LastIndexByte(buf[:n], ')')
	if errno != 0 || end < 0 {
		return 0, false
	}
	fields := bytes.Fields(buf[end+1 : n])
	if len(fields) < 7 {
		return 0, false
	}
	state = fields[0][0]
	if st, ok := parseStat(buf[:n]); ok && st.exited() {
		state = 'X'
	}
	flags, _ := digits(fields[6])
	return state, flags&kernelThread != 0
}

// signalGroup signals the group that the pidfd's process leads or led:
// pidfd_send_signal(2) with PIDFD_SIGNAL_PROCESS_GROUP takes the kernel's own
// object for the group, which no later process of the number shares.
func (p *Process) signalGroup(sig syscall.Signal) error {
	switch err := p.pin.signalGroup(sig); err {
	case unix.ESRCH:
		return os.ErrProcessDone
	case unix.EINVAL: // the flag is not known before Linux 6.9
		return p.signalGroupByNumber(sig)
	default:
		return err
	}
}

// signalGroup returns the bare error number of the call.
func (p *pin) signalGroup(sig syscall.Signal) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return os.ErrClosed
	}
	return unix.PidfdSendSignal(p.fd, sig, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
}
