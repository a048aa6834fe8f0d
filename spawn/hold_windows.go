package spawn

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

// noFollow is no flag here: symbolic links are for administrators to make.
const noFollow = 0

// held is a command whose process exists and whose first thread is suspended.
type held struct {
	cmd *exec.Cmd
}

// startHeld creates the process suspended, in a group of its own.
func startHeld(t *task, in, out *os.File) (*held, error) {
	cmd := exec.Command(t.Argv[0], t.Argv[1:]...)
	cmd.Dir, cmd.Env = t.Cwd, t.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW,
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &held{cmd}, nil
}

// pgid is 0: Windows has no process groups to signal.
func (h *held) pgid() int64 { return 0 }

var resumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

// release resumes the process. NtResumeProcess is not documented, but it is
// the only call that needs no thread handle, which os/exec does not keep.
func (h *held) release() error {
	return h.cmd.Process.WithHandle(func(handle uintptr) {
		resumeProcess.Call(handle)
	})
}

// abandon ends the process before its first instruction.
func (h *held) abandon() {
	h.cmd.Process.Kill()
	h.cmd.Wait()
}

// hold is no duty on Windows.
func hold([]string) { os.Exit(125) }

// detached keeps the supervisor away from this console.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP,
		HideWindow:    true,
	}
}

// closeInherited does nothing: Windows inherits only what it is told to.
func closeInherited() {}

func program() (string, error) { return os.Executable() }

// rootDir is the root of the volume that holds this program.
func rootDir(self string) string { return filepath.VolumeName(self) + `\` }

// signalGroup ends the command, at the second and final signal: Windows has
// no way to ask.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		cmd.Process.Kill()
	}
}

// signalName is empty: no process here ends by a signal.
func signalName(*os.ProcessState) (name string, core bool) { return "", false }
