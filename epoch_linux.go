package jobprobe

import (
	"bytes"
	"io"
	"os"
	"strconv"

	"github.com/tklauser/go-sysconf"
	"golang.org/x/sys/unix"
)

// stepsWhole says that a clock step moves a start time by whole seconds: the
// boot time in /proc/stat has no fraction.
const stepsWhole = true

// createdAt returns the start time that psutil would compute for a stamp: in
// its order, so that the floating-point result is the same to the last bit.
func createdAt(sc *scope, start uint64) (seconds float64, ok bool) {
	hz, err := sysconf.Sysconf(sysconf.SC_CLK_TCK)
	if err != nil || hz <= 0 || start == 0 {
		return 0, false
	}
	stat, ok := readAllProc(sc, "stat")
	if !ok {
		return 0, false
	}
	_, rest, found := bytes.Cut(stat, []byte("\nbtime "))
	word, _, ended := bytes.Cut(rest, []byte("\n"))
	btime, ok := digits(word)
	if !found || !ended || !ok {
		return 0, false
	}
	return float64(start)/float64(hz) + float64(btime), true
}

// marked says whether the live process carries the run's marker. The kernel
// lets only the owner read an environment; an unreadable one is no marker.
func marked(sc *scope, pid int64, runID string) bool {
	env, _ := readAllProc(sc, strconv.FormatInt(pid, 10)+"/environ")
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if name, value, _ := bytes.Cut(entry, []byte("=")); string(value) == runID &&
			(string(name) == "JOBPROBE_RUN_ID" || string(name) == "LIONAGI_MCP_JOB_RUN_ID") {
			return true
		}
	}
	return false
}

// readAllProc reads a file below the verified /proc, up to 8 MiB.
func readAllProc(sc *scope, name string) ([]byte, bool) {
	fd, err := unix.Openat(sc.os.proc, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 8<<20))
	return data, err == nil
}
