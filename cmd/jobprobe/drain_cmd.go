package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jobprobe/jobprobe/reap"
)

type drainCmd struct {
	Timeout *time.Duration `placeholder:"DURATION" help:"The one budget of everything (default: shutdown_drain_timeout_ms of the configuration, 5s)."`
	Reopen  bool           `help:"Admit jobs again, and do nothing else."`
}

func (*drainCmd) Help() string {
	return usage("0 clean; 1 something remains or was not recorded; 130 interrupted.",
		"jobprobe drain --timeout 30s",
		"jobprobe drain --reopen")
}

func (cmd *drainCmd) Run(ctx context.Context, c *console, obs *reap.Observer, cfg *config) error {
	if cmd.Reopen {
		return cmd.reopen(ctx, c, obs)
	}
	opt := reap.DrainOptions{
		Timeout: cfg.drainWindow(), Grace: cfg.grace(), Kill: cfg.killWindow(),
		Leave: !cfg.Lifecycle.Cancel, Details: cfg.Lifecycle.Finished,
	}
	if opt.Details == 0 {
		opt.Details = -1
	}
	if cmd.Timeout != nil {
		opt.Timeout = *cmd.Timeout
		if opt.Timeout < time.Millisecond || opt.Timeout > maxDrain {
			return &failure{exitUsage, fmt.Errorf("--timeout is %v, and must be 1ms to %v", opt.Timeout, maxDrain)}
		}
	}
	var settled, all atomic.Int64
	opt.Progress = func(n, of int) {
		settled.Store(int64(n))
		all.Store(int64(of))
	}
	far := func() string { return fmt.Sprintf("%d of %d jobs seen to", settled.Load(), all.Load()) }
	began := time.Now()
	done := c.progress(func() string { return "drain: " + far() })
	d, err := obs.Drain(ctx, opt)
	done()
	if err != nil {
		return err
	}
	if c.json {
		err = c.document(drainJSON{d, ctx.Err() != nil})
	} else {
		err = printDrain(c, &d)
	}
	if err == nil && ctx.Err() != nil {
		fmt.Fprintln(c.err, "jobprobe:", interrupted(began, far()+"; the store admits no jobs"))
		return status(exitLeft)
	}
	if err == nil && d.Outcome != reap.DrainClean {
		return status(exitRefused)
	}
	return err
}

// drainJSON is the document of a drain.
type drainJSON struct {
	reap.Drained
	CutShort bool `json:"cut_short"` // by a signal, before its time was over
}

// reopenJSON is the document of a store that was reopened.
type reopenJSON struct {
	Admission string `json:"admission"`
}

func (cmd *drainCmd) reopen(ctx context.Context, c *console, obs *reap.Observer) error {
	if cmd.Timeout != nil {
		return &failure{exitUsage, errors.New("--reopen takes no --timeout")}
	}
	if err := obs.Reopen(ctx); err != nil {
		return err
	}
	if c.json {
		return c.document(reopenJSON{"open"})
	}
	fmt.Fprintln(c.err, "the store admits jobs")
	return nil
}

func printDrain(c *console, d *reap.Drained) error {
	if err := c.facts(
		"outcome", d.Outcome.String(),
		"admission", d.Admission,
		"interrupted", count(int64(len(d.Interrupted))),
		"remaining", count(int64(len(d.Remaining))),
		"not recorded", count(int64(len(d.NotRecorded))),
		"elsewhere", count(int64(len(d.Elsewhere))),
		"took", (time.Duration(d.DurationMS) * time.Millisecond).String(),
		"refused", deref(d.Refused),
	); err != nil {
		return err
	}
	rows := [][]string{{"RUN ID", "WHAT", "REASON"}}
	for _, list := range []struct {
		what string
		ids  []string
	}{{"interrupted", d.Interrupted}, {"remaining", d.Remaining}, {"not recorded", d.NotRecorded}, {"elsewhere", d.Elsewhere}} {
		for _, id := range list.ids {
			why := ""
			if list.what != "interrupted" {
				why = d.Reasons[id]
			}
			rows = append(rows, []string{id, list.what, why})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	fmt.Fprintln(c.out)
	return c.table(rows)
}
