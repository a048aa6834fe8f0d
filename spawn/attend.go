package spawn

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// DefaultGrace is how long a job that is to stop is given between SIGTERM and
// SIGKILL.
const DefaultGrace = 250 * time.Millisecond

// cause is why a supervisor stopped its job; the zero value is that it did
// not, and the job ended by itself or by somebody else's signal.
type cause uint8

const (
	unstopped   cause = iota
	timedOut          // its time was up
	interrupted       // the supervisor was told to end
)

// attend waits for the command, stops it when its time is up or the
// supervisor is told to end, and collects it. It says so before it stops it.
func attend(h *held, id jobprobe.Identity, t *task, told <-chan os.Signal, say func(cause)) cause {
	exited := uncollected(h.cmd, id)
	var up <-chan time.Time
	if t.Timeout > 0 {
		up = time.After(time.Duration(t.Timeout))
	}
	why := unstopped
	select {
	case <-exited:
	case <-up:
		why = timedOut
	case <-told:
		why = interrupted
	}
	if why != unstopped {
		say(why)
		stopGroup(h, exited, time.Duration(t.Grace))
	}
	if h.cmd.ProcessState == nil {
		h.cmd.Wait() // its error only repeats ProcessState
	}
	return why
}

// uncollected returns a channel that is closed when the command has exited.
// Until cmd.Wait collects it, its number and its group stay its own. Where the
// system has no handle to wait for, it is collected at once.
func uncollected(cmd *exec.Cmd, id jobprobe.Identity) <-chan struct{} {
	exited := make(chan struct{})
	p, err := jobprobe.Open(id)
	go func() {
		defer close(exited)
		if err == nil {
			defer p.Close()
			_, err = p.Wait(context.Background())
		}
		// A command that was quick has exited before it could be pinned.
		if err != nil && !errors.Is(err, jobprobe.ErrNoProcess) {
			cmd.Wait()
		}
	}()
	return exited
}

// stopGroup asks the job to end, and ends it when the grace is over. What is
// left of the group when the command has gone is ended too.
func stopGroup(h *held, exited <-chan struct{}, grace time.Duration) {
	h.signal(syscall.SIGTERM)
	over := time.NewTimer(grace)
	defer over.Stop()
	select {
	case <-exited:
		if h.cmd.ProcessState != nil {
			return // collected: the group's number may be another's
		}
	case <-over.C:
	}
	h.signal(syscall.SIGKILL)
	<-exited
}

// stopSignals tells when this supervisor is to end. A hang-up is taken and
// dropped: a handler, unlike an ignored signal, is not inherited by the
// command. So is SIGPIPE: the caller may be gone when it is reported to, and a
// write to standard output would end this process (package os/signal).
func stopSignals() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, os.Interrupt)
	return told
}

// endOf tells how the command ended, in the words of the record. What its
// supervisor did outranks the exit status, which is kept beside it.
func endOf(state *os.ProcessState, why cause) sidecar.SupervisorEnd {
	end := sidecar.SupervisorEnd{Status: "failed", At: time.Now()}
	if end.Signal, end.Core = signalName(state); end.Signal != "" {
		end.ReasonCode = "run.failed.signal"
	} else {
		code := state.ExitCode()
		end.ExitCode = &code
		end.ReasonCode = "run.failed.exit_nonzero"
		if code == 0 {
			end.Status, end.ReasonCode = "completed", ""
		}
	}
	switch why {
	case unstopped:
	case timedOut:
		end.Status, end.ReasonCode = "timed_out", "run.timed_out.deadline"
	case interrupted:
		end.Status, end.ReasonCode = "cancelled", "run.cancelled.sigterm"
	}
	return end
}
