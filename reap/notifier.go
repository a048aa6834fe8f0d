package reap

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe/sidecar"
)

const (
	// maxHeard is how much of each stream of a notifier is kept, in bytes, to
	// look for the phrases of failureClasses. The rest is read and dropped, so
	// that the notifier is never kept waiting.
	maxHeard = 64 << 10
	// lastWords is how long a stream is read after the notifier has exited, if
	// a process that it left behind keeps it open.
	lastWords = 100 * time.Millisecond
	// collectTime is how long a killed notifier is waited for. SIGKILL does
	// not end a process in an uninterruptible sleep (signal(7), D in proc(5)).
	collectTime = 500 * time.Millisecond
)

// message is what a notifier is told, in its words and on its standard input.
// Nothing of the job's command line, environment or output is in it.
type message struct {
	RunID  string  `json:"run_id"`
	Status string  `json:"status"`
	Label  string  `json:"label"`
	Target *string `json:"target"`
	Sender *string `json:"sender"`
	// ReasonCode is left out if there is none.
	ReasonCode string `json:"reason_code,omitzero"`
}

// about is the message of an end on record: what happened is the record's
// word, never that of the report that came to be delivered.
func (p *plan) about(id string, rec *sidecar.Record) message {
	return message{
		RunID:      id,
		Status:     firstText(textOf(rec, "status"), statusUnknown),
		Label:      p.label,
		Target:     orNull(p.target),
		Sender:     orNull(p.sender),
		ReasonCode: textOf(rec, "reason_code"),
	}
}

// attempt runs the notifier once and returns the notify_delivery that says
// how it went. It ends when the notifier does, even if a child of the notifier
// lives on with its pipes, and at the latest collectTime after the plan's
// timeout or the end of ctx.
//
// How it went is not known if another part of this program collected the
// notifier's exit status (wait(2) for any child, or SIGCHLD ignored).
func (p *plan) attempt(ctx context.Context, m message) (result sidecar.Value, known bool) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	said, trouble := &head{}, &head{}
	cmd := p.notifier(&m)
	cmd.Stdout, cmd.Stderr = said, trouble
	g, err := startNotifier(cmd)
	if err != nil {
		return p.result(false, sidecar.Null(), startError(err), "unknown"), true
	}
	defer g.release()
	if !g.watch(ctx) {
		collectNotifier(cmd)
		return p.result(false, sidecar.Null(), "TimeoutExpired", "timeout",
			sidecar.Field{Name: "delivery_verified", Value: sidecar.Bool(false)},
			sidecar.Field{Name: "unverified_reason", Value: sidecar.Text("delivery_timed_out")}), true
	}
	_ = cmd.Wait() // it has exited: what else is wrong with the pipes is of no interest
	state := cmd.ProcessState
	switch {
	case state == nil:
		return nil, false
	case !state.Success():
		return p.result(false, sidecar.Int(exitNumber(state)), "", failureClass(trouble.kept, said.kept)), true
	case unverified(p.argv):
		return p.result(true, sidecar.Int(0), "", "", sidecar.Field{Name: "delivery_verified", Value: sidecar.Bool(false)}), true
	}
	return p.result(true, sidecar.Int(0), "", ""), true
}

// notifier is the command with everything put in. A problem with it, such as
// a program that is not found, is what starting it returns.
func (p *plan) notifier(m *message) *exec.Cmd {
	told, err := json.Marshal(m, jsontext.AllowInvalidUTF8(true))
	put := strings.NewReplacer(
		"{run_id}", m.RunID, "{status}", m.Status, "{label}", m.Label,
		"{target}", p.target, "{sender}", p.sender, "{reason_code}", m.ReasonCode,
	)
	cmd := &exec.Cmd{Dir: p.dir, Env: p.environ(), Err: err, WaitDelay: lastWords, SysProcAttr: apart()}
	for _, word := range p.argv {
		cmd.Args = append(cmd.Args, put.Replace(word))
	}
	cmd.Stdin = strings.NewReader(string(told))
	// A name without a separator is looked up in PATH; any other is relative
	// to the working directory, as it would be in a shell there.
	if cmd.Path = cmd.Args[0]; filepath.Base(cmd.Path) == cmd.Path && cmd.Err == nil {
		cmd.Path, cmd.Err = exec.LookPath(cmd.Path)
	}
	return cmd
}

