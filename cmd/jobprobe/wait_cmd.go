package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

type waitCmd struct {
	RunIDs  []string      `arg:"" name:"run-id" help:"Run ids."`
	MaxWait time.Duration `default:"60s" help:"How long to wait, at most 10m; 0s only looks."`
	Any     bool          `help:"Return as soon as one has ended."`
}

func (*waitCmd) Help() string {
	return usage("0 all succeeded; 3 all ended; 4 waiting cannot resolve it; 124 the window closed; 130 interrupted. With --any these are of the jobs that have ended, if any has.",
		"jobprobe wait $id",
		"jobprobe wait --any --max-wait 10m $first $second")
}

const (
	// pollSeconds is the time between two looks where the system wakes nobody.
	pollSeconds = 0.2
	// maxWindow is the longest that one wait lasts; see reap.WaitOptions.
	maxWindow = 10 * time.Minute
)

func (cmd *waitCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	if cmd.MaxWait < 0 || cmd.MaxWait > maxWindow {
		return &failure{exitUsage, fmt.Errorf("--max-wait must be 0s to %v, not %v", maxWindow, cmd.MaxWait)}
	}
	began := time.Now()
	left := newRoll(cmd.RunIDs)
	done := c.progress(func() string {
		return fmt.Sprintf("wait: %s, %s left", left, brief(cmd.MaxWait-time.Since(began)))
	})
	w, err := obs.Wait(ctx, cmd.RunIDs, reap.WaitOptions{
		MaxWait: cmd.MaxWait.Seconds(), Poll: pollSeconds, Any: cmd.Any, Seen: left.see,
	})
	done()
	stopped := errors.Is(err, context.Canceled)
	if err != nil && !stopped {
		return err
	}
	if c.json {
		waitErrors(c, &w)
		w.TimedOut = w.TimedOut && !stopped
		err = c.document(waitJSON{w, stopped})
	} else {
		err = printWait(c, &w)
	}
	if err != nil {
		return err
	}
	if stopped {
		fmt.Fprintln(c.err, "jobprobe:", interrupted(began, left.String()+"; what has not ended goes on"))
		return status(exitLeft)
	}
	if code := waitStatus(&w, cmd.Any); code != exitOK {
		return code
	}
	return nil
}

// waitJSON is the document of a wait.
type waitJSON struct {
	reap.Waiting
	CutShort bool `json:"cut_short"` // by a signal, before its window closed
}

// waitErrors complains of the ids that cannot be waited for.
func waitErrors(c *console, w *reap.Waiting) {
	for i := range w.Runs {
		if err := w.Runs[i].Error; err != nil {
			fmt.Fprintf(c.err, "jobprobe: %s\n", printable(err.Message))
			c.advise(next(err.Kind, anError))
		}
	}
}

func printWait(c *console, w *reap.Waiting) error {
	waitErrors(c, w)
	rows := make([][]string, 0, len(w.Runs))
	for i := range w.Runs {
		run := &w.Runs[i]
		if run.Error != nil {
			continue
		}
		detail := reason(run.ReasonCode, run.Refused)
		if code := plain(run.ExitCode); code != "" {
			detail = "exit code " + code
		}
		if sig := plain(run.Signal); sig != "" {
			detail = "signal " + sig
		}
		rows = append(rows, []string{run.RunID, run.Status, deref(run.Outcome), detail})
	}
	return c.table(rows)
}

// waitStatus is the exit status of a wait.
func waitStatus(w *reap.Waiting, anyOne bool) status {
	ended, succeeded := 0, 0
	for i := range w.Runs {
		if w.Runs[i].Terminal && w.Runs[i].Error == nil {
			ended++
			if deref(w.Runs[i].Outcome) == sidecar.Succeeded {
				succeeded++
			}
		}
	}
	switch {
	case ended == succeeded && (w.AllTerminal || anyOne && ended > 0):
		return exitOK
	case w.AllTerminal || anyOne && ended > 0:
		return exitGone
	case w.TimedOut:
		return exitWindow
	}
	return exitUnknown
}
