package main

import (
	"context"

	"github.com/jobprobe/jobprobe/reap"
)

type doctorCmd struct{}

func (*doctorCmd) Help() string {
	return usage("0; 1 something failed.",
		"jobprobe doctor")
}

func (cmd *doctorCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	checks := obs.Diagnose(ctx)
	var err error
	if c.json {
		err = c.document(struct {
			Checks []reap.Check `json:"checks"`
		}{checks})
	} else {
		rows := [][]string{{"CHECK", "STATE", "DETAIL"}}
		for _, check := range checks {
			rows = append(rows, []string{check.Name, check.Health.String(), check.Detail})
		}
		err = c.table(rows)
	}
	for _, check := range checks {
		if check.Health == reap.Broken && err == nil {
			err = status(exitRefused)
		}
	}
	return err
}
