package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/spawn"
)

type runCmd struct {
	Label         string        `help:"Free text shown with the job."`
	Cwd           string        `type:"path" placeholder:"DIR" help:"Working directory of the command."`
	Env           []word        `sep:"none" placeholder:"NAME=VALUE" help:"Set a variable for the command; may be repeated."`
	Claim         *word         `placeholder:"KEY" help:"Start only if no live job holds this key (any text up to 512 bytes)."`
	Parent        string        `placeholder:"RUN_ID" help:"Run id of the job that this one belongs to."`
	NotifyCommand string        `placeholder:"JSON" help:"Command to run when the job has ended, as a JSON list of words."`
	NotifyTarget  string        `help:"Who the notice is for."`
	NotifySender  string        `help:"Who the notice is from."`
	Stdin         string        `type:"existingfile" placeholder:"FILE" help:"File that the command reads; by default it reads nothing."`
	Timeout       time.Duration `placeholder:"DURATION" help:"Stop the job after this time; it ends as timed_out."`
	Grace         time.Duration `placeholder:"DURATION" help:"Time between SIGTERM and SIGKILL when the job is stopped (default: ${grace}, or as configured)."`
	LogMax        size          `placeholder:"SIZE" help:"Keep no more of the output than this, its head and its tail; k, M and G are units."`
	NoArgv        bool          `help:"Keep the command line out of the record."`
	Wait          bool          `help:"Show the output, wait for the end, and exit as the command does."`
	Command       []word        `arg:"" name:"command" help:"Command and arguments, after --."`
}

func (*runCmd) Help() string {
	return usage("0; 1 refused or not started; with --wait the command's own, 130 if it was left running.",
		"id=$(jobprobe run -- make -j8)",
		"jobprobe run --wait --timeout 10m -- ./nightly.sh",
		"jobprobe run --claim backup --label 'nightly backup' -- backup /home")
}

func (cmd *runCmd) Run(ctx context.Context, c *console, obs *reap.Observer, cfg *config) error {
	var env []string
	if len(cmd.Env) > 0 {
		env = append(os.Environ(), texts(cmd.Env)...)
	}
	var notify []string
	if cmd.NotifyCommand != "" {
		if err := json.Unmarshal([]byte(cmd.NotifyCommand), &notify); err != nil || len(notify) == 0 {
			return &failure{exitUsage, fmt.Errorf("--notify-command: %q is not a JSON list of words", cmd.NotifyCommand)}
		}
	}
	claim := ""
	if cmd.Claim != nil {
		if claim = string(*cmd.Claim); claim == "" {
			return &failure{exitUsage, spawn.ErrBadClaim}
		}
	}
	// Two interrupts may come while this does something else.
	interrupts := make(chan os.Signal, 2)
	if cmd.Wait {
		signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer signal.Stop(interrupts)
	}
	h, err := spawn.Start(ctx, obs.Store, spawn.Request{
		Argv: texts(cmd.Command), Dir: cmd.Cwd, Env: env, Label: cmd.Label, Parent: cmd.Parent,
		Claim: claim, Lifecycle: obs.Lifecycle,
		Stdin: cmd.Stdin, Timeout: cmd.Timeout, Grace: cmp.Or(cmd.Grace, cfg.grace()),
		LogMax: int64(cmd.LogMax), HideArgv: cmd.NoArgv,
		NotifyCommand: notify, NotifyTarget: cmd.NotifyTarget, NotifySender: cmd.NotifySender,
		Notifier: cfg.Notify.OnTerminal,
	})
	if slices.ContainsFunc(requestErrors, func(wrong error) bool { return errors.Is(err, wrong) }) {
		return &failure{exitUsage, err}
	}
	if err != nil {
		return err
	}
	if cmd.Wait {
		return waitFor(c, obs, cfg, h.RunID, interrupts)
	}
	if c.json {
		return c.document(h)
	}
	_, err = fmt.Fprintln(c.out, h.RunID)
	return err
}

// requestErrors are what a command line can get wrong about a job.
var requestErrors = []error{
	spawn.ErrNoCommand, spawn.ErrBadCommand, spawn.ErrBadEnv, spawn.ErrBadDir, spawn.ErrBadStdin,
	spawn.ErrBadTime, spawn.ErrBadLogMax, spawn.ErrBadClaim, spawn.ErrBadParent,
}

// waitFor shows a job's output and exits as its command does; it says so if that
// was not the command's own doing. With --json the one document is the job as it
// ended; the output is in "output".
func waitFor(c *console, obs *reap.Observer, cfg *config, id string, interrupts <-chan os.Signal) error {
	out := c.out
	if c.json {
		out = io.Discard
	}
	ended := attached(c, newFollower(out, obs, id), cfg, interrupts)
	if _, ok := errors.AsType[status](ended); ended != nil && !ok {
		return ended
	}
	job, err := obs.Status(context.Background(), id)
	if err != nil {
		return err
	}
	if plain(job.ExitCode) == "" {
		fmt.Fprintf(c.err, "jobprobe: %s %s: %s\n", id, job.Status, cmp.Or(reason(job.ReasonCode, job.Refused), deref(job.Outcome)))
	}
	if c.json {
		if err := c.document(job); err != nil {
			return err
		}
	}
	return ended
}

// secondChance is how long a second interrupt, which kills the job, is waited
// for after the first, which only leaves it.
const secondChance = 2 * time.Second

// attached follows a job. An interrupt leaves it, and it goes on; a second one
// kills it, and the job is followed to its end. Any other signal that asks this
// program to end leaves the job at once.
func attached(c *console, f *follower, cfg *config, interrupts <-chan os.Signal) error {
	watching, leave := context.WithCancel(context.Background())
	defer leave()
	ended := make(chan error, 1)
	go func() { ended <- f.follow(watching) }()
	select {
	case err := <-ended:
		return err
	case sig := <-interrupts:
		if sig != os.Interrupt {
			leave()
			return left(f, <-ended)
		}
	}
	fmt.Fprintf(c.err, "jobprobe: left %s, which goes on; interrupt again to kill it\n", f.id)
	select {
	case err := <-ended:
		return err
	case <-time.After(secondChance):
		leave()
		return left(f, <-ended)
	case <-interrupts:
	}
	reply, err := f.obs.Kill(watching, f.id, reap.KillOptions{Grace: cfg.grace(), Verify: cfg.killWindow()})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.err, "jobprobe: %s: %s\n", reply.ReasonCode, printable(reply.Reason))
	if !reply.Killed {
		return status(exitRefused)
	}
	<-ended
	if reply.Escalated {
		return status(128 + int(syscall.SIGKILL))
	}
	return status(128 + int(syscall.SIGTERM))
}

// left is how a follower that was told to leave has ended: by that, or the job
// had ended before.
func left(f *follower, err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	return &failure{exitLeft, &leftError{f.id, f.began}}
}

// leftError says that a job was left running by who followed it.
type leftError struct {
	runID string
	began time.Time
}

func (e *leftError) Error() string {
	return interrupted(e.began, e.runID+" goes on").Error()
}

// word is an argument as it was given, byte for byte: kong passes strings
// through JSON, which replaces what is no UTF-8.
type word string

// Decode takes the next argument.
func (w *word) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("word")
	if err != nil {
		return err
	}
	*w = word(token.String())
	return nil
}

func texts(words []word) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return list
}
