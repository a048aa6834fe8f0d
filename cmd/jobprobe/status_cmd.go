package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

type statusCmd struct {
	RunIDs []string `arg:"" name:"run-id" help:"Run ids."`
}

func (*statusCmd) Help() string {
	return usage("0; 1 no such or unusable record.",
		"jobprobe status $id",
		"jobprobe status --json $id")
}

func (cmd *statusCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	var out struct {
		Jobs []reap.Job `json:"jobs"`
	}
	code := status(exitOK)
	for _, id := range cmd.RunIDs {
		job, err := obs.Status(ctx, id)
		if errors.Is(err, sidecar.ErrRunID) && len(cmd.RunIDs) > 1 {
			fmt.Fprintln(c.err, "jobprobe:", printable(complaint(err)))
			code = exitRefused
			continue
		}
		if err != nil {
			return err
		}
		if !job.Known {
			code = exitRefused
		}
		out.Jobs = append(out.Jobs, job)
	}
	for i := range out.Jobs {
		if job := &out.Jobs[i]; !job.Known {
			unusable(c, job.RunID, job.RecordState, job.RecordError)
		}
	}
	var err error
	switch {
	case c.json && len(cmd.RunIDs) == 1:
		err = c.document(out.Jobs[0])
	case c.json:
		err = c.document(out)
	default:
		known := slices.DeleteFunc(out.Jobs, func(job reap.Job) bool { return !job.Known })
		for i := range known {
			if i > 0 {
				fmt.Fprintln(c.out)
			}
			err = printJob(c, &known[i])
		}
	}
	if err == nil && code != exitOK {
		return code
	}
	return err
}

// unusable complains of a job that there is not, or whose record is no use.
func unusable(c *console, id, state string, why *string) {
	if state == sidecar.Absent.String() {
		fmt.Fprintf(c.err, "jobprobe: no job %s in this store; \"jobprobe list\" shows the jobs\n", id)
		return
	}
	text := state
	if why != nil {
		text += ": " + printable(*why)
	}
	fmt.Fprintf(c.err, "jobprobe: the record of %s is %s\n", id, text)
	c.advise(next(state, aRefusal))
}

func printJob(c *console, job *reap.Job) error {
	now := time.Now()
	return c.facts(
		"run id", job.RunID,
		"label", plain(job.Label),
		"status", job.Status,
		"outcome", deref(job.Outcome),
		"reason", deref(job.ReasonCode),
		"exit code", plain(job.ExitCode),
		"signal", plain(job.Signal),
		"submitted", ago(plain(job.SubmittedAt), age(job.SubmittedAt, now)),
		"finished", ago(plain(job.FinishedAt), age(job.FinishedAt, now)),
		"precision", plain(job.FinishedAtPrecision),
		"ended by", plain(job.TerminalSource),
		"evidence", plain(job.TerminalEvidence),
		"pid", plain(job.PID),
		"process", fmt.Sprintf("%s (%s)", job.LivenessConclusion, job.Finding),
		"spawn", plain(job.SpawnState),
		"notice", noticeText(job),
		"late report", plain(job.LateReport),
		"orphaned", yes(job.PossiblyOrphaned),
		"warnings", strings.Join(job.Warnings, ", "),
		map[bool]string{false: "not recorded", true: "not confirmed"}[job.Terminal], deref(job.Refused),
	)
}

func ago(at, age string) string {
	if age == "" {
		return at
	}
	return at + " (" + age + " ago)"
}

func yes(b bool) string {
	if b {
		return "possibly"
	}
	return ""
}

// noticeText shows a delivery if one was attempted, or why it could not be.
func noticeText(job *reap.Job) string {
	if text := plain(job.NotifyDelivery); strings.Contains(text, "true") || strings.Contains(text, `"error":"`) {
		return text
	}
	return ""
}
