// Spend runs a command without output and prints what it took: nanoseconds by
// the clock, of processor time, the most bytes that were resident, and the
// exit status. It is a small program because Linux counts the memory of
// whoever starts a command as the command's.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func main() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "spend:", err)
		os.Exit(1)
	}
	_ = cmd.Wait() // its exit status is printed
	took, state := time.Since(began), cmd.ProcessState
	memory := state.SysUsage().(*syscall.Rusage).Maxrss << 10
	fmt.Println(took.Nanoseconds(), (state.UserTime() + state.SystemTime()).Nanoseconds(), memory, state.ExitCode())
}
