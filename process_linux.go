package jobprobe

import (
	"context"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pin is a pidfd (pidfd_open(2), Linux 5.3).
type pin struct {
	id    Identity
	open  context.Context // done once the pin is closed
	ended context.CancelFunc

	mu sync.RWMutex // held for reading while the descriptor is in use
	fd int          // -1 once it is closed
}

func openPin(id Identity) (*pin, Liveness, error) {
	if !askable(&id) {
		return nil, Probe(id), nil
	}
	fd, errno := pidfdOpen(int(id.PID))
	if errno == 0 && confirmedBy(fd, &id) {
		var live Liveness
		live.conclude(IdentityConfirmed)
		return newPin(id, fd), live, nil
	}
	live := Probe(id)
	if errno != 0 {
		if live.Finding == IdentityConfirmed {
			return nil, live, errNoHandle
		}
		return nil, live, nil
	}
	// The handle was held before the probe, and its process runs after it: what
	// the probe confirmed by number is what the handle pins.
	pinned := false
	for range tries {
		exited, err := pollReadable(fd)
		if err != nil {
			unix.Close(fd)
			return nil, live, err
		}
		if pinned = !exited; pinned {
			break
		}
		if live = Probe(id); live.Finding != IdentityConfirmed {
			break
		}
		// Readable without having exited (see look.poll), or the number has
		// passed to a successor that a weak stamp does not tell apart.
	}
	if !pinned {
		unix.Close(fd)
		if live.Finding == IdentityConfirmed {
			live.conclude(IdentityUnreadable)
		}
		return nil, live, nil
	}
	return newPin(id, fd), live, nil
}

func newPin(id Identity, fd int) *pin {
	p := &pin{id: id, fd: fd}
	p.open, p.ended = context.WithCancel(context.Background())
	return p
}

// confirmedBy says that the handle itself identifies the process, by the number
// that the kernel never repeats, and that it runs. What it does not confirm may
// be confirmed by a probe.
func confirmedBy(pidfd int, id *Identity) bool {
	sc, err := currentScope()
	if err != nil || !sc.os.pidfs || id.OS != runtime.GOOS {
		return false
	}
	if rel := relate(id, sc, time.Time{}); rel.foreign != NotProbed || !rel.uniq {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(pidfd, &st) != nil || st.Ino != id.Uniq {
		return false
	}
	exited, err := pollReadable(pidfd)
	return err == nil && !exited
}

// probe polls the handle. Readable is confirmed by a probe of the number,
// unless that belongs to another process by now.
func (p *pin) probe(ev *Evidence) Finding {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return NotProbed
	}
	ready, err := pollReadable(p.fd)
	c := answer{to: askPoll, errno: errnoOf(err)}
	if ready {
		c.value = unix.POLLIN
	}
	ev.add(c)
	switch {
	case err != nil:
		return IdentityUnreadable
	case !ready:
		return IdentityConfirmed
	case collected(p.fd):
		ev.add(answer{to: askSignalZero, errno: uint32(unix.ESRCH)})
		return DisappearedDuringProbe
	}
	live := Probe(p.id)
	*ev = live.Evidence
	return live.Finding
}

// collected says that the pinned process is no more: ESRCH is about it, and
// not about its number, which may have passed on.
func collected(pidfd int) bool { return unix.PidfdSendSignal(pidfd, 0, nil, 0) == unix.ESRCH }

// wait lets the runtime's poller watch a duplicate of the handle, so that
// every wait has a deadline of its own to be interrupted by.
func (p *pin) wait(ctx context.Context) error {
	file, raw, err := p.duplicate()
	if err != nil {
		return err
	}
	defer file.Close()
	interrupt := func() { file.SetReadDeadline(time.Unix(1, 0)) }
	defer context.AfterFunc(ctx, interrupt)()
	defer context.AfterFunc(p.open, interrupt)()
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		gone := false
		raw.Read(func(fd uintptr) bool {
			ready, err := pollReadable(int(fd))
			gone = ready && collected(int(fd))
			return ready && err == nil
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case p.open.Err() != nil:
			return os.ErrClosed
		case gone, Probe(p.id).Conclusion == ProcessGone:
			return nil
		}
		// Readable without having exited (see look.poll), or the probe met an
		// obstacle. The poller tells an edge only once, so look again.
		select {
		case <-ctx.Done():
		case <-p.open.Done():
		case <-time.After(pause):
		}
	}
}

// duplicate makes a second descriptor of the same pidfd, for the poller.
func (p *pin) duplicate() (*os.File, syscall.RawConn, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return nil, nil, os.ErrClosed
	}
	dup, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(dup, true); err != nil {
		unix.Close(dup)
		return nil, nil, err
	}
	file := os.NewFile(uintptr(dup), "pidfd")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
	}
	return file, raw, err
}

// exit asks for the exit status: PIDFD_GET_INFO tells everybody, once the
// parent has collected the process (Linux 6.15); waitid(2) with WNOWAIT tells
// the parent, and collects nothing.
func (p *pin) exit() Exit {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return Exit{}
	}
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if unix.IoctlPidfdInfo(p.fd, &info) == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0 {
		return exitOf(syscall.WaitStatus(info.Exit_code))
	}
	var si siginfo
	err := unix.Waitid(unix.P_PIDFD, p.fd, (*unix.Siginfo)(unsafe.Pointer(&si)), unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	if err != nil || si.fields.pid == 0 {
		return Exit{}
	}
	return si.exit()
}

func exitOf(ws syscall.WaitStatus) Exit {
	e := Exit{Known: true, Code: ws.ExitStatus(), Core: ws.CoreDump()}
	if ws.Signaled() {
		e.Signal = int(ws.Signal())
	}
	return e
}

// siginfo is the part of siginfo_t that waitid(2) fills in; what follows the
// first three words is aligned to a pointer.
type siginfo struct {
	signo, errno, code int32
	fields             struct {
		_        [0]uintptr
		pid, uid int32
		status   int32
		_        [128 - 6*4]byte
	}
}

// Values of si_code for SIGCHLD (sigaction(2)).
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

func (si *siginfo) exit() Exit {
	status := int(si.fields.status)
	switch si.code {
	case cldExited:
		return Exit{Known: true, Code: status}
	case cldKilled, cldDumped:
		return Exit{Known: true, Code: -1, Signal: status, Core: si.code == cldDumped}
	}
	return Exit{}
}

func (p *pin) signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return errNoSignal
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return os.ErrClosed
	}
	err := unix.PidfdSendSignal(p.fd, n, nil, 0)
	if err == unix.ESRCH {
		return os.ErrProcessDone
	}
	return err
}

func (p *pin) close() error {
	p.ended()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd < 0 {
		return os.ErrClosed
	}
	err := unix.Close(p.fd)
	p.fd = -1
	return err
}
