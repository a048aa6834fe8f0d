package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// TestMain puts the jobprobe of this tree into PATH.
func TestMain(m *testing.M) {
	os.Exit(withBinary(m))
}

func withBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "jobprobe-docs-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // for users with less rights
		panic(err)
	}
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "jobprobe"), "../cmd/jobprobe").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
		return 1
	}
	return m.Run()
}

// lookAtSources makes the result of a test stale when the command line changes:
// go test tells that by the files which the test itself has looked at.
func lookAtSources(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob("../cmd/jobprobe/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
}

// home is a fresh home directory of a reader, with a store of jobs in it, whose
// jobs end with the test.
type home string

func newHome(t *testing.T) home {
	t.Helper()
	lookAtSources(t)
	h := home(t.TempDir())
	t.Cleanup(h.endJobs)
	return h
}

func (h home) jobs() string { return filepath.Join(string(h), "jobs") }

// command is a command of the reader, who has nothing of this machine's
// configuration, and patience for a minute.
func (h home) command(args ...string) *exec.Cmd {
	cmd := exec.Command("timeout", append([]string{"60"}, args...)...)
	cmd.Dir = string(h)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "JOBPROBE_") && !strings.HasPrefix(entry, "XDG_") && !strings.HasPrefix(entry, "LIONAGI_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+string(h), "JOBPROBE_DIR="+h.jobs(), "LC_ALL=C", "NO_COLOR=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// endJobs ends what the records of the stores still name, and returns when
// nobody writes any more.
func (h home) endJobs() {
	stores, _ := filepath.Glob(filepath.Join(string(h), "*jobs")) // the pattern is well formed
	for _, dir := range stores {
		store := sidecar.Store{Dir: dir}
		ids, _ := store.IDs() // one that cannot be read has no jobs to end
		for _, id := range ids {
			endJob(store.Read(id).Record)
		}
	}
}

func endJob(rec *sidecar.Record) {
	if rec == nil {
		return
	}
	for _, name := range []string{"process_identity", "supervisor"} {
		raw, _ := rec.Raw(name)
		if id, err := jobprobe.ParseIdentity(raw); err == nil {
			end(id)
		}
	}
}

func end(id jobprobe.Identity) {
	p, err := jobprobe.Open(id)
	if err != nil {
		return
	}
	defer p.Close()
	_ = p.Signal(syscall.SIGKILL)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, _ = p.Wait(ctx)
}
