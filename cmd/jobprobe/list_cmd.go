package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/jobprobe/jobprobe/reap"
)

type listCmd struct {
	Limit  int    `default:"50" help:"Show at most this many jobs; 0 shows all."`
	Status string `placeholder:"STATUS" help:"Show only jobs of this status."`
}

func (*listCmd) Help() string {
	return usage("0.",
		"jobprobe list",
		"jobprobe list --status running --limit 0")
}

func (cmd *listCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	if cmd.Limit < 0 {
		return &failure{exitUsage, fmt.Errorf("--limit must be 0 (all) or more, not %d", cmd.Limit)}
	}
	l, err := obs.List(ctx, reap.ListOptions{Limit: cmd.Limit, Status: cmd.Status})
	if err != nil {
		return err
	}
	if c.json {
		return c.document(l)
	}
	if len(l.Jobs) == 0 {
		if _, err := os.Stat(obs.Store.Dir); errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(c.err, "no jobs; there is no store at %s yet\n", printable(obs.Store.Dir))
			return nil
		}
		fmt.Fprintln(c.err, "no jobs")
		return nil
	}
	if err := c.table(listRows(&l, time.Now()), 5, 3); err != nil {
		return err
	}
	if l.Truncated {
		fmt.Fprintf(c.err, "only the newest %d are shown; --limit 0 shows all\n", len(l.Jobs))
	}
	return nil
}

// listRows are the rows of a table of jobs. Its last column is free text.
func listRows(l *reap.Listing, now time.Time) [][]string {
	rows := [][]string{{"RUN ID", "STATUS", "OUTCOME", "REASON", "WHEN", "LABEL"}}
	for i := range l.Jobs {
		job := &l.Jobs[i]
		state := job.Status
		if job.RecordState != "ok" {
			state = job.RecordState
		}
		rows = append(rows, []string{
			job.RunID, state, deref(job.Outcome), reason(job.ReasonCode, job.Refused),
			since(job.Status, job.SubmittedAt, job.FinishedAt, now), plain(job.Label),
		})
	}
	return rows
}
