package jobprobe

// Error codes (winerror.h) and wait results (WaitForSingleObject) that
// winLook tells apart.
const (
	winAccessDenied     = 5
	winInvalidParameter = 87
	winWaitObject0      = 0
	winWaitTimeout      = 258
)

// usableWinPID accepts the numbers that Windows gives to processes: nonzero
// multiples of four, in 32 bits. OpenProcess ignores the two lowest bits, so
// that a number beside the recorded one would open the recorded process, and
// it says of 0 what it says of a free number.
func usableWinPID(pid int64) bool { return pid > 0 && pid%4 == 0 && pid <= 1<<32-1 }

// winLook holds the raw answers of one look at a number. Fields behind the
// first failure were not asked for and are zero.
type winLook struct {
	pid     uint32
	open    uint32   // error of OpenProcess, 0 if it gave a handle
	row     tableRow // where OpenProcess was denied: the process table
	listed  bool     // the table has the number
	number  uint32   // GetProcessId, 0 if it failed
	created uint64   // GetProcessTimes, 100 ns since 1601, 0 if it failed
	waited  bool     // WaitForSingleObject gave a result
	wait    uint32   // that result
}

// observation says what the answers prove. A free number is told apart from a
// refusal by the error code alone: no other code is about the process. The
// exit code and the exit time are never asked for, as 259 is also an exit
// code, and the time of a running process is undefined.
func (l *winLook) observation() observation {
	switch {
	case l.open == winInvalidParameter:
		return observation{presence: absent}
	case l.open == winAccessDenied:
		return l.denied()
	case l.open != 0, l.number != l.pid:
		return observation{obstacle: IdentityUnreadable}
	}
	// The handle keeps the number from passing on: all answers are about one
	// process.
	seen := observation{presence: held, start: l.created}
	switch {
	case l.created == 0:
		seen.obstacle = IdentityUnreadable
	case !l.waited:
		seen.obstacle = AccessDenied
	}
	switch {
	case l.waited && l.wait == winWaitTimeout:
		seen.running = runs
	case l.waited && l.wait == winWaitObject0:
		seen.running = exited
	}
	return seen
}

// denied uses the process table, which shows every process's creation time to
// everyone. An entry without threads may be an exited process that somebody
// holds, and a missing one may be hidden: neither is proof.
func (l *winLook) denied() observation {
	seen := observation{obstacle: AccessDenied}
	if !l.listed {
		return seen
	}
	seen.presence, seen.start = held, l.row.created
	if l.row.threads > 0 && l.row.created != 0 {
		seen.running, seen.obstacle = runs, NotProbed
	}
	return seen
}
