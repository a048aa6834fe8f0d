package jobprobe

import (
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	startUnit  = "boot_ticks"
	weakStart  = true // a tick is 10 ms: a recycled number can share it
	bootSource = "procfs"
)

// tries bounds how often an answer that should pass by itself is asked again.
const tries = 4

// usablePID accepts the numbers that pid_t can carry. Zero and negative
// numbers name groups to kill(2), and wider ones are cut to 32 bits by it.
func usablePID(pid int64) bool { return pid >= 1 && pid <= 1<<31-1 }

// observe asks pidfd_open(2) first: it knows processes from threads, needs no
// permission, and its pidfs inode number (Linux 6.9) is never reused. The
// stat file is read only for what that does not tell, and kill(2) asked only
// where both refuse.
func observe(id *Identity, sc *scope, rel relation, ev *Evidence) observation {
	fd, errno := pidfdOpen(int(id.PID))
	if errno == unix.ESRCH { // the commonest end, at the cost of its one call
		ev.add(answer{to: askPidfdOpen, errno: uint32(errno)})
		return observation{presence: absent}
	}
	l := look{pid: int(id.PID), sc: sc, rel: rel, uniq: id.Uniq, ev: ev}
	for try := range tries {
		if try > 0 {
			fd, errno = pidfdOpen(l.pid)
		}
		if l.once(fd, errno) {
			return l.seen
		}
	}
	if l.ready == tries && l.denied == tries {
		l.seen.running = exited // every fresh pidfd said so
	} else if l.seen.obstacle == NotProbed {
		l.seen.obstacle = IdentityUnreadable
	}
	return l.seen
}

// look is one observation in the making.
type look struct {
	pid  int
	sc   *scope
	rel  relation
	uniq uint64 // recorded, to stop at once when it differs
	ev   *Evidence

	seen    observation
	existed bool          // something had the number since the look began
	ready   int           // how often a pidfd polled readable
	denied  int           // how often the stat file was refused or hidden
	trouble syscall.Errno // why the stat file could not be used, for stamp
}

// once looks once, with the answer of pidfd_open, and says whether what it saw
// stands.
func (l *look) once(pidfd int, errno syscall.Errno) bool {
	l.seen = observation{}
	polled, answered := l.askPidfd(pidfd, errno)
	if answered {
		return true
	}
	st, errno, done := l.askStat()
	if done {
		return true
	}
	if errno != 0 {
		return false
	}
	l.seen.presence = held
	if !st.settled() {
		return false // nothing on such a line may be compared
	}
	l.seen.start, l.seen.session = st.start, st.session
	switch {
	case st.exited():
		l.seen.running = exited
	case polled && l.seen.running == runningUnknown:
		return false // readable, yet not exited: a thread is taking the leader's place
	default:
		l.seen.running = runs
	}
	return true
}

// askPidfd closes the pidfd, if there is one, and reports whether it could be
// polled, and whether that was enough.
func (l *look) askPidfd(fd int, errno syscall.Errno) (polled, answered bool) {
	l.ev.add(answer{to: askPidfdOpen, errno: uint32(errno)})
	switch errno {
	case 0:
	case unix.ESRCH:
		return false, l.gone()
	case unix.ENOENT, unix.EINVAL: // a thread id (EINVAL before Linux 6.9)
		l.existed = true
		return false, l.askTgid()
	default: // filtered, unknown to the kernel, out of descriptors
		return false, l.askTgid()
	}
	defer unix.Close(fd)
	l.existed = true
	l.seen.presence = held
	if l.rel.start && !l.rel.uniq {
		return false, false // the stat file has both stamp and state
	}
	if l.sc.os.pidfs {
		l.seen.uniq = l.inode(fd)
	}
	if l.rel.uniq && l.seen.uniq != 0 && l.seen.uniq != l.uniq || l.rel.otherBoot {
		return false, true
	}
	switch l.poll(fd) {
	case runs:
		l.seen.running = runs
		return true, l.rel.uniq && l.seen.uniq != 0 || !l.rel.start
	case exited:
		l.ready++
		return true, false // to be confirmed by stat
	case runningUnknown:
	}
	return false, false
}

