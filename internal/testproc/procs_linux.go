package testproc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// stormParent holds the process that an exec storm belongs to.
const stormParent = "JOBPROBE_TESTPROC_STORM"

// deadLeader ends its first thread and lives on in the others: the kernel
// shows state Z and more than one thread. It exits with code 7.
func deadLeader(s *Stage) {
	leader := unix.Getpid()
	go func() {
		for stateOf(leader) != 'Z' {
			runtime.Gosched()
		}
		s.Say("ready")
		io.Copy(io.Discard, os.Stdin)
		os.Exit(7)
	}()
	EndThread()
}

// EndThread ends the calling thread alone (_exit(2), C library notes). It
// tells the Go scheduler of a system call, so that the others can go on.
func EndThread() { unix.Syscall(unix.SYS_EXIT, 0, 0, 0) }

// stateOf returns the state letter of a process whose command name is plain.
func stateOf(pid int) byte {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	for i := len(line) - 1; i >= 0; i-- {
		if line[i] == ')' && i+2 < len(line) {
			return line[i+2]
		}
	}
	return 0
}

// storm plays the stage exec-storm: each generation is started by execve from
// a thread other than the first, in which the kernel lets that thread take
// the first one's place. It is called from init, to make generations short.
// A storm ends with its parent.
func storm() {
	if os.Getenv(stageEnv) != "exec-storm" {
		return
	}
	parent := strconv.Itoa(os.Getppid())
	switch os.Getenv(stormParent) {
	case "":
		os.Setenv(stormParent, parent)
		os.Stdout.WriteString("ready\n")
	case parent:
		os.Stdout.WriteString("again\n")
	default:
		os.Exit(0)
	}
	go func() {
		runtime.LockOSThread()
		// Of a process whose first thread has ended, /proc/self shows no program.
		err := syscall.Exec("/proc/thread-self/exe", os.Args, os.Environ())
		os.Stderr.WriteString("exec-storm: " + err.Error() + "\n")
		os.Exit(1)
	}()
	if len(os.Args) > 1 && os.Args[1] == "dead" {
		EndThread()
	}
	select {}
}

// Zombie asks the child to exit and returns when it has, uncollected.
func (c *Child) Zombie(t T) {
	t.Helper()
	c.End()
	c.Exited(t)
}

// Exited returns when the child has exited, and leaves it uncollected
// (waitid(2), WNOWAIT).
func (c *Child) Exited(t T) {
	t.Helper()
	for {
		err := unix.Waitid(unix.P_PID, c.PID, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			return
		}
		if err != unix.EINTR {
			t.Fatalf("waitid %d: %v", c.PID, err)
		}
	}
}

// Exits says whether the child has exited by now.
func (c *Child) Exits() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, c.PID, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err != nil || info.Signo != 0
}

// ThreadID returns the id of a thread of this process that is not the first.
func ThreadID(t T) int {
	t.Helper()
	tid := make(chan int)
	quit := make(chan struct{})
	t.Cleanup(func() { close(quit) })
	for range 2 { // one of two locked threads is not the first
		go func() {
			runtime.LockOSThread()
			tid <- unix.Gettid()
			<-quit
		}()
	}
	a, b := <-tid, <-tid
	if a == unix.Getpid() {
		return b
	}
	return a
}

// Member starts a process in a session that another one leads, and returns its
// number. A test's own session may be led from outside its number space, and
// then has no number here (pid_namespaces(7)).
func Member(t T) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("a session: %v", err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatalf("a member of a session: %v", err)
	}
	return pid
}
