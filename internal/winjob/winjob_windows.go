package winjob

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Job is the job object of one run. Until [Job.Keep] all of it ends with the
// process that made it.
type Job struct{ handle windows.Handle }

var (
	kernel32        = windows.NewLazySystemDLL("kernel32.dll")
	createJobObject = kernel32.NewProc("CreateJobObjectW")
	openJobObject   = kernel32.NewProc("OpenJobObjectW")
	isProcessInJob  = kernel32.NewProc("IsProcessInJob")
)

// Access rights of job objects.
const (
	jobTerminate = 0x0008
	jobQuery     = 0x0004
)

// name is the same in every session.
func name(runID string) (*uint16, error) {
	return windows.UTF16PtrFromString(`Global\jobprobe-` + runID)
}

// New makes the job object of a run. It is an error if there is one of that
// name: it would be somebody else's.
func New(runID string) (*Job, error) {
	text, err := name(runID)
	if err != nil {
		return nil, err
	}
	handle, _, err := createJobObject.Call(0, uintptr(unsafe.Pointer(text)))
	if handle == 0 {
		return nil, err
	}
	j := &Job{windows.Handle(handle)}
	if errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		j.Close()
		return nil, err
	}
	if err := j.limit(windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

func (j *Job) limit(flags uint32) error {
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = flags | windows.JOB_OBJECT_LIMIT_BREAKAWAY_OK
	_, err := windows.SetInformationJobObject(j.handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return err
}

// Add puts a process, which must not run yet, into the job.
func (j *Job) Add(process windows.Handle) error {
	return windows.AssignProcessToJobObject(j.handle, process)
}

// Keep lets the job outlive this process, with its name as long as the given
// process lives: a job object can be opened by name only while somebody has a
// handle of it (CreateJobObject), so that process is given one.
func (j *Job) Keep(process windows.Handle) error {
	if err := j.limit(0); err != nil {
		return err
	}
	var theirs windows.Handle
	return windows.DuplicateHandle(windows.CurrentProcess(), j.handle, process, &theirs, jobQuery, false, 0)
}

// End terminates all processes of the job.
func (j *Job) End() error { return windows.TerminateJobObject(j.handle, 1) }

// Close gives up the handle.
func (j *Job) Close() error { return windows.CloseHandle(j.handle) }

// End terminates all processes of a run's job object, if the given process,
// which the caller keeps from being replaced, is one of them. Any error means
// that nothing was terminated.
func End(runID string, pid uint32) error {
	text, err := name(runID)
	if err != nil {
		return err
	}
	handle, _, err := openJobObject.Call(jobTerminate|jobQuery, 0, uintptr(unsafe.Pointer(text)))
	if handle == 0 {
		return err
	}
	j := Job{windows.Handle(handle)}
	defer j.Close()
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_INFORMATION, false, pid) // wine wants no less
	if err != nil {
		return err
	}
	defer windows.CloseHandle(process)
	var in uint32
	if ok, _, err := isProcessInJob.Call(uintptr(process), handle, uintptr(unsafe.Pointer(&in))); ok == 0 {
		return err
	}
	if in == 0 {
		return syscall.ERROR_NOT_FOUND
	}
	return j.End()
}
