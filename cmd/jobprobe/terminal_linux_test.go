package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/creack/pty"
	"github.com/gofrs/flock"

	"github.com/jobprobe/jobprobe/sidecar"
)

// seat is a program at a terminal of its own, and what that was sent.
type seat struct {
	*exec.Cmd
	mu   sync.Mutex
	text bytes.Buffer
	read chan struct{} // closed when the terminal is
}

// sit starts the program, as text, at a terminal this wide.
func sit(t *testing.T, dir string, columns int, env []string, args ...string) *seat {
	t.Helper()
	s := &seat{Cmd: inText(t, dir, args...), read: make(chan struct{})}
	s.Stderr = nil
	s.Env = append(append(s.Environ(), "TERM=xterm", "NO_COLOR="), env...)
	tty, err := pty.StartWithSize(s.Cmd, &pty.Winsize{Rows: 12, Cols: uint16(columns)})
	if err != nil {
		t.Fatal(err)
	}
	go s.listen(tty)
	return s
}

// listen keeps what is sent to the terminal until that is closed.
func (s *seat) listen(tty *os.File) {
	defer close(s.read)
	defer tty.Close()
	piece := make([]byte, 4096)
	for {
		n, err := tty.Read(piece)
		s.mu.Lock()
		s.text.Write(piece[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *seat) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// until waits for something on the terminal.
func (s *seat) until(t *testing.T, want string) {
	t.Helper()
	re := regexp.MustCompile(want)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !re.MatchString(s.seen()) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s: %q", want, s.seen())
		}
	}
}

// leaves returns the exit status and all that the terminal was sent.
func (s *seat) leaves(t *testing.T) (int, string) {
	t.Helper()
	_ = s.Wait()
	<-s.read
	return s.ProcessState.ExitCode(), s.seen()
}

// shop is a store of jobs: lost, whose process is gone, and done.
func shop(t *testing.T) sidecar.Store {
	t.Helper()
	store := sidecar.Store{Dir: t.TempDir()}
	for id, text := range map[string]string{
		"20260101T000000-aaaaaa": `"label": "` + strings.Repeat("日本語", 20) + `", "pid": 2147483000, "status": "running", "spawn_state": "started", "submitted_at": "2026-01-01T00:00:00+00:00", "finished_at": null`,
		"20260102T000000-bbbbbb": `"label": "short", "pid": null, "status": "completed", "spawn_state": "started", "submitted_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T00:00:00+00:00"`,
	} {
		rec, err := sidecar.Parse([]byte(`{"run_id": "` + id + `", ` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Create(id, rec); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

var escape = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// On a terminal a listing fits, and has colours unless it is asked not to.
func TestListAtATerminal(t *testing.T) {
	dir := shop(t).Dir
	for _, columns := range []int{30, 40, 80, 300} {
		for _, env := range []string{"A=", "NO_COLOR=1", "TERM=dumb"} {
			code, text := sit(t, dir, columns, []string{env}, "list").leaves(t)
			if coloured := strings.Contains(text, "\x1b"); code != 0 || coloured != (env == "A=") {
				t.Errorf("%s at %d columns: exit status %d, colours %v", env, columns, code, coloured)
			}
			lines := strings.Split(strings.TrimSpace(escape.ReplaceAllString(text, "")), "\r\n")
			if warning := "1 of them ended with nobody to say how"; !strings.HasPrefix(lines[len(lines)-1], warning) {
				t.Errorf("%s at %d columns: the last line is %q", env, columns, lines[len(lines)-1])
			}
			lines = lines[:len(lines)-1]
			for _, line := range lines {
				if width := displaywidth.String(line); width > columns {
					t.Errorf("%s at %d columns: %d: %q", env, columns, width, line)
				}
			}
			if len(lines) != 3 || !strings.Contains(text, "20260101T000000-aaaaaa") || (columns < 300) != strings.Contains(text, "…") {
				t.Errorf("%s at %d columns: %q", env, columns, text)
			}
		}
	}
	// Without a terminal nothing is cut.
	if out, err := inText(t, dir, "list").Output(); err != nil || !bytes.Contains(out, []byte(strings.Repeat("日本語", 20))) || bytes.ContainsAny(out, "\x1b…") {
		t.Errorf("%v: %q", err, out)
	}
}

// A wait shows how far it is, takes that away again, and says at a signal where it
// was.
func TestWaitProgress(t *testing.T) {
	a := attend(t, "echo ready; exec sleep 600")
	done := program(t, a.store.Dir, "run", "--wait", "--", "true")
	if err := done.Run(); err != nil {
		t.Fatal(err)
	}
	ids, err := a.store.IDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		s := sit(t, a.store.Dir, 120, nil, append([]string{"wait"}, ids...)...)
		s.until(t, `wait: 1 of 2 ended, still running: `+a.id+`, [0-9]+s left`)
		if err := s.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		code, text := s.leaves(t)
		want := regexp.MustCompile(`\r\x1b\[K[^\r]*` + "(?s).*" + `interrupted after [0-9]+s: 1 of 2 ended, still running: ` + a.id)
		if code != exitLeft || !want.MatchString(text) {
			t.Errorf("%v: exit status %d, %q", sig, code, text)
		}
		after := text[strings.LastIndex(text, eraseLine)+len(eraseLine):]
		if strings.Contains(after, "wait: ") {
			t.Errorf("%v: progress is left on the terminal: %q", sig, after)
		}
	}
}

// A watch at a terminal draws each change, and gives the terminal back.
func TestListWatchAtATerminal(t *testing.T) {
	a := attend(t, "echo ready; exec sleep 600")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		s := sit(t, a.store.Dir, 100, nil, "list", "--watch", "--every", "10m")
		s.until(t, `1 without an end(?s:.*)`+a.id)
		begun := program(t, a.store.Dir, "run", "--label", "next-"+sig.String(), "--wait", "--", "true")
		if err := begun.Run(); err != nil {
			t.Fatal(err)
		}
		s.until(t, `completed\S* +\S*succeeded\S*[^\n]*next-`+sig.String())
		if err := s.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		code, text := s.leaves(t)
		drawn, said, found := strings.Cut(text, firstPage)
		if code != exitLeft || !found || !strings.HasPrefix(drawn, otherPage) ||
			!regexp.MustCompile(`^jobprobe: interrupted after [0-9]+s: [0-9]+ of [0-9]+ jobs had ended`).MatchString(said) {
			t.Errorf("%v: exit status %d, %q", sig, code, said)
		}
	}
}

// A watch without a terminal adds a line, or a document, for each change: also for
// a process that dies, which no file tells of.
func TestListWatchAppends(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		dir := t.TempDir()
		h := live(t, dir)
		start := inText
		if asJSON {
			start = program
		}
		s, stop := hear(t, start(t, dir, "list", "--watch", "--every", "10m"))
		nextLine(t, s, h.RunID+`.*running`)
		h.kill(t)
		nextLine(t, s, h.RunID+`.*indeterminate`)
		if code, trouble := stop(); code != exitLeft || !strings.Contains(trouble, "1 of 1 jobs had ended") {
			t.Errorf("exit status %d, %q", code, trouble)
		}
	}
}

// output --follow and sweep --every say where they were.
func TestFollowAndSweepInterrupted(t *testing.T) {
	a := attend(t, "echo ready; exec sleep 600")
	for _, test := range []struct {
		args  []string
		ready string
		code  int
		want  string
	}{
		{[]string{"output", "--follow", a.id}, "^ready", exitLeft, `^jobprobe: interrupted after [0-9]+s: ` + a.id + ` goes on`},
		{[]string{"sweep", "--every", "10m"}, "^1 observed", exitOK, `^stopped after 1 passes`},
	} {
		s, stop := hear(t, inText(t, a.store.Dir, test.args...))
		nextLine(t, s, test.ready)
		if code, trouble := stop(); code != test.code || !regexp.MustCompile(test.want).MatchString(trouble) {
			t.Errorf("%v: exit status %d, %q", test.args, code, trouble)
		}
	}
}

// So does drain, and what it has closed stays so; another one completes it.
func TestDrainInterrupted(t *testing.T) {
	a := attend(t, `trap "" TERM; echo ready; while :; do sleep 600; done`)
	cmd := inText(t, a.store.Dir, "drain", "--timeout", "45s")
	cmd.Env = append(cmd.Environ(), "JOBPROBE_PROCESS_GRACE_TIMEOUT_MS=10000", "JOBPROBE_SHUTDOWN_DRAIN_TIMEOUT_MS=45000")
	s, stop := hear(t, cmd)
	for !a.store.Read(a.id).Record.Ended() { // it is signalled, and has its grace
		time.Sleep(time.Millisecond)
	}
	code, trouble := stop()
	want := regexp.MustCompile(`^jobprobe: interrupted after [0-9]+s: [01] of 1 jobs seen to; the store admits no jobs`)
	if code != exitLeft || !want.MatchString(trouble) {
		t.Errorf("exit status %d, %q", code, trouble)
	}
	nextLine(t, s, `^outcome: +deadline_exceeded$`)
	nextLine(t, s, a.id+` +remaining +timed_out$`)
	if out, err := inText(t, a.store.Dir, "drain").Output(); err != nil || !strings.Contains(string(out), "clean") {
		t.Errorf("another drain: %v\n%s", err, out)
	}
}

// hear starts a program and returns its lines as they come, and what ends it: a
// SIGTERM, after which its exit status and complaints are told.
func hear(t *testing.T, cmd *exec.Cmd) (lines <-chan string, stop func() (code int, trouble string)) {
	t.Helper()
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	list := make(chan string, 100)
	go func() {
		defer close(list)
		for s := bufio.NewScanner(out); s.Scan(); {
			list <- s.Text()
		}
	}()
	return list, func() (int, string) {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode(), complaints.String()
	}
}

// nextLine waits for a line.
func nextLine(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	re := regexp.MustCompile(want)
	late := time.After(time.Minute)
	for {
		select {
		case line, more := <-lines:
			if !more {
				t.Fatalf("ended without %s", want)
			}
			if re.MatchString(line) {
				return
			}
		case <-late:
			t.Fatalf("waited in vain for %s", want)
		}
	}
}

// A sweep that is held up shows how far it is, and says so when it is interrupted.
func TestSweepProgress(t *testing.T) {
	store := shop(t)
	lock := flock.New(filepath.Join(store.Dir, second, "job.lock"))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	s := sit(t, store.Dir, 80, nil, "sweep")
	s.until(t, `sweep: 1 of 2 looked at`)
	if err := s.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	code, text := s.leaves(t)
	after := text[strings.LastIndex(text, eraseLine)+len(eraseLine):]
	if code != exitLeft || !regexp.MustCompile(`^jobprobe: interrupted after [0-9]+s: [12] of 2 looked at`).MatchString(after) {
		t.Errorf("exit status %d, %q", code, text)
	}
}