// gone records that nothing has the number.
func (l *look) gone() bool {
	l.seen = observation{presence: absent}
	if l.existed {
		l.seen.presence = vanished
	}
	return true
}

func (l *look) inode(pidfd int) uint64 {
	var st unix.Stat_t
	err := unix.Fstat(pidfd, &st)
	l.ev.add(answer{to: askFstat, errno: errnoOf(err), value: st.Ino})
	if err != nil {
		return 0
	}
	return st.Ino
}

// poll asks whether the process has exited. Readable is a hint only: while a
// thread's execve replaces the leader it can be readable for a moment.
func (l *look) poll(pidfd int) running {
	ready, err := pollReadable(pidfd)
	c := answer{to: askPoll, errno: errnoOf(err)}
	if ready {
		c.value = unix.POLLIN
	}
	l.ev.add(c)
	switch {
	case err != nil:
		return runningUnknown
	case ready:
		return exited
	}
	return runs
}

// askTgid decides, where no pidfd can, whether the number is only a thread's.
func (l *look) askTgid() bool {
	var buf [2048]byte
	n, errno := readProc(l.sc.os.proc, l.pid, "/status", buf[:])
	if errno != 0 {
		l.ev.add(answer{to: askReadStatus, errno: uint32(errno)})
		return false // the stat file will meet the same obstacle
	}
	tgid, ok := parseTgid(buf[:n])
	l.ev.add(answer{to: askReadStatus, value: tgid})
	if !ok {
		return false
	}
	if tgid != uint64(l.pid) {
		l.seen = observation{presence: absent}
		return true
	}
	return false
}

// askStat reads the stat file, and says whether an obstacle to that already
// settled the look.
func (l *look) askStat() (st procStat, errno syscall.Errno, done bool) {
	var buf [1024]byte
	fd, errno := openProc(l.sc.os.proc, l.pid, "/stat")
	if errno != 0 {
		l.ev.add(answer{to: askOpenStat, errno: uint32(errno)})
		return st, errno, l.askKill(errno)
	}
	n, errno := readOnce(fd, buf[:])
	unix.Close(fd)
	if errno == unix.ESRCH {
		// The open file pins whoever had the number then, and that is gone.
		l.ev.add(answer{to: askReadStat, errno: uint32(errno)})
		l.seen = observation{presence: vanished}
		return st, errno, true
	}
	if errno != 0 {
		l.ev.add(answer{to: askReadStat, errno: uint32(errno)})
		l.seen.obstacle = IdentityUnreadable
		return st, errno, false
	}
	st, ok := parseStat(buf[:n])
	if !ok {
		l.ev.add(answer{to: askReadStat, errno: uint32(unix.EBADMSG)})
		l.seen.obstacle = IdentityUnreadable
		return st, unix.EBADMSG, false
	}
	l.ev.add(answer{to: askReadStat, value: st.start, state: st.state, threads: int32(min(st.threads, 1<<31-1))})
	return st, 0, false
}

// askKill is the last resort after the stat file would not open. Only ESRCH
// proves anything: success and EPERM do not tell hidden from recycled, and a
// system call filter can answer EPERM for a number that nobody has.
func (l *look) askKill(open syscall.Errno) bool {
	errno := errnoOf(unix.Kill(l.pid, 0))
	l.ev.add(answer{to: askKillZero, errno: errno})
	if errno == uint32(unix.ESRCH) {
		return l.gone()
	}
	if errno == 0 {
		l.existed = true
		l.seen.presence = held
	}
	polledOut := l.ready > 0
	switch open {
	case unix.ENOENT, unix.ESRCH: // hidden, or it left in between
		l.denied++
		l.seen.obstacle = AccessDenied
		return !polledOut && l.denied > 1
	case unix.EPERM, unix.EACCES:
		l.denied++
		l.seen.obstacle = AccessDenied
		return !polledOut
	}
	l.seen.obstacle = IdentityUnreadable
	return true
}

