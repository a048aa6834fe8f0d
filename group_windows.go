package jobprobe

import "syscall"

// Windows has no process groups to signal: a job is its one process, and what
// that one started is not known.

func processNumbers() (pids []int64, complete bool) { return nil, false }
func groupOf(int64) (pgid int64, err error)         { return 0, errNoSignal }
func glimpse(int64) (Marker, string)                { return MarkerUnreadable, "" }
func (m *Member) describe(int64)                    {}

func (p *Process) signalGroup(syscall.Signal) error { return errNoSignal }
