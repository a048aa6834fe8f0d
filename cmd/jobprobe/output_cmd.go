package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/jobprobe/jobprobe/reap"
)

type outputCmd struct {
	RunID  string `arg:"" name:"run-id" help:"Run id."`
	Follow bool   `short:"f" help:"Go on until the job has ended."`
	Tail   int    `short:"n" placeholder:"LINES" help:"Show only the last lines; 0 shows all."`
}

func (cmd *outputCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	if cmd.Tail < 0 {
		return &failure{exitUsage, fmt.Errorf("--tail must be 0 (all) or more, not %d", cmd.Tail)}
	}
	out, unusable, err := obs.Output(ctx, cmd.RunID, 0)
	if err != nil {
		return err
	}
	if unusable != nil {
		if c.json {
			c.document(unusable)
			return status(exitRefused)
		}
		return fmt.Errorf("%s: %s", cmd.RunID, unusable.Error)
	}
	text := deref(out.Console)
	skip := len(text) - len(lastLines(text, cmd.Tail))
	if c.json {
		if out.Console != nil {
			*out.Console = text[skip:]
		}
		return c.document(out)
	}
	if cmd.Follow {
		err = follow(ctx, c, obs, cmd.RunID, int64(skip))
		if _, ended := errors.AsType[status](err); ended {
			return nil
		}
		return err
	}
	_, err = io.WriteString(c.out, text[skip:])
	return err
}

// lastLines cuts text to its last n lines; 0 is all of them.
func lastLines(text string, n int) string {
	if n == 0 {
		return text
	}
	start := len(strings.TrimSuffix(text, "\n"))
	for range n {
		start = strings.LastIndexByte(text[:start], '\n')
		if start < 0 {
			return text
		}
	}
	return text[start+1:]
}

// followPause is the time between two looks at a growing log.
const followPause = 50 * time.Millisecond

// follow copies a job's console from an offset until the job has ended, and
// returns how it ended as a status: the command's own exit code, 128 and the
// signal's number as shells do, or what wait would say.
func follow(ctx context.Context, c *console, obs *reap.Observer, id string, from int64) error {
	for {
		job, err := obs.Status(ctx, id)
		if err != nil {
			return err
		}
		if from, err = copyConsole(c.out, obs.ConsolePath(id), from); err != nil {
			return err
		}
		if job.Terminal {
			return endStatus(&job)
		}
		if job.PossiblyOrphaned {
			return status(exitUnknown)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopped watching %s, which goes on", id)
		case <-time.After(followPause):
		}
	}
}

func copyConsole(w io.Writer, path string, from int64) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return from, nil
	}
	if err != nil {
		return from, err
	}
	defer f.Close()
	n, err := io.Copy(w, io.NewSectionReader(f, from, 1<<62))
	return from + n, err
}

func endStatus(job *reap.Job) error {
	code := exitGone
	if text := plain(job.ExitCode); text != "" {
		fmt.Sscan(text, &code)
	} else if name := plain(job.Signal); name != "" {
		code = 128 + signalNumber(name)
	} else if deref(job.Outcome) == reap.Succeeded {
		code = exitOK
	}
	if code == exitOK {
		return nil
	}
	return status(code)
}
