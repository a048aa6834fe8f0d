package reap

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/jobprobe/jobprobe/sidecar"
)

// apart starts a notifier in a process group of its own, without a console,
// and suspended until it is in its job object.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW,
	}
}

// notifierGroup is a notifier and what it starts: a job object.
type notifierGroup struct {
	leader *os.Process
	job    windows.Handle
}

// NtResumeProcess is not documented, but it is the only call that needs no
// thread handle, which os/exec does not keep.
var resumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

func startNotifier(cmd *exec.Cmd) (g notifierGroup, err error) {
	if g.job, err = windows.CreateJobObject(nil, nil); err != nil {
		return g, err
	}
	if err := cmd.Start(); err != nil {
		g.release()
		return g, err
	}
	g.leader = cmd.Process
	var assigned error
	err = g.leader.WithHandle(func(handle uintptr) {
		if assigned = windows.AssignProcessToJobObject(g.job, windows.Handle(handle)); assigned == nil {
			resumeProcess.Call(handle)
		}
	})
	if err == nil {
		err = assigned
	}
	if err != nil {
		_ = g.leader.Kill() // it has not begun
		_ = cmd.Wait()
		g.release()
	}
	return g, err
}

// release lets the job object go. What the notifier left behind runs on.
func (g notifierGroup) release() { _ = windows.CloseHandle(g.job) }

// watch waits until the leader has exited, and returns true. If ctx ends
// before, it ends all of the job object and returns false.
func (g notifierGroup) watch(ctx context.Context) bool {
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = g.leader.WithHandle(func(handle uintptr) {
			_, _ = windows.WaitForSingleObject(windows.Handle(handle), windows.INFINITE)
		})
	}()
	if closes(ctx, exited) {
		return true
	}
	_ = windows.TerminateJobObject(g.job, 1)
	return false
}

func exitNumber(state *os.ProcessState) int64 { return int64(state.ExitCode()) }

// trusted says whether a record speaks for the caller: it and its directory
// belong to the caller's user or to the administrators, and the access lists
// let nobody else write (GetNamedSecurityInfo).
func trusted(dir string, _ sidecar.FileInfo) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	token, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return false
	}
	me := token.User.Sid
	return onlyOurs(dir, me) && onlyOurs(filepath.Join(dir, "job.json"), me)
}

// changing are the access rights that let a record be changed or replaced.
const changing = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | 0x40 /* FILE_DELETE_CHILD */ |
	windows.DELETE | windows.WRITE_DAC | windows.WRITE_OWNER | windows.GENERIC_WRITE | windows.GENERIC_ALL

func onlyOurs(path string, me *windows.SID) bool {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return false
	}
	owner, _, err := sd.Owner()
	if err != nil || !powerful(owner, me) {
		return false
	}
	list, _, err := sd.DACL()
	if err != nil || list == nil { // no list lets everybody do everything
		return false
	}
	for i := range uint32(list.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if windows.GetAce(list, i, &ace) != nil {
			return false
		}
		switch {
		case ace.Header.AceType == windows.ACCESS_DENIED_ACE_TYPE, ace.Header.AceFlags&windows.INHERIT_ONLY_ACE != 0:
		case ace.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE:
			return false // of a kind that has its user elsewhere
		case ace.Mask&changing != 0 && !powerful((*windows.SID)(unsafe.Pointer(&ace.SidStart)), me):
			return false
		}
	}
	return true
}

// powerful says whether a user is this one, the owner (of whom the same was
// asked before), or one that may do everything.
func powerful(sid, me *windows.SID) bool {
	return sid != nil && (sid.Equals(me) || sid.IsWellKnown(windows.WinCreatorOwnerRightsSid) ||
		sid.IsWellKnown(windows.WinLocalSystemSid) || sid.IsWellKnown(windows.WinBuiltinAdministratorsSid))
}
