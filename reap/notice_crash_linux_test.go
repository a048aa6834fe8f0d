package reap

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe/sidecar"
)

// crashPoint is a system call of a stage's main thread: the nth of this name
// since the process began.
type crashPoint struct {
	name string
	n    int
}

// strace runs a stage, see observer, under strace(1) with further options. The stage ended
// by a signal, and nothing else, is reported as killed. It returns when all
// that the stage has started is gone.
func (b *bell) strace(report []string, options ...string) (killed bool) {
	b.t.Helper()
	stage := b.observer(report...)
	cmd := exec.Command("strace", slices.Concat([]string{"-f", "-qq"}, options, stage.Args)...)
	cmd.Env = stage.Env
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return false
	case cmd.ProcessState.ExitCode() == -1: // strace ends as the stage did
		return true
	case bytes.Contains(out, []byte("ptrace")):
		b.t.Skipf("strace may not trace here: %s", out)
	}
	b.t.Fatalf("%v\n%s", err, out)
	return false
}

// crashPoints are the system calls that an observer makes between its first
// look at the job and its end. Those by which a Go program runs itself are
// left out: nothing changes between them and the next.
func crashPoints(t *testing.T, report []string) (points []crashPoint) {
	t.Helper()
	b := newBell(t, rings("exit 0"))
	trace := filepath.Join(t.TempDir(), "trace")
	if b.strace(report, "-o", trace) {
		t.Fatal("the stage was killed by nobody")
	}
	b.want(okNotice, 1)
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	begun, main := false, ""
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		thread, call, _ := strings.Cut(line, " ")
		if main == "" {
			main = thread
		}
		name, _, isCall := strings.Cut(strings.TrimSpace(call), "(")
		if thread != main || !isCall || strings.HasPrefix(name, "<") {
			continue
		}
		count[name]++
		switch name {
		case "futex", "mmap", "munmap", "madvise", "epoll_ctl", "epoll_pwait", "nanosleep", "sched_yield",
			"rt_sigprocmask", "rt_sigaction", "rt_sigreturn", "getpid", "gettid", "tgkill", "sigaltstack":
			continue
		}
		if begun {
			points = append(points, crashPoint{name, count[name]})
		}
		begun = begun || strings.Contains(call, beginMark)
	}
	return points
}

// An observer that dies at any system call, from its first look to the result
// of the notice, leaves a record that tells the truth: no end and no notice,
// or an end whose notice is pending and was not attempted, or was attempted at
// most once, or is told. The next observer ends and tells what was not, and
// nobody tells twice.
func TestPoint12CrashAnywhere(t *testing.T) { crashAnywhere(t) }

// So does a hook.
func TestStressPoint12HookCrashesAnywhere(t *testing.T) {
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
	crashAnywhere(t, "completed")
}

func crashAnywhere(t *testing.T, report ...string) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	points := crashPoints(t, report)
	if len(points) < 30 {
		t.Fatalf("%d system calls are too few for an end and a notice: %v", len(points), points)
	}
	left := map[string]int{}
	for _, p := range points {
		t.Run(fmt.Sprintf("%s-%d", p.name, p.n), func(t *testing.T) {
			b := newBell(t, rings("exit 0"))
			if !b.strace(report, "-o", os.DevNull, "-e", "trace="+p.name, fmt.Sprintf("-einject=%s:signal=KILL:when=%d", p.name, p.n)) {
				left["not killed"]++ // the runtime made fewer such calls this time
			}
			delivery, rung := b.on(runID, "notify_delivery"), b.rung()
			state := fmt.Sprintf("%s, %d told", delivery, rung)
			wantDelivery, wantRung := okNotice, 1
			outcome := map[bool]string{true: sidecar.Succeeded, false: sidecar.Indeterminate}[b.on(runID, "terminal_source") == `"`+sidecar.SourceHook+`"`]
			switch {
			case delivery == "absent" && b.on(runID, "finished_at") == "null":
				state = fmt.Sprintf("no end, %d told", rung)
				if rung != 0 {
					t.Error(state)
				}
			case delivery == pendingNotice && rung == 0:
			case delivery == unknownNotice && rung <= 1:
				wantDelivery, wantRung = unknownNotice, rung
			case delivery == okNotice && rung == 1:
			case strings.Contains(delivery, `"exit_code":-9`) && rung <= 1:
				wantDelivery, wantRung = delivery, rung // the notifier, which strace follows too, was struck
			default:
				t.Error(state)
			}
			left[state]++
			told := sidecar.HistoryOf(b.Store.Read(runID).Record)
			if ended := b.on(runID, "finished_at") != "null"; ended != told.Phase.Ended() || told.Damaged > 0 {
				t.Errorf("ended is %v, and the history says %+v", ended, told)
			}
			for range 2 {
				if job := b.look(); str(job.Outcome) != outcome {
					t.Errorf("outcome %s, want %s", str(job.Outcome), outcome)
				}
				b.want(wantDelivery, wantRung)
			}
			phase := map[string]sidecar.Phase{
				sidecar.Succeeded: sidecar.PhaseCompleted, sidecar.Indeterminate: sidecar.PhaseRecoveryNeeded,
			}[outcome]
			if told := sidecar.HistoryOf(b.Store.Read(runID).Record); told.Phase != phase || len(told.Turns) != 1 {
				t.Errorf("%s, and the history says %+v", outcome, told)
			}
		})
	}
	t.Logf("count: an observer was killed at %d system calls, which left %v", len(points), left)
	for _, state := range []string{
		"no end, 0 told", pendingNotice + ", 0 told", unknownNotice + ", 0 told", unknownNotice + ", 1 told",
	} {
		if left[state] == 0 {
			t.Errorf("no crash left %s", state)
		}
	}
}
