package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/jobprobe/jobprobe/reap"
)

type listCmd struct {
	Limit  int           `default:"50" help:"Show at most this many jobs; 0 shows all."`
	Status string        `placeholder:"STATUS" complete:"running,ending,completed,failed,cancelled,killed,timed_out,exited,unknown" help:"Show only jobs of this status."`
	Watch  bool          `help:"Go on until interrupted: on a terminal the table is redrawn, elsewhere a line, with --json a document, is added for each job that is new or has changed."`
	Every  time.Duration `placeholder:"DURATION" help:"Of a watch: look again at least this often (default: 2s); what the system tells of is seen at once."`
}

func (*listCmd) Help() string {
	return usage("0; 130 a watch was interrupted.",
		"jobprobe list",
		"jobprobe list --status running --limit 0",
		"jobprobe list --watch --every 10s")
}

// watchEvery is how often a watch looks although nothing has woken it.
const watchEvery = 2 * time.Second

func (cmd *listCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	if cmd.Limit < 0 {
		return &failure{exitUsage, fmt.Errorf("--limit must be 0 (all) or more, not %d", cmd.Limit)}
	}
	if !cmd.Watch && cmd.Every != 0 {
		return &failure{exitUsage, errors.New("--every is how often a --watch looks: give both")}
	}
	if cmd.Every != 0 && cmd.Every < minEvery {
		return &failure{exitUsage, fmt.Errorf("--every must be %v or more, not %v", minEvery, cmd.Every)}
	}
	opt := reap.ListOptions{Limit: cmd.Limit, Status: cmd.Status}
	if cmd.Watch {
		return watchList(ctx, c, obs, opt, cmp.Or(cmd.Every, watchEvery))
	}
	l, err := obs.List(ctx, opt)
	if err != nil {
		return err
	}
	if c.json {
		return c.document(l)
	}
	return cmd.print(c, obs, &l)
}

func (cmd *listCmd) print(c *console, obs *reap.Observer, l *reap.Listing) error {
	if len(l.Jobs) == 0 {
		if _, err := os.Stat(obs.Store.Dir); errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(c.err, "no jobs; there is no store at %s yet\n", printable(obs.Store.Dir))
			return nil
		}
		if cmd.Status != "" {
			fmt.Fprintf(c.err, "no jobs of status %q\n", cmd.Status)
			return nil
		}
		fmt.Fprintln(c.err, "no jobs")
		return nil
	}
	if err := c.table(listRows(l.Jobs, time.Now()), 5, 3); err != nil {
		return err
	}
	if n := unreported(l.Jobs); n > 0 {
		fmt.Fprintf(c.err, "%d of them ended with nobody to say how: \"jobprobe explain %s\"\n", n, reap.WarnRecovery)
	}
	if l.Truncated {
		fmt.Fprintf(c.err, "only the newest %d are shown; --limit 0 shows all\n", len(l.Jobs))
	}
	return nil
}

// unreported counts the jobs that are to be looked at before they are tried
// again.
func unreported(jobs []reap.Row) (n int) {
	for i := range jobs {
		if slices.Contains(jobs[i].Warnings, reap.WarnRecovery) {
			n++
		}
	}
	return n
}

// listRows are the rows of a table of jobs. Its last column is free text.
func listRows(jobs []reap.Row, now time.Time) [][]string {
	rows := [][]string{{"RUN ID", "STATUS", "OUTCOME", "REASON", "WHEN", "LABEL"}}
	for i := range jobs {
		job := &jobs[i]
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
