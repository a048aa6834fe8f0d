package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	Grace         time.Duration `placeholder:"DURATION" help:"Time between SIGTERM and SIGKILL when the job is stopped (default: ${grace})."`
	NoArgv        bool          `help:"Keep the command line out of the record."`
	Wait          bool          `help:"Show the output, wait for the end, and exit as the command does."`
	Command       []word        `arg:"" name:"command" help:"Command and arguments, after --."`
}

func (cmd *runCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
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
	h, err := spawn.Start(ctx, obs.Store, spawn.Request{
		Argv: texts(cmd.Command), Dir: cmd.Cwd, Env: env, Label: cmd.Label, Parent: cmd.Parent,
		Claim: claim, Lifecycle: obs.Lifecycle,
		Stdin: cmd.Stdin, Timeout: cmd.Timeout, Grace: cmd.Grace, HideArgv: cmd.NoArgv,
		NotifyCommand: notify, NotifyTarget: cmd.NotifyTarget, NotifySender: cmd.NotifySender,
	})
	if err != nil {
		return err
	}
	if cmd.Wait {
		return waitFor(ctx, c, obs, h.RunID)
	}
	if c.json {
		return c.document(h)
	}
	_, err = fmt.Fprintln(c.out, h.RunID)
	return err
}

// waitFor shows a job's output and exits as its command does. With --json the
// one document is the job as it ended; the output is in "output".
func waitFor(ctx context.Context, c *console, obs *reap.Observer, id string) error {
	out := c.out
	if c.json {
		out = io.Discard
	}
	ended := follow(ctx, out, obs, id, 0)
	if _, ok := errors.AsType[status](ended); !c.json || ended != nil && !ok {
		return ended
	}
	job, err := obs.Status(ctx, id)
	if err != nil {
		return err
	}
	if err := c.document(job); err != nil {
		return err
	}
	return ended
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
