package spawn

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/jobprobe/jobprobe/internal/winjob"
)

// noFollow is no flag here: symbolic links are for administrators to make.
const noFollow = 0

// held is a command whose process exists and whose first thread is suspended.
type held struct {
	cmd *exec.Cmd
	job *winjob.Job
}

// startHeld creates the process suspended, in a group and a job object of its
// own. If this process ends now, the job object takes the other with it; only
// between the two calls it does not.
func startHeld(t *task, in, out *os.File) (*held, error) {
	job, err := winjob.New(t.RunID)
	if err != nil {
		return nil, os.NewSyscallError("CreateJobObject", err)
	}
	h := &held{exec.Command(t.Argv[0], t.Argv[1:]...), job}
	h.cmd.Dir, h.cmd.Env = t.Cwd, t.Env
	h.cmd.Stdin, h.cmd.Stdout, h.cmd.Stderr = in, out, out
	h.cmd.SysProcAttr = &syscall.SysProcAttr{
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW,
	}
	if err := h.cmd.Start(); err != nil {
		job.Close()
		return nil, err
	}
	if err := h.with(job.Add); err != nil {
		h.abandon()
		return nil, os.NewSyscallError("AssignProcessToJobObject", err)
	}
	return h, nil
}

// with calls with the process's handle.
func (h *held) with(f func(windows.Handle) error) error {
	var err error
	if closed := h.cmd.Process.WithHandle(func(handle uintptr) { err = f(windows.Handle(handle)) }); closed != nil {
		return closed
	}
	return err
}

// pgid is 0: Windows has no process groups to signal.
func (h *held) pgid() int64 { return 0 }

var resumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

// release resumes the process. NtResumeProcess is not documented, but it is
// the only call that needs no thread handle, which os/exec does not keep. From
// then on the job does not depend on this process.
func (h *held) release() error {
	err := h.with(func(process windows.Handle) error {
		if code, _, _ := resumeProcess.Call(uintptr(process)); code != 0 {
			return os.NewSyscallError("NtResumeProcess", windows.NTStatus(code))
		}
		return nil
	})
	if err != nil {
		h.cmd.Process.Kill()
		return err
	}
	h.with(h.job.Keep) // refused, the job ends with its supervisor
	return nil
}

// abandon ends the process before its first instruction.
func (h *held) abandon() {
	h.cmd.Process.Kill()
	h.cmd.Wait()
	h.job.Close()
}

// signal ends the command and all that it has started, at the second and final
// signal: Windows has no way to ask.
func (h *held) signal(sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		h.job.End()
	}
}

// hold is no duty on Windows.
func hold([]string) { os.Exit(125) }

// detached keeps the supervisor away from this console, and from the job object
// that this process may be in, where that lets it.
func detached() []*syscall.SysProcAttr {
	const flags = windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP
	return []*syscall.SysProcAttr{
		{CreationFlags: flags | windows.CREATE_BREAKAWAY_FROM_JOB, HideWindow: true},
		{CreationFlags: flags, HideWindow: true},
	}
}

// closeInherited does nothing: Windows inherits only what it is told to.
func closeInherited() {}

func program() (string, error) { return os.Executable() }

// rootDir is the root of the volume that holds this program.
func rootDir(self string) string { return filepath.VolumeName(self) + `\` }

// signalName is empty: no process here ends by a signal.
func signalName(*os.ProcessState) (name string, core bool) { return "", false }
