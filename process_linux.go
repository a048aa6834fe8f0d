package jobprobe

import (
	"context"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pin is a pidfd (pidfd_open(2), Linux 5.3). The os.File lets the runtime's
// poller wait for it, so that a thousand waits block no thread.
type pin struct {
	id    Identity
	file  *os.File
	raw   syscall.RawConn
	open  context.Context // done once the pin is closed
	ended context.CancelFunc
}

func openPin(id Identity) (pin, Liveness, error) {
	if !askable(&id) {
		return pin{}, Probe(id), nil
	}
	fd, errno := pidfdOpen(int(id.PID))
	live := Probe(id)
	if errno != 0 {
		if live.Finding == IdentityConfirmed {
			return pin{}, live, errNoHandle
		}
		return pin{}, live, nil
	}
	// The handle was held before the probe, and is still the number's holder:
	// what the probe confirmed by number is what the handle pins.
	if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil && err != unix.EPERM {
		unix.Close(fd)
		if live.Finding == IdentityConfirmed {
			live = Probe(id)
		}
		return pin{}, live, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return pin{}, live, err
	}
	p := pin{id: id, file: os.NewFile(uintptr(fd), "pidfd")}
	raw, err := p.file.SyscallConn()
	if err != nil {
		p.file.Close()
		return pin{}, live, err
	}
	p.raw = raw
	p.open, p.ended = context.WithCancel(context.Background())
	return p, live, nil
}

// control runs f with the descriptor, which stays open meanwhile.
func (p *pin) control(f func(fd int)) error {
	return p.raw.Control(func(fd uintptr) { f(int(fd)) })
}

// probe polls the handle. Readable is confirmed by a probe of the number,
// unless that belongs to another process by now.
func (p *pin) probe(ev *Evidence) Finding {
	state := runningUnknown
	err := p.control(func(fd int) {
		ready, err := pollReadable(fd)
		c := Call{Name: "ppoll pidfd", Errno: errnoOf(err)}
		switch {
		case err != nil:
		case ready:
			c.Value, state = unix.POLLIN, exited
		default:
			state = runs
		}
		ev.add(c)
	})
	if err != nil {
		return NotProbed
	}
	switch state {
	case runs:
		return IdentityConfirmed
	case exited:
		live := Probe(p.id)
		*ev = live.Evidence
		return live.Finding
	case runningUnknown:
	}
	return IdentityUnreadable
}

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
		raw.Read(func(fd uintptr) bool {
			ready, err := pollReadable(int(fd))
			return ready && err == nil
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case p.open.Err() != nil:
			return os.ErrClosed
		case Probe(p.id).Conclusion == ProcessGone:
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

// duplicate makes a second descriptor of the same pidfd.
func (p *pin) duplicate() (file *os.File, raw syscall.RawConn, err error) {
	dup := -1
	if cerr := p.control(func(fd int) { dup, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil {
		return nil, nil, os.ErrClosed
	}
	if err != nil {
		return nil, nil, err
	}
	file = os.NewFile(uintptr(dup), "pidfd")
	raw, err = file.SyscallConn()
	if err != nil {
		file.Close()
	}
	return file, raw, err
}

// exit asks for the exit status: PIDFD_GET_INFO tells everybody, once the
// parent has collected the process (Linux 6.15); waitid(2) with WNOWAIT tells
// the parent, and collects nothing.
func (p *pin) exit() (e Exit) {
	p.control(func(fd int) {
		info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		if unix.IoctlPidfdInfo(fd, &info) == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0 {
			ws := syscall.WaitStatus(info.Exit_code)
			e = Exit{Known: true, Code: ws.ExitStatus(), Core: ws.CoreDump()}
			if ws.Signaled() {
				e.Signal = int(ws.Signal())
			}
			return
		}
		var si siginfo
		err := unix.Waitid(unix.P_PIDFD, fd, (*unix.Siginfo)(unsafe.Pointer(&si)), unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
		if err == nil && si.pid() != 0 {
			e = si.exit()
		}
	})
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

func (si *siginfo) pid() int32 { return si.fields.pid }

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
		return errNoHandle
	}
	var sent error
	if err := p.control(func(fd int) { sent = unix.PidfdSendSignal(fd, n, nil, 0) }); err != nil {
		return os.ErrClosed
	}
	if sent == unix.ESRCH {
		return os.ErrProcessDone
	}
	return sent
}

func (p *pin) close() error {
	if p.file == nil {
		return nil
	}
	p.ended()
	return p.file.Close()
}