// stamp fills in what the kernel says of id.PID now. It holds a pidfd while
// it reads, where there is one, so that the parts belong together.
func stamp(id *Identity, sc *scope) error {
	var ev Evidence
	l := look{pid: int(id.PID), sc: sc, rel: relation{start: true}, ev: &ev}
	for range tries {
		settled, err := l.stamp(id)
		if err != nil || settled {
			return err
		}
	}
	if l.trouble != 0 {
		return fmt.Errorf("%w: %w", ErrUnidentified, l.trouble)
	}
	return ErrUnidentified
}

func (l *look) stamp(id *Identity) (settled bool, err error) {
	id.Uniq, id.UniqKind = 0, ""
	fd, errno := pidfdOpen(l.pid)
	if errno == unix.ESRCH {
		return false, ErrNoProcess
	}
	pinned := errno == 0
	if pinned {
		defer unix.Close(fd)
		if l.sc.os.pidfs {
			if id.Uniq = l.inode(fd); id.Uniq != 0 {
				id.UniqKind = "pidfs"
			}
		}
	} else if l.askTgid() {
		return false, ErrNoProcess
	}
	st, errno, done := l.askStat()
	l.trouble = errno
	if done && l.seen.presence != held && l.seen.presence != presenceUnknown {
		return false, ErrNoProcess
	}
	if errno == 0 && !st.settled() {
		return false, nil
	}
	if errno != 0 && id.Uniq == 0 {
		return false, nil
	}
	id.Start = st.start
	if id.Start == 0 {
		id.StartUnit = ""
	}
	if pinned {
		// The number is still this process's: what was read by number was its.
		err := unix.PidfdSendSignal(fd, 0, nil, 0)
		return err == nil || err == unix.EPERM, nil
	}
	again, errno, _ := l.askStat()
	return errno == 0 && again.start == st.start, nil
}

// pidfdOpen is pidfd_open(2), Linux 5.3. Descriptors are close-on-exec.
func pidfdOpen(pid int) (fd int, errno syscall.Errno) {
	if runtime.GOOS == "android" {
		return -1, unix.ENOSYS // its seccomp filter kills the caller
	}
	r, _, errno := unix.RawSyscall(unix.SYS_PIDFD_OPEN, uintptr(pid), 0, 0)
	return int(r), errno
}

// pollReadable polls a pidfd without waiting. A pending signal of the Go
// runtime can interrupt even that.
func pollReadable(pidfd int) (ready bool, err error) {
	for range tries {
		fds := [1]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		_, err = unix.Ppoll(fds[:], new(unix.Timespec), nil)
		if err != unix.EINTR {
			return fds[0].Revents != 0, err
		}
	}
	return false, err
}

// openProc opens <pid><name> below the verified /proc descriptor. Names are
// made of digits only: /proc takes no sign and no leading zero.
func openProc(proc, pid int, name string) (fd int, errno syscall.Errno) {
	var path [48]byte
	p := strconv.AppendInt(path[:0], int64(pid), 10)
	p = append(p, name...)
	p = append(p, 0)
	r, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(proc), uintptr(unsafe.Pointer(&p[0])),
		unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	return int(r), errno
}

// readProc reads the beginning of <pid><name>.
func readProc(proc, pid int, name string, buf []byte) (n int, errno syscall.Errno) {
	fd, errno := openProc(proc, pid, name)
	if errno != 0 {
		return 0, errno
	}
	n, errno = readOnce(fd, buf)
	unix.Close(fd)
	return n, errno
}

func readOnce(fd int, buf []byte) (n int, errno syscall.Errno) {
	r, _, errno := unix.Syscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}
