// Package testproc runs parts of a test in processes of their own: the test
// binary starts itself again and plays a named stage instead of its tests.
//
// A test package calls [Main] from its TestMain with its table of stages. A
// stage prints lines, which the test compares. The stages of this package
// (see [Start]) need not be registered.
package testproc

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// stageEnv names the stage that this process is to play.
const stageEnv = "JOBPROBE_TESTPROC"

// skipCode is the exit code of a stage that could not be set up.
const skipCode = 77

// T is what a recipe needs of a test. Both [*testing.T] and [*Stage] are one,
// so that a recipe works on either side.
type T interface {
	Helper()
	Cleanup(func())
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// A Stage is the other side: a test's own code in a fresh process. It runs on
// the main thread, which stays locked to it, so that it may enter namespaces
// and end threads. It ends with code 0 when its function returns.
type Stage struct {
	Args     []string
	cleanups []func()
}

// stages holds every known stage, and used the names of those started here.
var (
	mu     sync.Mutex
	stages = maps.Clone(builtin)
	used   = map[string]bool{}
)

// The main thread can be had only before main begins; a stage that ends its
// first thread, or enters a time namespace, must run on it.
func init() {
	if os.Getenv(stageEnv) != "" {
		runtime.LockOSThread()
		storm()
	}
}

// Main runs the tests, or the stage that this process was started for. It
// does not return. When all tests ran, a stage that none of them used is a
// failure: it is dead, or its test no longer tests anything. A stage that only
// another one starts is named after that one, with a slash: "outer/inner".
func Main(m *testing.M, table map[string]func(*Stage)) {
	for name, play := range table {
		if stages[name] != nil {
			fmt.Fprintf(os.Stderr, "testproc: two stages are named %q\n", name)
			os.Exit(2)
		}
		stages[name] = play
	}
	if name := os.Getenv(stageEnv); name != "" {
		perform(name)
	}
	code := m.Run()
	if code == 0 && everything() {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			stage, _, _ := strings.Cut(name, "/")
			if !used[name] && !used[stage] {
				fmt.Fprintf(os.Stderr, "testproc: no test uses stage %q\n", name)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// everything says whether all tests were asked for.
func everything() bool {
	for _, name := range []string{"run", "skip", "list", "fuzz", "test.fuzzworker"} {
		f := flag.Lookup("test." + name)
		if f != nil && f.Value.String() != "" {
			return false
		}
	}
	return !testing.Short()
}

func perform(name string) {
	play := stages[name]
	if play == nil {
		fmt.Fprintf(os.Stderr, "testproc: unknown stage %q\n", name)
		os.Exit(2)
	}
	if runtime.GOOS != "windows" {
		go leaveWithParent()
	}
	s := &Stage{Args: os.Args[1:]}
	play(s)
	s.leave(0)
}

// lifeline is a pipe that this process never writes to. Every stage holds the
// other end, and sees it close when this process ends, however it does.
var lifeline = sync.OnceValue(func() (pipe struct{ r, w *os.File }) {
	var err error
	if pipe.r, pipe.w, err = os.Pipe(); err != nil {
		panic(err)
	}
	return pipe
})

// leaveWithParent ends this stage when the process that started it has ended.
func leaveWithParent() {
	const firstExtra = 3 // see exec.Cmd, ExtraFiles
	f := os.NewFile(firstExtra, "lifeline")
	if _, err := f.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		os.Exit(1)
	}
	select {} // a stage may be denied read(2); its descriptors stay as they are
}

func (s *Stage) leave(code int) {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
	os.Exit(code)
}

// Helper, Cleanup, Logf, Fatalf and Skipf are as those of [testing.T]. They
// may be called from the stage's own goroutine only.
func (s *Stage) Helper()                         {}
func (s *Stage) Cleanup(f func())                { s.cleanups = append(s.cleanups, f) }
func (s *Stage) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (s *Stage) Fatalf(format string, args ...any) {
	s.Logf(format, args...)
	s.leave(1)
}
func (s *Stage) Skipf(format string, args ...any) {
	s.Logf(format, args...)
	s.leave(skipCode)
}

// Say prints one line for the test to read.
func (s *Stage) Say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// Command returns the command that plays a stage. attr may be nil.
func Command(t T, attr *syscall.SysProcAttr, name string, args ...string) *exec.Cmd {
	t.Helper()
	if stages[name] == nil {
		t.Fatalf("testproc: unknown stage %q", name)
	}
	mu.Lock()
	used[name] = true
	mu.Unlock()
	cmd := exec.Command(self(), args...)
	// The race detector otherwise sleeps for a second at exit.
	cmd.Env = append(os.Environ(), stageEnv+"="+name, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.SysProcAttr = attr
	if runtime.GOOS != "windows" { // which has no ExtraFiles
		cmd.ExtraFiles = []*os.File{lifeline().r}
	}
	return cmd
}

// self is this binary, by a path that also works for another user.
func self() string {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link
	}
	exe, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return exe
}

// Play runs a stage to its end and returns the lines it said. The test is
// skipped, with the cause, if the stage could not be set up, and fails if the
// stage failed.
func Play(t T, attr *syscall.SysProcAttr, name string, args ...string) []string {
	t.Helper()
	return Run(t, Command(t, attr, name, args...))
}

// Run is Play for a command made by [Command] and then altered.
func Run(t T, cmd *exec.Cmd) []string {
	t.Helper()
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	err := cmd.Run()
	cause := strings.TrimSpace(trouble.String())
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() == skipCode:
		t.Skipf("%s", cause)
	case !errors.As(err, &exit) && isolated(cmd.SysProcAttr):
		t.Skipf("no new namespaces here: %v", err)
	default:
		t.Fatalf("stage: %v\n%s%s", err, out.String(), cause)
	}
	text := strings.TrimSuffix(out.String(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
