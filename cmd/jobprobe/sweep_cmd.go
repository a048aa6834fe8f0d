package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jobprobe/jobprobe/reap"
)

type sweepCmd struct {
	DryRun bool          `help:"Say what would be ended, and write nothing."`
	Every  time.Duration `placeholder:"DURATION" help:"Sweep again and again, this long after each pass, until interrupted."`
}

func (*sweepCmd) Help() string {
	return usage("0.",
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
		s, err := obs.Sweep(ctx, cmd.DryRun)
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if err == nil {
			if err := printSweep(c, &s); err != nil {
				return err
			}
		}
		if cmd.Every == 0 {
			return err
		}
		flush(obs, c.err)
		select {
		case <-ctx.Done():
			fmt.Fprintf(c.err, "stopped after %d passes\n", passes+1)
			return nil
		case <-time.After(cmd.Every):
		}
	}
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
