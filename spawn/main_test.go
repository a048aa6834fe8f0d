package spawn

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/jobprobe/jobprobe/sidecar"
)

// spawnerEnv makes this binary a program that starts one job and prints its
// handle: a caller of Start that can be killed, or be another user.
const spawnerEnv = "JOBPROBE_TEST_SPAWNER"

// claimEnv is the claim that it asks for. roleEnv makes this binary a supervisor
// where its name cannot be given, as under a tracer.
const (
	claimEnv = "JOBPROBE_TEST_CLAIM"
	roleEnv  = "JOBPROBE_TEST_ROLE"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Unsetenv(roleEnv)
		os.Args[0] = role
	}
	Init()
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // or each process of a race build ends a second later
	}
	if dir := os.Getenv(spawnerEnv); dir != "" {
		os.Unsetenv(spawnerEnv)
		os.Exit(spawnerMain(dir, os.Args[1:]))
	}
	for name, program := range programs {
		if dir := os.Getenv(name); dir != "" {
			os.Unsetenv(name)
			os.Exit(program(dir))
		}
	}
	os.Exit(m.Run())
}

// programs are what else this binary can be, by the variable that names a store.
var programs = map[string]func(dir string) int{}

// spawnerMain starts a job and stays until its input ends.
func spawnerMain(dir string, argv []string) int {
	h, err := Start(context.Background(), sidecar.Store{Dir: dir}, Request{Argv: argv, Claim: os.Getenv(claimEnv)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(h); err != nil {
		return 2
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
