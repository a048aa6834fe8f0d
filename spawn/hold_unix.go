//go:build unix

package spawn

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors of a holder: it waits for a byte on the gate, and an execve
// that succeeds closes the result without a word.
const (
	gateFD   = 3
	resultFD = 4
)

// noFollow opens no symbolic link (open(2)).
const noFollow = syscall.O_NOFOLLOW

// held is a command whose process exists and whose program has not begun.
type held struct {
	cmd *exec.Cmd
	// A byte to the gate lets it go, closing that ends the holder. From it comes
	// an end of file when the program runs, or text why it does not.
	gate *pipes
}

// startHeld starts this program as the process that will become the command,
// in a session of its own.
func startHeld(t *task, in, out *os.File) (*held, error) {
	self, err := program()
	if err != nil {
		return nil, err
	}
	gate, err := newPipes()
	if err != nil {
		return nil, err
	}
	defer gate.handOver()
	h := &held{gate: gate, cmd: &exec.Cmd{
		Path:        self,
		Args:        append([]string{holdName}, t.Argv...),
		Dir:         t.Cwd,
		Env:         t.Env,
		Stdin:       in,
		Stdout:      out,
		Stderr:      out,
		ExtraFiles:  []*os.File{gate.childIn, gate.childOut},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}}
	if err := h.cmd.Start(); err != nil {
		gate.close()
		return nil, err
	}
	return h, nil
}

// pgid is the process group: the holder leads its own.
func (h *held) pgid() int64 { return int64(h.cmd.Process.Pid) }

// release lets the command run and returns once its program has replaced the
// holder, or why it has not.
func (h *held) release() error {
	defer h.gate.close()
	if _, err := h.gate.to.Write([]byte{1}); err != nil {
		return err
	}
	why, err := io.ReadAll(h.gate.from)
	if err == nil && len(why) > 0 {
		bare, full, _ := strings.Cut(string(why), "\x00")
		err = &execError{full, errors.New(bare)}
	}
	return err
}

// execError is why a holder could not become the command.
type execError struct {
	text string
	err  error // what the system said, which names no command
}

func (e *execError) Error() string { return e.text }
func (e *execError) Unwrap() error { return e.err }

// abandon ends the holder: its command never runs.
func (h *held) abandon() {
	h.gate.close()
	h.cmd.Wait()
}

// hold is the holder's life. It becomes the command only on a byte from the
// gate: end of file means that the supervisor is gone or has changed its mind.
func hold(argv []string) {
	unix.CloseOnExec(gateFD)
	unix.CloseOnExec(resultFD)
	gate, result := os.NewFile(gateFD, "gate"), os.NewFile(resultFD, "result")
	if n, _ := gate.Read(make([]byte, 1)); n != 1 || len(argv) == 0 {
		os.Exit(125)
	}
	path, err := exec.LookPath(argv[0])
	if err == nil {
		defaultSignals()
		err = &os.PathError{Op: "exec", Path: path, Err: syscall.Exec(path, argv, os.Environ())}
	}
	io.WriteString(result, bare(err).Error()+"\x00"+err.Error())
	os.Exit(127)
}

// defaultSignals undoes what the caller's callers have ignored or blocked,
// which execve(2) keeps: a job that ignores SIGTERM because a shell did could
// not be stopped. A signal that is handled is default after execve(2); Go
// handles all but these from the start (package os/signal), and to notify of a
// signal takes it two switches between threads. The thread stays locked,
// because the mask is its own.
func defaultSignals() {
	runtime.LockOSThread()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT,
		syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	unblockSignals()
}

// closeInherited closes what this process was started with besides its
// standard streams: what its caller's callers hold open, locks and pipes, must
// not live as long as the job does. Only descriptors without close-on-exec are
// inherited; this program opens none. Where they cannot be listed they stay.
func closeInherited() {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			fd, err := strconv.Atoi(entry.Name())
			if err != nil || fd <= 2 {
				continue
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
				_ = unix.Close(fd)
			}
		}
		return
	}
}

// detached puts the supervisor into a session of its own, so that no
// terminal's signals reach it.
func detached() []*syscall.SysProcAttr { return []*syscall.SysProcAttr{{Setsid: true}} }

// program is the path of this program. On Linux it is the running one, even
// if the file has been replaced.
func program() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// rootDir keeps no file system busy.
func rootDir(string) string { return "/" }

// signal signals the command's group. Its leader is not collected yet, so the
// group is no other's.
func (h *held) signal(sig syscall.Signal) {
	if pid := h.cmd.Process.Pid; pid > 1 {
		unix.Kill(-pid, sig)
	}
}

// signalName is the name of the signal that ended the command, if one did,
// and whether it dumped core.
func signalName(state *os.ProcessState) (name string, core bool) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		if name = unix.SignalName(ws.Signal()); name == "" {
			name = "SIG" + strconv.Itoa(int(ws.Signal())) // a real-time signal
		}
		return name, ws.CoreDump()
	}
	return "", false
}
