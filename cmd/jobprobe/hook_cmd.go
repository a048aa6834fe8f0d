package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

type hookCmd struct {
	RunID   string `required:"" name:"run-id" env:"JOBPROBE_RUN_ID" placeholder:"RUN_ID" help:"Run id."`
	Status  string `default:"completed" complete:"completed,failed,cancelled,timed_out" help:"The run's own word for its end."`
	Reason  string `placeholder:"CODE" help:"Reason code, if the run has one (default: the reason_code of the JSON in LIONAGI_NOTIFY_PAYLOAD, which runs of other starters are given)."`
	Target  string `help:"Who the notice is for (default: as recorded)."`
	Sender  string `help:"Who the notice is from (default: as recorded)."`
	Command string `placeholder:"JSON" help:"Notifier, as a JSON list of words (default: as recorded, else JOBPROBE_NOTIFY_COMMAND)."`
}

func (*hookCmd) Help() string {
	return usage("0, also if there is no such job here; 1 the record could not be written.",
		"jobprobe hook --run-id $JOBPROBE_RUN_ID --status completed")
}

// hooked is the document of a hook.
type hooked struct {
	RunID          string         `json:"run_id"`
	Recorded       bool           `json:"recorded"` // this report is the job's end
	Late           bool           `json:"late"`     // another end was on record before
	Kept           bool           `json:"kept"`     // and this report is its late_report
	Result         sidecar.Result `json:"result"`
	NotifyDelivery jsontext.Value `json:"notify_delivery"`
	DeliveryState  string         `json:"notify_delivery_state"`
}

func (cmd *hookCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	if strings.TrimSpace(cmd.Status) == "" {
		return &failure{exitUsage, errors.New("--status must not be empty")}
	}
	if slices.Contains([]string{"running", "ending", "preparing", "unknown"}, cmd.Status) {
		return &failure{exitUsage, fmt.Errorf("--status %s is no end: say how the run came out", cmd.Status)}
	}
	if cmd.Reason == "" {
		cmd.Reason = reap.ReasonOf(os.Getenv("LIONAGI_NOTIFY_PAYLOAD"))
	}
	got, err := obs.Hook(ctx, cmd.RunID, reap.Report{
		Status: cmd.Status, ReasonCode: cmd.Reason,
		Command: cmd.Command, Target: cmd.Target, Sender: cmd.Sender,
	})
	if err != nil {
		return err
	}
	late := !got.Won && !got.Absent
	switch {
	case got.Absent:
		fmt.Fprintf(c.err, "jobprobe: no job %s in this store; nothing was recorded\n", cmd.RunID)
	case got.Kept:
		fmt.Fprintf(c.err, "jobprobe: %s had ended already; the report was kept as late_report\n", cmd.RunID)
	case late:
		fmt.Fprintf(c.err, "jobprobe: %s had ended already, and this report was not the first to come late: it was dropped\n", cmd.RunID)
	}
	c.unsynced(cmd.RunID, got.Result)
	if got.State != "none" && got.State != "delivered" {
		fmt.Fprintf(c.err, "jobprobe: notice %s: %s\n", got.State, plain(got.Delivery))
	}
	if !c.json {
		return nil
	}
	return c.document(hooked{
		RunID: cmd.RunID, Recorded: got.Won, Late: late, Kept: got.Kept, Result: got.Result,
		NotifyDelivery: got.Delivery, DeliveryState: got.State,
	})
}
