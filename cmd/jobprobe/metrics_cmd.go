package main

import (
	"context"

	"github.com/jobprobe/jobprobe/reap"
)

type metricsCmd struct{}

func (*metricsCmd) Help() string {
	return usage("0; 1 the store or its ledger cannot be read.",
		"jobprobe metrics >/var/lib/node_exporter/jobprobe.prom")
}

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
