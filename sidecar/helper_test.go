package sidecar_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jobprobe/jobprobe/sidecar"
)

const runID = "20260801T000000-abcdef"

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
// helper ends when its standard input does, at the latest with the test.
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
		if err := cmd.Wait(); err != nil {
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

// record returns a started, unended record, in the peer's order.
func record(id string, more ...sidecar.Field) *sidecar.Record {
	r := sidecar.NewRecord(
		sidecar.Field{Name: "run_id", Value: sidecar.Text(id)},
		sidecar.Field{Name: "pid", Value: sidecar.Int(2147483000)},
		sidecar.Field{Name: "pid_create_time", Value: sidecar.Float(1700000000.25)},
		sidecar.Field{Name: "status", Value: sidecar.Text("running")},
		sidecar.Field{Name: "spawn_state", Value: sidecar.Text("started")},
		sidecar.Field{Name: "finished_at", Value: sidecar.Null()},
		sidecar.Field{Name: "log", Value: sidecar.Null()},
	)
	for _, f := range more {
		r.Set(f.Name, f.Value)
	}
	return r
}

// newStore returns a store whose one run has the given record.
func newStore(t testing.TB, rec *sidecar.Record) sidecar.Store {
	t.Helper()
	s := sidecar.Store{Dir: t.TempDir()}
	if err := s.Create(runID, rec); err != nil {
		t.Fatal(err)
	}
	return s
}

// plant makes a job directory by hand, with the given bytes as its record.
func plant(t testing.TB, s sidecar.Store, id, text string) string {
	t.Helper()
	dir := filepath.Join(s.Dir, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "job.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantBytes checks the record's bytes on disk.
func wantBytes(t testing.TB, s sidecar.Store, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(s.Dir, runID, "job.json"))
	if err != nil || string(got) != want {
		t.Errorf("record: %v\n%s\nwant\n%s", err, got, want)
	}
}

// wantFiles checks which files the run's directory holds.
func wantFiles(t testing.TB, s sidecar.Store, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Dir, runID))
	if err != nil {
		t.Error(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

// set returns a change that sets one member.
func set(name string, v sidecar.Value) func(*sidecar.Record) error {
	return func(r *sidecar.Record) error {
		r.Set(name, v)
		return nil
	}
}
