package spawn

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jobprobe/jobprobe/reap"
)

// A job that was started with a LogMax writes to a pipe. A keeper, this same
// program once more, reads it and keeps console.log bounded: a process of its
// own, so that a job whose supervisor is killed goes on and can print.

const keepName = "jobprobe-keep-log"

// sink is where a command's standard output and error go.
type sink struct {
	*os.File
	token []byte   // what asks the keeper to say when it has written all before
	done  *os.File // end of file: it has; nil if there is no keeper
}

// openSink opens a job's console log, or a pipe to the keeper of a bounded
// one.
func openSink(t *task) (*sink, error) {
	log := filepath.Join(t.Dir, t.RunID, reap.ConsoleName)
	console, err := openConsole(log, os.O_WRONLY)
	if err != nil || t.LogMax == 0 {
		return &sink{File: console}, err
	}
	console.Close()
	self, err := program()
	if err != nil {
		return nil, err
	}
	p, err := newPipes()
	if err != nil {
		return nil, err
	}
	defer p.handOver()
	out := &sink{p.to, []byte(rand.Text() + rand.Text()), p.from}
	_, err = StartDetached(exec.Cmd{
		Path:   self,
		Args:   []string{keepName, log, strconv.FormatInt(t.LogMax, 10), string(out.token)},
		Dir:    rootDir(self),
		Stdin:  p.childIn,
		Stdout: p.childOut,
	})
	if err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

// Close gives up the output; what still holds it can go on.
func (s *sink) Close() error {
	if s.done != nil {
		s.done.Close()
	}
	return s.File.Close()
}

// settle returns when all that the command has written is in its log, whoever
// else still writes. Only then may its end be told: who waits for that reads
// the log next.
func (s *sink) settle() {
	if s.done != nil {
		_, _ = s.Write(s.token)
		_, _ = io.Copy(io.Discard, s.done)
	}
	s.Close()
}

// keep is the keeper's life: until the last who could write has ended.
func keep(args []string, in io.Reader, done io.Closer) (code int) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGTERM, os.Interrupt)
	closeInherited()
	if len(args) != 3 {
		return 2
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return 2
	}
	log, err := openLog(args[0], size)
	if err != nil {
		return 1
	}
	log.copy(in, []byte(args[2]), done)
	return 0
}

// copy writes what it reads, but for the token, at which it closes done.
func (l *boundedLog) copy(in io.Reader, token []byte, done io.Closer) {
	buf := make([]byte, 64<<10)
	held := 0 // bytes at its start that may be the token's first
	for {
		n, err := in.Read(buf[held:])
		data := buf[:held+n]
		if before, after, found := bytes.Cut(data, token); found && len(token) > 0 {
			l.write(before)
			done.Close()
			data, token = after, nil
		}
		held = overlap(data, token)
		if err != nil {
			held = 0
		}
		l.write(data[:len(data)-held])
		copy(buf, data[len(data)-held:])
		if err != nil {
			_ = l.note()
			return
		}
	}
}

// overlap is how many of the last bytes of data the token may begin with.
func overlap(data, token []byte) int {
	for n := min(len(data), max(len(token)-1, 0)); n > 0; n-- {
		if bytes.HasSuffix(data, token[:n]) {
			return n
		}
	}
	return 0
}

// MinLog is the least bound of a console log, in bytes.
const MinLog = 4096

// dropMark stands in a bounded log for what was dropped. It has one length
// whatever the number, so that a reader knows where it ends.
const dropMark = "\n[jobprobe: %19d bytes dropped]\n"

var markSize = int64(len(fmt.Sprintf(dropMark, 0)))

// boundedLog is a console log that keeps its first half and the end of what
// comes after. Whoever opens it finds it whole: what is dropped goes by a
// rename.
type boundedLog struct {
	path    string
	max     int64
	file    *os.File
	size    int64
	dropped int64
	unable  int64 // bytes that could not be written
	err     error // and why
}

// openConsole opens a log to be appended to, never through a symbolic link.
func openConsole(path string, access int) (*os.File, error) {
	return os.OpenFile(path, access|os.O_CREATE|os.O_APPEND|noFollow, 0o600)
}

func openLog(path string, most int64) (*boundedLog, error) {
	f, err := openConsole(path, os.O_RDWR)
	return &boundedLog{path: path, max: most, file: f}, err
}

// write appends, and drops what is too much. What cannot be written is counted
// and told of as soon as anything can.
func (l *boundedLog) write(data []byte) {
	err := l.note()
	for len(data) > 0 && err == nil {
		var n int
		if err = l.makeRoom(); err == nil {
			n, err = l.file.Write(data[:min(int64(len(data)), l.max-l.size)])
			l.size += int64(n)
			data = data[n:]
		}
	}
	if err != nil {
		l.unable, l.err = l.unable+int64(len(data)), err
	}
}

// note says in the log what could not be written to it.
func (l *boundedLog) note() error {
	if l.unable == 0 {
		return nil
	}
	err := l.makeRoom()
	if err == nil {
		var n int
		n, err = fmt.Fprintf(l.file, "\n[jobprobe: %d bytes could not be written: %v]\n", l.unable, l.err)
		l.size += int64(n)
	}
	if err == nil {
		l.unable = 0
	}
	return err
}

// makeRoom drops what is between the first half and the last quarter of a full
// log, up to the start of a line.
func (l *boundedLog) makeRoom() error {
	if l.size < l.max {
		return nil
	}
	tail := make([]byte, l.max/4)
	if _, err := l.file.ReadAt(tail, l.size-int64(len(tail))); err != nil {
		return err
	}
	if i := bytes.IndexByte(tail, '\n'); i >= 0 {
		tail = tail[i+1:]
	}
	head := l.max / 2
	kept := int64(len(tail)) + head
	dropped := l.dropped + l.size - kept
	if l.dropped > 0 {
		dropped -= markSize
	}
	rest := io.MultiReader(io.NewSectionReader(l.file, 0, head),
		strings.NewReader(fmt.Sprintf(dropMark, dropped)), bytes.NewReader(tail))
	if err := l.replace(rest); err != nil {
		return err
	}
	l.size, l.dropped = kept+markSize, dropped
	return nil
}

// replace makes a log of what it reads, in place of the one there is. Windows
// renames no file that is open, and none that a reader has open at the moment.
func (l *boundedLog) replace(r io.Reader) error {
	temp := l.path + ".new"
	f, err := openConsole(temp, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(temp)
		return err
	}
	l.file.Close()
	for try := 0; ; try++ {
		err = os.Rename(temp, l.path)
		if err == nil || runtime.GOOS != "windows" || try == 20 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	f, openErr := openConsole(l.path, os.O_RDWR)
	l.file = f
	return errors.Join(err, openErr)
}

// A Gap is what a bounded console log lacks.
type Gap struct {
	// Head is how many bytes precede it; Mark is the size of the line in its
	// place. Both are 0 if nothing is lacking.
	Head, Mark int64
	// Dropped is how many bytes are lacking.
	Dropped int64
}

// FindGap reads what is lacking in a console log of a job whose LogMax is
// known, 0 for none.
func FindGap(log io.ReaderAt, logMax int64) (g Gap) {
	if logMax == 0 {
		return g
	}
	mark := make([]byte, markSize)
	if _, err := log.ReadAt(mark, logMax/2); err != nil && err != io.EOF {
		return g
	}
	var n int64
	if _, err := fmt.Sscanf(string(mark), dropMark, &n); err != nil || n <= 0 || fmt.Sprintf(dropMark, n) != string(mark) {
		return g
	}
	return Gap{logMax / 2, markSize, n}
}
