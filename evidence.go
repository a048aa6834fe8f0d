package jobprobe

import (
	"runtime"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// maxCalls bounds a receipt. The longest ordinary probe makes seven calls;
// only the retries of a transient answer can reach the bound.
const maxCalls = 8

// Evidence is the receipt of one verdict: what was asked, what the operating
// system answered, when, and from which scope. It is bounded and holds no
// command line, environment or path. The zero value is the receipt of a probe
// that was never made.
type Evidence struct {
	// ExitedUnreaped says that the process has exited and only its number is
	// still held, by a parent that has not collected it or by an open handle.
	ExitedUnreaped bool
	// Weak says that a confirmed identity rests on a stamp that another
	// process could share: on Linux, start ticks of 10 ms without a pidfs
	// inode, or a start time in epoch seconds.
	Weak bool
	// Dropped counts the calls beyond those that were kept.
	Dropped uint16

	// Receipts are copied with every verdict, so they are kept small.
	n     uint8
	at    time.Duration // since started
	scope *scope
	calls [maxCalls]answer
}

// started is the moment that receipts are dated from: reading one clock for
// each is enough.
var started = time.Now()

// question names a call in a receipt. The zero value is none.
type question uint8

const (
	askNothing question = iota
	askPidfdOpen
	askFstat
	askPoll
	askOpenStat
	askReadStat
	askReadStatus
	askKillZero
	askSignalZero
	askSysctl
	askOpenProcess
	askProcessID
	askTimes
	askWait
	askTable
)

var questionNames = [...]string{
	"nothing", "pidfd_open", "fstat pidfd", "ppoll pidfd", "open stat", "read stat", "read status",
	"kill 0", "pidfd_send_signal 0", "sysctl kern.proc.pid", "OpenProcess", "GetProcessId", "GetProcessTimes",
	"WaitForSingleObject", "NtQuerySystemInformation",
}

// answer is a Call in a receipt.
type answer struct {
	value   uint64
	errno   uint32
	threads int32
	to      question
	state   byte
}

// At returns when the probe ended: on the wall clock as it stood when this
// program started, which a later step does not move. It is zero for a probe
// that was never made.
func (e Evidence) At() time.Time {
	if e.at == 0 {
		return time.Time{}
	}
	return started.Add(e.at).Round(0)
}

// Observer returns the scope that the probe looked from, as in an [Identity].
// It is zero if the probe did not come to know it.
func (e Evidence) Observer() Scope {
	if e.scope == nil {
		return Scope{}
	}
	sc := e.scope
	return Scope{OS: runtime.GOOS, Boot: sc.boot, PIDNS: sc.pidNS, TimeNS: sc.timeNS, Host: sc.host}
}

// Scope is where a probe looked from.
type Scope struct {
	OS            string
	Boot          string // boot id, empty where it could not be read
	PIDNS, TimeNS uint64 // namespace inode numbers, Linux only
	Host          string // opaque host id
}

// A Call is one question to the operating system and its raw answer.
type Call struct {
	// Name is the system call, or the system call and what it read
	// ("read stat").
	Name string
	// Errno is the operating system's error number, 0 for success.
	Errno uint32
	// Value is the raw answer where there is one: an inode number, poll
	// bits, start ticks, a length.
	Value uint64
	// State is the process state letter, where the call read one.
	State byte
	// Threads is the thread count, where the call read one.
	Threads int32
}

// Calls returns the calls in the order in which they were made.
func (e Evidence) Calls() []Call {
	calls := make([]Call, e.n)
	for i, a := range e.calls[:e.n] {
		calls[i] = Call{questionNames[a.to], a.errno, a.value, a.state, a.threads}
	}
	return calls
}

func (e *Evidence) add(a answer) {
	if int(e.n) == len(e.calls) {
		e.Dropped++
		return
	}
	e.calls[e.n] = a
	e.n++
}

type callJSON struct {
	Call    string `json:"call"`
	Error   string `json:"error,omitzero"`
	Value   string `json:"value,omitzero"`
	State   string `json:"state,omitzero"`
	Threads int32  `json:"threads,omitzero"`
}

type evidenceJSON struct {
	At       string `json:"at"`
	Observer struct {
		OS     string `json:"os"`
		Boot   string `json:"boot,omitzero"`
		PIDNS  string `json:"pid_ns,omitzero"`
		TimeNS string `json:"time_ns,omitzero"`
		Host   string `json:"host,omitzero"`
	} `json:"observer"`
	ExitedUnreaped bool       `json:"exited_unreaped,omitzero"`
	Weak           bool       `json:"weak_identity,omitzero"`
	Calls          []callJSON `json:"calls"`
	Dropped        uint16     `json:"calls_dropped,omitzero"`
}

// MarshalJSON returns the receipt as one object: at (RFC 3339, UTC),
// observer, exited_unreaped, weak_identity, calls and calls_dropped.
func (e Evidence) MarshalJSON() ([]byte, error) {
	out := evidenceJSON{
		At:             e.At().UTC().Format(time.RFC3339Nano),
		ExitedUnreaped: e.ExitedUnreaped,
		Weak:           e.Weak,
		Calls:          []callJSON{},
		Dropped:        e.Dropped,
	}
	observer := e.Observer()
	out.Observer.OS = observer.OS
	out.Observer.Boot = observer.Boot
	out.Observer.PIDNS = decimal(observer.PIDNS)
	out.Observer.TimeNS = decimal(observer.TimeNS)
	out.Observer.Host = observer.Host
	for _, c := range e.Calls() {
		call := callJSON{Call: c.Name, Threads: c.Threads}
		if c.Errno != 0 {
			call.Error = errnoName(c.Errno)
		} else {
			call.Value = strconv.FormatUint(c.Value, 10)
		}
		if c.State != 0 {
			call.State = string(rune(c.State))
		}
		out.Calls = append(out.Calls, call)
	}
	return json.Marshal(out)
}
