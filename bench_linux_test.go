package jobprobe

import (
	"os"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// A probe allocates nothing, whatever it finds.
func TestProbeAllocates(t *testing.T) {
	c, live := child(t)
	z, dead := child(t)
	z.Zombie(t)
	gone := reaped(t)
	thread := live
	thread.PID = int64(testproc.ThreadID(t))
	foreign := live
	foreign.PIDNS++
	for name, id := range map[string]Identity{
		"confirmed": live, "ticks only": ticksOnly(live), "no stamp": noStamp(live),
		"recycled": otherStart(ticksOnly(live)), "absent": gone, "zombie": dead,
		"zombie, ticks only": ticksOnly(dead), "thread": thread, "foreign": foreign,
		"unusable": {PID: -1}, "number only": {PID: int64(c.PID)},
	} {
		if n := testing.AllocsPerRun(100, func() { Probe(id) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// benchPair measures a probe and the same system calls made bare, in turns
// within one run, and reports how many times the bare cost a probe is. The
// best turn of each counts: what disturbs the machine only ever adds.
func benchPair(b *testing.B, probe, raw func()) {
	const turn = 64
	best := func(f func(), sofar time.Duration) time.Duration {
		start := time.Now()
		for range turn {
			f()
		}
		return min(sofar, time.Since(start))
	}
	probed, bare := time.Hour, time.Hour
	for b.Loop() {
		probed, bare = best(probe, probed), best(raw, bare)
	}
	b.ReportMetric(float64(probed.Nanoseconds())/turn, "probe-ns")
	b.ReportMetric(float64(bare.Nanoseconds())/turn, "raw-ns")
	b.ReportMetric(float64(probed)/float64(bare), "ratio")
	b.ReportMetric(0, "ns/op") // of a turn: of no interest
}

// rawProbe are the bare system calls of a probe, with buffers made before.
type rawProbe struct {
	pid  int
	proc int
	path []byte
	stat unix.Stat_t
	poll [1]unix.PollFd
	now  unix.Timespec
	buf  [1024]byte
}

func newRawProbe(b *testing.B, pid int64) *rawProbe {
	b.Helper()
	fd, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(fd) })
	return &rawProbe{pid: int(pid), proc: fd, path: []byte(strconv.FormatInt(pid, 10) + "/stat\x00")}
}

// pidfd opens a pidfd, reads its inode number, polls it and closes it.
func (r *rawProbe) pidfd() {
	fd, _, errno := unix.RawSyscall(unix.SYS_PIDFD_OPEN, uintptr(r.pid), 0, 0)
	if errno != 0 {
		return
	}
	unix.RawSyscall(unix.SYS_FSTAT, fd, uintptr(unsafe.Pointer(&r.stat)), 0)
	r.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&r.poll[0])), 1, uintptr(unsafe.Pointer(&r.now)), 0, 0, 0)
	unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
}

// exists opens a pidfd and closes it.
func (r *rawProbe) exists() {
	fd, _, errno := unix.RawSyscall(unix.SYS_PIDFD_OPEN, uintptr(r.pid), 0, 0)
	if errno == 0 {
		unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
}

// held polls a pidfd that is open already.
func (r *rawProbe) held(fd int) {
	r.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&r.poll[0])), 1, uintptr(unsafe.Pointer(&r.now)), 0, 0, 0)
}

// file opens, reads and closes the stat file.
func (r *rawProbe) file() {
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(r.proc), uintptr(unsafe.Pointer(&r.path[0])),
		unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return
	}
	unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&r.buf[0])), uintptr(len(r.buf)))
	unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
}

func (r *rawProbe) kill() { unix.RawSyscall(unix.SYS_KILL, uintptr(r.pid), 0, 0) }

// BenchmarkProbe compares each path of a probe with the least system calls
// that can answer the same: see the metric "ratio". The kill floor is what a
// bare existence check costs, which answers less.
func BenchmarkProbe(b *testing.B) {
	c, err := Identify(os.Getppid())
	if err != nil {
		b.Fatal(err)
	}
	raw := newRawProbe(b, c.PID)
	b.Run("confirmed", func(b *testing.B) { benchPair(b, func() { Probe(c) }, raw.pidfd) })
	b.Run("confirmed/kill-floor", func(b *testing.B) { benchPair(b, func() { Probe(c) }, raw.kill) })
	ticks := ticksOnly(c)
	both := func() { raw.exists(); raw.file() }
	b.Run("ticks", func(b *testing.B) { benchPair(b, func() { Probe(ticks) }, both) })
	b.Run("ticks/file-floor", func(b *testing.B) { benchPair(b, func() { Probe(ticks) }, raw.file) })
	p, err := Open(c)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	b.Run("held", func(b *testing.B) { benchPair(b, func() { p.Probe() }, func() { raw.held(p.pin.fd) }) })
	gone := c
	gone.PID = 1<<31 - 1
	none := newRawProbe(b, gone.PID)
	b.Run("absent", func(b *testing.B) { benchPair(b, func() { Probe(gone) }, none.pidfd) })
	b.Run("absent/kill-floor", func(b *testing.B) { benchPair(b, func() { Probe(gone) }, none.kill) })
}
