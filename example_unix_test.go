//go:build unix

package jobprobe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/jobprobe/jobprobe"
)

// An identity is kept as JSON beside the pid, and read back by whoever asks.
func ExampleIdentify() {
	id, err := jobprobe.Identify(os.Getpid())
	if err != nil {
		panic(err)
	}
	kept, err := json.Marshal(id)
	if err != nil {
		panic(err)
	}
	read, err := jobprobe.ParseIdentity(kept)
	if err != nil {
		panic(err)
	}
	fmt.Println(read == id, read.PID == int64(os.Getpid()))
	fmt.Println(jobprobe.Probe(read).Finding)
	// Output:
	// true true
	// identity_confirmed
}

// A child is recorded, killed, and found gone before anybody has waited for it.
func ExampleProbe() {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	id, err := jobprobe.Identify(cmd.Process.Pid)
	if err != nil {
		panic(err)
	}
	fmt.Println(jobprobe.Probe(id).Conclusion)

	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	fmt.Println(jobprobe.Probe(id).Conclusion)
	// Output:
	// alive
	// process_gone
}

// Any process can be waited for, and is signalled without a risk to another
// that has its number by then.
func ExampleOpen() {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	id, err := jobprobe.Identify(cmd.Process.Pid)
	if err != nil {
		panic(err)
	}
	p, err := jobprobe.Open(id)
	if err != nil {
		panic(err)
	}
	defer p.Close()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		panic(err)
	}
	if _, err := p.Wait(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println(p.Probe().Conclusion)
	// Output: process_gone
}
