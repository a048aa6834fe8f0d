package jobprobe

import "bytes"

// procStat holds the fields of /proc/<pid>/stat that a probe uses.
type procStat struct {
	state   byte   // field 3
	session int64  // field 6
	threads uint64 // field 20
	start   uint64 // field 22, clock ticks since boot
}

// parseStat reads one line of /proc/<pid>/stat (proc_pid_stat(5)), such as
//
//	29031 (sleep) S 1 29031 29031 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 68196 ...
//
// The command name may hold anything, spaces, newlines and parentheses
// included, so the fields are counted from the last ')'. The line must go on
// behind field 22, or the number might be cut short.
func parseStat(line []byte) (st procStat, ok bool) {
	i := bytes.LastIndexByte(line, ')')
	if i < 0 || len(line) < i+4 || line[i+1] != ' ' || line[i+2] == ' ' || line[i+3] != ' ' {
		return procStat{}, false
	}
	st.state = line[i+2]
	rest := line[i+4:]
	for field := 4; field <= 22; field++ {
		end := bytes.IndexByte(rest, ' ')
		if end <= 0 {
			return procStat{}, false
		}
		switch word := rest[:end]; field {
		case 6:
			n, ok := digits(word)
			if !ok && string(word) != "-1" || n > 1<<31-1 {
				return procStat{}, false
			}
			st.session = int64(n)
		case 20:
			if st.threads, ok = digits(word); !ok {
				return procStat{}, false
			}
		case 22:
			if st.start, ok = digits(word); !ok {
				return procStat{}, false
			}
		}
		rest = rest[end+1:]
	}
	return st, true
}

// exited says whether the whole thread group has exited. A dead leader with
// living threads shows more than one thread, and a leader that is being
// replaced by a thread's execve shows none (fs/proc/array.c fills the count
// only under the signal lock), so exactly one is required.
func (st *procStat) exited() bool {
	return (st.state == 'Z' || st.state == 'X') && st.threads == 1
}

// settled says whether the line describes a state that lasts. The others are
// moments of an execve, or an emulator's invention.
func (st *procStat) settled() bool {
	if st.threads == 0 || st.state == '0' {
		return false
	}
	return st.state != 'X' || st.threads == 1
}

// parseTgid finds the thread group id in /proc/<pid>/status
// (proc_pid_status(5)), where command names are escaped, so that a line that
// begins with "Tgid:" is the kernel's own.
func parseTgid(status []byte) (tgid uint64, ok bool) {
	_, rest, ok := bytes.Cut(status, []byte("\nTgid:\t"))
	if !ok {
		return 0, false
	}
	word, _, ok := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return 0, false
	}
	return digits(word)
}

// digits reads a plain decimal number of at most 64 bits.
func digits(word []byte) (n uint64, ok bool) {
	if len(word) == 0 || len(word) > 20 {
		return 0, false
	}
	for _, c := range word {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := uint64(c - '0')
		if n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
