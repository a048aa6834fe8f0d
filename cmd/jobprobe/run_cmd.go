package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/spawn"
)

type runCmd struct {
	Label         string   `help:"Free text shown with the job."`
	Cwd           string   `type:"path" placeholder:"DIR" help:"Working directory of the command."`
	Env           []string `sep:"none" placeholder:"NAME=VALUE" help:"Set a variable for the command; may be repeated."`
	Parent        string   `placeholder:"RUN_ID" help:"Run id of the job that this one belongs to."`
	NotifyCommand []string `sep:"none" placeholder:"WORD" help:"Command to run when the job has ended; one word each time it is given."`
	NotifyTarget  string   `help:"Who the notice is for."`
	NotifySender  string   `help:"Who the notice is from."`
	Wait          bool     `help:"Show the output, wait for the end, and exit as the command does."`
	Command       []string `arg:"" name:"command" help:"Command and arguments, after --."`
}

func (cmd *runCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	var env []string
	if len(cmd.Env) > 0 {
		env = append(os.Environ(), cmd.Env...)
	}
	h, err := spawn.Start(ctx, obs.Store, spawn.Request{
		Argv: cmd.Command, Dir: cmd.Cwd, Env: env, Label: cmd.Label, Parent: cmd.Parent,
		NotifyCommand: cmd.NotifyCommand, NotifyTarget: cmd.NotifyTarget, NotifySender: cmd.NotifySender,
	})
	if err != nil {
		return err
	}
	if cmd.Wait {
		return follow(ctx, c, obs, h.RunID, 0)
	}
	if c.json {
		return c.document(h)
	}
	_, err = fmt.Fprintln(c.out, h.RunID)
	return err
}
