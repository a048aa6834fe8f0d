package spawn

import (
	"os"
	"os/exec"
	"testing"

	"github.com/jobprobe/jobprobe/sidecar"
)

// spawner is the command that runs spawnerMain. It is named by a path that
// works for every user.
func spawner(dir string, argv ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", argv...)
	cmd.Args[0] = "spawner"
	cmd.Env = append(os.Environ(), spawnerEnv+"="+dir)
	cmd.Dir = "/"
	return cmd
}

// start starts a job that must start.
func start(t *testing.T, store sidecar.Store, argv ...string) Handle {
	t.Helper()
	h, err := Start(t.Context(), store, Request{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func shell(script string) []string { return []string{"sh", "-c", script} }

// output runs a job to its successful end and returns what it printed.
func output(t *testing.T, store sidecar.Store, argv ...string) string {
	t.Helper()
	h := start(t, store, argv...)
	if job := finished(t, store, h.RunID); text(job.Outcome) != sidecar.Succeeded {
		t.Fatalf("%s: exit code %s, signal %s\n%s", job.Status, job.ExitCode, job.Signal, console(t, store, h.RunID))
	}
	return console(t, store, h.RunID)
}
