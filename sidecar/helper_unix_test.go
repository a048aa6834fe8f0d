//go:build unix

package sidecar_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// helpers are what the test binary does instead of testing when helperEnv
// names one of them.
var helpers = map[string]func(args []string) error{}

// register adds a helper; each file of tests has its own.
func register(name string, run func(args []string) error) bool {
	helpers[name] = run
	return true
}

const helperEnv = "SIDECAR_TEST_HELPER"

func TestMain(m *testing.M) {
	name := os.Getenv(helperEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	run, ok := helpers[name]
	if !ok {
		os.Stderr.WriteString("no such helper: " + name + "\n")
		os.Exit(2)
	}
	if err := run(os.Args[1:]); err != nil {
		os.Stderr.WriteString(name + ": " + err.Error() + "\n")
		os.Exit(1)
	}
}

// helper returns a command that runs the test binary as the named helper.
func helper(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	if _, ok := helpers[name]; !ok {
		t.Fatalf("no such helper: %s", name)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

// start starts a helper and returns when it has written its first line. The
// helper ends when its standard input does, at the latest with the test, or as
// the test kills it.
func start(t testing.TB, cmd *exec.Cmd) (stop func()) {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		stdin.Close()
		err := cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); err != nil && status.Signal() != syscall.SIGKILL {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("helper said %q: %v", line, err)
	}
	return stop
}

// ready tells start to go on, and returns when the test asks to stop.
func ready() error {
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// allocated returns how many bytes of memory a call asks for.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// replacesOpen does nothing: rename(2) minds no reader.
func replacesOpen(*testing.T) {}

// stressed skips a test that takes long.
func stressed(t *testing.T) {
	t.Helper()
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
}
