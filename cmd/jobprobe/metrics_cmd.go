package main

import (
	"context"

	"github.com/jobprobe/jobprobe/reap"
)

type metricsCmd struct{}

func (cmd *metricsCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	m, err := obs.Metrics(ctx)
	if err != nil {
		return err
	}
	if c.json {
		return c.document(m)
	}
	return m.WriteText(c.out)
}