// environ is the caller's environment with this notice's sender, or none.
func (p *plan) environ() []string {
	const ours, peers = "JOBPROBE_NOTIFY_SENDER", "LIONAGI_NOTIFY_SENDER"
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.EqualFold(name, ours) || strings.EqualFold(name, peers)
	})
	if p.sender == "" {
		return env
	}
	return append(env, ours+"="+p.sender, peers+"="+p.sender)
}

// result is the notify_delivery of an attempt; the command is named as the
// template has it. An empty text is recorded as null.
func (p *plan) result(ok bool, exit sidecar.Value, trouble, class string, more ...sidecar.Field) sidecar.Value {
	text := func(s string) sidecar.Value {
		if s == "" {
			return sidecar.Null()
		}
		return sidecar.Text(s)
	}
	return sidecar.Object(append([]sidecar.Field{
		{Name: "attempted", Value: sidecar.Bool(true)},
		{Name: "ok", Value: sidecar.Bool(ok)},
		{Name: "exit_code", Value: exit},
		{Name: "error", Value: text(trouble)},
		{Name: "failure_class", Value: text(class)},
		{Name: "command", Value: p.program()},
	}, more...)...)
}

// startError names, in the peer's words, why a notifier did not start: the
// names are those of the exceptions that Python raises for the same errno.
func startError(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return "FileNotFoundError"
	case errors.Is(err, fs.ErrPermission):
		return "PermissionError"
	}
	return "OSError"
}

// closes waits for a channel to be closed, and says whether it is when ctx ends.
func closes(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// collectNotifier waits for a killed notifier. One that cannot die, because it hangs
// in the kernel, is left behind with the goroutine that waits for it.
func collectNotifier(cmd *exec.Cmd) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	select {
	case <-done:
	case <-time.After(collectTime):
	}
}

// unverified says whether success of this command does not mean delivery: the
// peer's messenger reports what it could not deliver only if it is strict.
func unverified(argv []string) bool {
	return filepath.Base(argv[0]) == "kkernel" && slices.Contains(argv, "exec") && !slices.Contains(argv, "--strict")
}

// head keeps the first bytes that are written to it and drops the rest.
type head struct{ kept []byte }

func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), maxHeard-len(h.kept))]...)
	return len(p), nil
}

// failureClasses sort a failure by what the notifier printed. The first class
// with a phrase that occurs is the answer.
var failureClasses = []struct {
	class   string
	phrases []string
}{
	{"command_not_found", []string{"command not found", "no such file or directory", "not found"}},
	{"permission_denied", []string{"permission denied", "operation not permitted", "eacces"}},
	{"connection_failed", []string{"connection refused", "no route to host", "unreachable", "network is", "dns"}},
	{"authentication_failed", []string{"unauthorized", "authentication failed", "invalid token", "401"}},
	{"refused_by_policy", []string{"refused by", "blocked by", "denied by policy", "forbidden", "403"}},
	{"target_unknown", []string{"unknown recipient", "no such actor", "unknown actor", "no such user"}},
	{"invalid_usage", []string{"usage:", "unrecognized argument", "invalid argument", "unknown option"}},
	{"sender_identity_mismatch", []string{"expect-actor mismatch"}},
}

func failureClass(stderr, stdout []byte) string {
	text := strings.ToLower(string(stderr) + "\n" + string(stdout))
	for _, f := range failureClasses {
		if slices.ContainsFunc(f.phrases, func(phrase string) bool { return strings.Contains(text, phrase) }) {
			return f.class
		}
	}
	return "unknown"
}
