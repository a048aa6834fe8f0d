package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

type outputCmd struct {
	RunID  string `arg:"" name:"run-id" help:"Run id."`
	Follow bool   `short:"f" help:"Go on until the job has ended."`
	Tail   int    `short:"n" placeholder:"LINES" help:"Show only the last lines; 0 shows all."`
}

func (*outputCmd) Help() string {
	return usage("0; 1 no such or unusable record; 130 interrupted.",
		"jobprobe output --tail 20 $id",
		"jobprobe output --follow $id")
}

func (cmd *outputCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	if cmd.Tail < 0 {
		return &failure{exitUsage, fmt.Errorf("--tail must be 0 (all) or more, not %d", cmd.Tail)}
	}
	if cmd.Follow && c.json {
		return &failure{exitUsage, errors.New("--follow goes on and --json is one document: give one of them")}
	}
	out, unusable, err := obs.Output(ctx, cmd.RunID, 0)
	if err != nil {
		return err
	}
	switch {
	case unusable != nil:
		fmt.Fprintf(c.err, "jobprobe: %s: %s\n", cmd.RunID, unusable.Error)
		c.advise(next(unusable.RecordState, aRefusal))
		if c.json {
			c.document(unusable)
		}
		return status(exitRefused)
	case c.json:
		if out.Console != nil {
			text := *out.Console
			at := lastLines([]byte(text), cmd.Tail)
			*out.Console = text[at:]
			out.ConsoleCut += int64(at)
		}
		return c.document(out)
	}
	f := newFollower(c.out, obs, cmd.RunID)
	if err := f.skipTo(cmd.Tail); err != nil {
		return err
	}
	if !cmd.Follow {
		return f.copy()
	}
	err = f.follow(ctx)
	if _, ended := errors.AsType[status](err); ended {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return &failure{exitLeft, &leftError{cmd.RunID, f.began}}
	}
	return err
}

// lastLines returns where the last n lines of a text begin, 0 if it has no
// more than that. An n of 0 is all of them.
func lastLines(text []byte, n int) int {
	if n == 0 {
		return 0
	}
	start := len(bytes.TrimSuffix(text, []byte("\n")))
	for range n {
		start = bytes.LastIndexByte(text[:start], '\n')
		if start < 0 {
			return 0
		}
	}
	return start + 1
}

// endStatus is the exit status of an ended job: its command's, as shells have it.
// A kill is recorded before anybody has seen which signal the command died of.
func endStatus(job *reap.Job) error {
	code := exitGone
	if plain(job.TerminalSource) == sidecar.SourceKill {
		code = 128 + int(syscall.SIGTERM)
	}
	if text := plain(job.ExitCode); text != "" {
		fmt.Sscan(text, &code)
	} else if name := plain(job.Signal); name != "" {
		code = 128 + signalNumber(name)
	} else if deref(job.Outcome) == sidecar.Succeeded {
		code = exitOK
	}
	if code == exitOK {
		return nil
	}
	return status(code)
}
