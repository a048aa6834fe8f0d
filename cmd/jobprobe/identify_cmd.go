package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/jobprobe/jobprobe"
)

type identifyCmd struct {
	PID string `arg:"" name:"pid" help:"Process number."`
}

func (*identifyCmd) Help() string {
	return usage("0; 3 no such process; 4 cannot tell.",
		"jobprobe identify $$ >me.json")
}

func (cmd *identifyCmd) Run(c *console) error {
	pid, err := strconv.Atoi(cmd.PID)
	if err != nil {
		return &failure{exitUnknown, fmt.Errorf("%w: %q", jobprobe.ErrUnusablePID, cmd.PID)}
	}
	id, err := jobprobe.Identify(pid)
	switch {
	case errors.Is(err, jobprobe.ErrNoProcess):
		return &failure{exitGone, err}
	case err != nil:
		return &failure{exitUnknown, err}
	case c.json:
		return c.document(id)
	}
	line, err := json.Marshal(id)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s\n", line)
	return err
}
