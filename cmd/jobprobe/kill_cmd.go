package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jobprobe/jobprobe/reap"
)

type killCmd struct {
	RunID  string         `arg:"" name:"run-id" help:"Run id."`
	Signal string         `default:"TERM" placeholder:"NAME" complete:"TERM,KILL,INT,HUP,QUIT,USR1,USR2" help:"Signal to send first, by name or number."`
	Grace  *time.Duration `placeholder:"DURATION" help:"How long to wait before what is left is killed (default: ${grace}, or as configured); 0s sends one signal and waits for nothing."`
}

func (*killCmd) Help() string {
	return usage("0 signalled and recorded; 1 refused; 4 cannot tell.",
		"jobprobe kill $id",
		"jobprobe kill --signal INT --grace 5s $id")
}

func (cmd *killCmd) Run(ctx context.Context, c *console, obs *reap.Observer, cfg *config) error {
	grace := cfg.grace()
	if cmd.Grace != nil {
		grace = *cmd.Grace
	}
	sig, err := parseSignal(cmd.Signal)
	if err == nil && grace < 0 {
		err = errors.New("a grace is not negative")
	}
	if err != nil {
		return &failure{exitUsage, err}
	}
	reply, err := obs.Kill(ctx, cmd.RunID, reap.KillOptions{Signal: sig, Grace: grace, Verify: cfg.killWindow()})
	if errors.Is(err, reap.ErrSignal) {
		return &failure{exitUsage, err}
	}
	if err != nil {
		return err
	}
	if err := cmd.print(c, &reply); err != nil {
		return err
	}
	switch {
	case reply.Killed && reply.Recorded:
		return nil
	case reply.Undecided():
		return status(exitUnknown)
	}
	return status(exitRefused)
}

// parseSignal reads a number, or a name with or without SIG in any case.
func parseSignal(text string) (syscall.Signal, error) {
	if n, err := strconv.ParseUint(text, 10, 8); err == nil && n > 0 {
		return syscall.Signal(n), nil
	}
	name := strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if n := signalNumber(name); n != 0 {
		return syscall.Signal(n), nil
	}
	switch name { // where signals have no names
	case "SIGTERM":
		return syscall.SIGTERM, nil
	case "SIGKILL":
		return syscall.SIGKILL, nil
	}
	return 0, fmt.Errorf("no signal is called %q here", text)
}

func (cmd *killCmd) print(c *console, reply *reap.KillReply) error {
	if !reply.Killed || !reply.Recorded {
		fmt.Fprintf(c.err, "jobprobe: %s: %s\n", reply.ReasonCode, printable(reply.Reason))
		c.advise(next(reply.ReasonCode, aKillCode))
	}
	if c.json {
		return c.document(reply)
	}
	if !reply.Killed {
		return nil
	}
	escalated := ""
	if reply.Escalated {
		escalated = "SIGKILL"
	}
	return c.facts(
		"run id", reply.RunID,
		"signal", deref(reply.Signal),
		"escalated", escalated,
		"group", plain(reply.PGID),
		"cleanup", reply.Cleanup.String(),
		"descendants", reply.Descendants.String(),
		"not recorded", deref(reply.Refused),
	)
}
