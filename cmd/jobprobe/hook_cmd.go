package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

type hookCmd struct {
	RunID  string `required:"" name:"run-id" env:"JOBPROBE_RUN_ID" placeholder:"RUN_ID" help:"Run id."`
	Status string `default:"completed" help:"The run's own word for its end."`
	Reason string `placeholder:"CODE" help:"Reason code, if the run has one."`
}

// hooked is the document of a hook.
type hooked struct {
	RunID    string `json:"run_id"`
	Recorded bool   `json:"recorded"` // this report is the job's end
	Late     bool   `json:"late"`     // another end was on record before
}

func (cmd *hookCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	got, err := obs.MarkTerminal(ctx, cmd.RunID, reap.Report{Status: cmd.Status, ReasonCode: cmd.Reason})
	if refused, ok := errors.AsType[*sidecar.RefusedError](err); ok && refused.Reason == sidecar.RecordAbsent {
		fmt.Fprintf(c.err, "jobprobe: no job %s in this store; nothing was recorded\n", cmd.RunID)
		if c.json {
			return c.document(hooked{RunID: cmd.RunID})
		}
		return nil
	}
	if err != nil {
		return err
	}
	if c.json {
		return c.document(hooked{RunID: cmd.RunID, Recorded: got.Won, Late: !got.Won})
	}
	if !got.Won {
		fmt.Fprintf(c.err, "jobprobe: %s had ended already; the report was kept as late_report\n", cmd.RunID)
	}
	return nil
}
