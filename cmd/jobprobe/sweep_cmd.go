package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jobprobe/jobprobe/reap"
)

type sweepCmd struct {
	DryRun bool          `help:"Say what would be ended, and write nothing."`
	Every  time.Duration `placeholder:"DURATION" help:"Sweep again and again, this long after each pass, until interrupted."`
}

func (*sweepCmd) Help() string {
	return usage("0; 130 a single pass was interrupted.",
		"jobprobe sweep --dry-run",
		"jobprobe sweep --every 30s")
}

// minEvery keeps a sweep from taking the machine for itself.
const minEvery = 10 * time.Millisecond

func (cmd *sweepCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	if cmd.Every != 0 && cmd.Every < minEvery {
		return &failure{exitUsage, fmt.Errorf("--every must be %v or more, not %v", minEvery, cmd.Every)}
	}
	for passes := 0; ; passes++ {
		s, err := cmd.pass(ctx, c, *obs)
		if err != nil && (cmd.Every == 0 || ctx.Err() == nil) {
			return err
		}
		if err == nil {
			if err := printSweep(c, &s); err != nil {
				return err
			}
		}
		if cmd.Every == 0 {
			return nil
		}
		flush(obs, c.err)
		select {
		case <-ctx.Done():
			if err == nil {
				passes++ // this one was whole
			}
			fmt.Fprintf(c.err, "stopped after %d passes\n", passes)
			return nil
		case <-time.After(cmd.Every):
		}
	}
}

// pass sweeps once, and shows how far it is.
func (cmd *sweepCmd) pass(ctx context.Context, c *console, obs reap.Observer) (reap.Sweep, error) {
	var looked atomic.Int64
	obs.Looked = func() { looked.Add(1) }
	ids, err := obs.Store.IDs()
	if err != nil {
		return reap.Sweep{}, err
	}
	began := time.Now()
	far := func() string { return fmt.Sprintf("%d of %d looked at", looked.Load(), len(ids)) }
	done := c.progress(func() string { return "sweep: " + far() })
	s, err := obs.Sweep(ctx, cmd.DryRun)
	done()
	if errors.Is(err, context.Canceled) {
		err = interrupted(began, far()+"; what was found gone has its end")
	}
	return s, err
}

func printSweep(c *console, s *reap.Sweep) error {
	if c.json {
		return c.document(s)
	}
	verb := "ended"
	if s.DryRun {
		verb = "would end"
	}
	var rows [][]string
	for _, part := range []struct {
		word string
		jobs []reap.Swept
	}{{verb, s.Ended}, {"not recorded", s.Refused}, {"unresolved", s.Unresolved}, {"unusable", s.Unusable}} {
		for _, job := range part.jobs {
			rows = append(rows, []string{part.word, job.RunID, job.Reason})
		}
	}
	if err := c.table(rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.out, "%d observed, %d %s, %d not recorded, %d unresolved, %d unusable\n",
		s.Observed, len(s.Ended), verb, len(s.Refused), len(s.Unresolved), len(s.Unusable))
	return err
}
