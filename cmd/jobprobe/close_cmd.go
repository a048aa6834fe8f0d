package main

import (
	"context"
	"fmt"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

type closeCmd struct {
	RunID  string `arg:"" name:"run-id" help:"Run id."`
	Attest string `required:"" placeholder:"TEXT" help:"What you know of the job's end, and how; kept in the record."`
}

func (*closeCmd) Help() string {
	return usage("0; 1 refused.",
		"jobprobe close $id --attest 'its machine was scrapped'")
}

func (cmd *closeCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	got, err := obs.Close(ctx, cmd.RunID, cmd.Attest)
	if err != nil {
		return err
	}
	c.unsynced(cmd.RunID, got.Result)
	if c.json {
		return c.document(struct {
			RunID  string         `json:"run_id"`
			Closed bool           `json:"closed"`
			Result sidecar.Result `json:"result"`
		}{cmd.RunID, true, got.Result})
	}
	_, err = fmt.Fprintf(c.out, "%s closed\n", cmd.RunID)
	return err
}
