package spawn

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

// lockFlags open the claims' lock, created if need be.
const lockFlags = os.O_RDWR | os.O_CREATE

// held is a command whose process exists and whose first thread is suspended.
type held struct {
	cmd *exec.Cmd
}

// startHeld creates the process suspended, in a group of its own, without
// input, its output appended to the log.
func startHeld(t *task, log string) (*held, error) {
	console, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer console.Close()
	cmd := exec.Command(t.Argv[0], t.Argv[1:]...)
	cmd.Dir, cmd.Env = t.Cwd, t.Env
	input, err := openInput(t.Stdin)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, console, console
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
