package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	switch {
	case unusable != nil && c.json:
		c.document(unusable)
		return status(exitRefused)
	case unusable != nil:
		return fmt.Errorf("%s: %s", cmd.RunID, unusable.Error)
	case c.json:
		if out.Console != nil {
			text := *out.Console
			*out.Console = text[lastLines([]byte(text), cmd.Tail):]
		}
		return c.document(out)
	}
	from, err := tailOffset(obs, cmd.RunID, cmd.Tail)
	if err != nil {
		return err
	}
	if !cmd.Follow {
		_, err = copyConsole(c.out, obs, cmd.RunID, from)
		return err
	}
	err = follow(ctx, c.out, obs, cmd.RunID, from)
	if _, ended := errors.AsType[status](err); ended {
		return nil
	}
	return err
}

// tailOffset finds where the last n lines of a console begin, from its end.
func tailOffset(obs *reap.Observer, id string, n int) (int64, error) {
	f, err := openConsole(obs, id)
	if n == 0 || f == nil {
		return 0, err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	// Twice as much each time, until the lines are in it.
	for size := int64(64 << 10); ; size *= 2 {
		size = min(size, end)
		part := make([]byte, size)
		if _, err := f.ReadAt(part, end-size); err != nil && err != io.EOF {
			return 0, err
		}
		if at := lastLines(part, n); at > 0 || size == end {
			return end - size + int64(at), nil
		}
	}
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

// openConsole opens a console; nil is one that is not there, or that is no
// file and so none of the job's.
func openConsole(obs *reap.Observer, id string) (*os.File, error) {
	f, err := obs.OpenConsole(id)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, reap.ErrNotRegular) {
		return nil, nil
	}
	return f, err
}

// followPause is the time between two looks at a growing log.
const followPause = 50 * time.Millisecond

// follow copies a job's console from an offset until the job has ended, and
// returns how it ended as a status: the command's own exit code, 128 and the
// signal's number as shells do, or what wait would say.
func follow(ctx context.Context, out io.Writer, obs *reap.Observer, id string, from int64) error {
	for {
		job, err := obs.Status(ctx, id)
		if err != nil {
			return err
		}
		if from, err = copyConsole(out, obs, id, from); err != nil {
			return err
		}
		switch {
		case job.Terminal:
			return endStatus(&job)
		case job.PossiblyOrphaned, !job.Known:
			return status(exitUnknown)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopped watching %s, which goes on", id)
		case <-time.After(followPause):
		}
	}
}

func copyConsole(w io.Writer, obs *reap.Observer, id string, from int64) (int64, error) {
	f, err := openConsole(obs, id)
	if f == nil {
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
