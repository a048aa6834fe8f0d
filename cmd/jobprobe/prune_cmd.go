package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/spawn"
)

type pruneCmd struct {
	OlderThan span `required:"" placeholder:"DURATION" help:"Remove jobs that ended at least this long ago; days may be given as 30d."`
	Keep      int  `placeholder:"N" help:"Keep the N newest jobs, whatever their age."`
	DryRun    bool `help:"Remove nothing, and say what would be."`
}

func (*pruneCmd) Help() string {
	return usage("0; 1 something could not be removed.",
		"jobprobe prune --older-than 30d --dry-run",
		"jobprobe prune --older-than 7d --keep 100")
}

func (cmd *pruneCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	if cmd.Keep < 0 {
		return &failure{exitUsage, fmt.Errorf("--keep is %d, and must be 0 or more", cmd.Keep)}
	}
	if !cmd.DryRun {
		if err := forgetFree(ctx, obs); err != nil {
			return err
		}
	}
	p, err := obs.Prune(ctx, reap.PruneOptions{
		OlderThan: time.Duration(cmd.OlderThan), Keep: cmd.Keep, DryRun: cmd.DryRun,
	})
	doc := prunedJSON{Pruned: p}
	if err != nil { // what was removed is told all the same
		fmt.Fprintln(c.err, "jobprobe:", printable(complaint(err)))
		why := problem(err, exitRefused)
		doc.ReasonCode, doc.Error = why.ReasonCode, why.Error
		err = status(exitRefused)
	}
	if !c.json {
		printPruned(c, &p)
		return err
	}
	if err := c.document(doc); err != nil {
		return err
	}
	return err
}

// prunedJSON is the document of a prune, also of one that came to an error.
type prunedJSON struct {
	reap.Pruned
	ReasonCode string `json:"reason_code,omitzero"`
	Error      string `json:"error,omitzero"`
}

// forgetFree drops the claims that are free. One whose job's record is removed
// could not be told from one that is held.
func forgetFree(ctx context.Context, obs *reap.Observer) error {
	claims, err := spawn.Claims(ctx, *obs)
	for _, claim := range claims {
		if claim.State != spawn.ClaimFree || err != nil {
			continue
		}
		err = spawn.ForgetClaim(ctx, *obs, claim.Key)
		// Somebody else may have taken it meanwhile, or forgotten it.
		if _, held := errors.AsType[*spawn.ClaimHeldError](err); held || errors.Is(err, spawn.ErrNoClaim) {
			err = nil
		}
	}
	return err
}

func printPruned(c *console, p *reap.Pruned) {
	for _, id := range p.Removed {
		fmt.Fprintln(c.out, id)
	}
	for _, k := range p.Kept {
		fmt.Fprintf(c.err, "kept %s: %s\n", k.RunID, k.Reason)
	}
	verb := "removed"
	if p.DryRun {
		verb = "would remove"
	}
	fmt.Fprintf(c.err, "%s %d jobs\n", verb, len(p.Removed))
}

// span is a duration in which days may be given too, as 30d.
type span time.Duration

// Decode takes the next argument.
func (s *span) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("duration")
	if err != nil {
		return err
	}
	*s, err = parseSpan(token.String())
	return err
}

func parseSpan(text string) (span, error) {
	const day = 24 * time.Hour
	if digits, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n >= 0 && n <= math.MaxInt64/int64(day) {
			return span(n * int64(day)), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not an age, as 90m, 36h or 30d are", text)
	}
	return span(d), nil
}
