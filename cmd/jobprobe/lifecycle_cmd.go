package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jobprobe/jobprobe/reap"
)

type lifecycleCmd struct {
	RunID string `arg:"" name:"run-id" help:"Run id."`
}

func (*lifecycleCmd) Help() string {
	return usage("0; 1 no such or unusable record.",
		"jobprobe lifecycle $id")
}

func (cmd *lifecycleCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	h, err := obs.History(ctx, cmd.RunID)
	if err != nil {
		return err
	}
	if !h.Known {
		unusable(c, h.RunID, h.RecordState, nil)
	}
	switch {
	case c.json:
		err = c.document(h)
	case h.Known:
		err = printHistory(c, &h)
	}
	if err == nil && !h.Known {
		return status(exitRefused)
	}
	return err
}

func printHistory(c *console, h *reap.History) error {
	kept := ""
	if !h.Recorded {
		kept = "none: the record is another program's"
	}
	if err := c.facts(
		"run id", h.RunID,
		"state", deref(h.State),
		"reason", deref(h.Reason),
		"outcome", deref(h.Outcome),
		"process", h.LivenessConclusion,
		"cleanup", h.Cleanup.String(),
		"ownership", h.Ownership.String(),
		"warnings", strings.Join(h.Warnings, ", "),
		"history", kept,
		"dropped", count(h.Dropped),
		"damaged", count(h.Damaged),
		"not recorded", deref(h.Refused),
	); err != nil || len(h.History) == 0 {
		return err
	}
	fmt.Fprintln(c.out)
	rows := [][]string{{"AT", "STATE", "CLEANUP", "OWNERSHIP", "REASON"}}
	for _, t := range h.History {
		rows = append(rows, []string{deref(t.At), deref(t.State), t.Cleanup.String(), t.Ownership.String(), deref(t.Reason)})
	}
	return c.table(rows)
}

// count is a number as text, nothing for none.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
