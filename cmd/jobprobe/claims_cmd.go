package main

import (
	"context"
	"fmt"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/spawn"
)

type claimsCmd struct {
	Forget *word `placeholder:"KEY" help:"Drop a claim that is free, or whose job's record is no longer there: then you say that the job is over. --json then prints the claims that are left."`
}

func (*claimsCmd) Help() string {
	return usage("0; 1 one is damaged, or, with --forget, held or not there.",
		"jobprobe claims",
		"jobprobe claims --forget backup")
}

// claimsJSON is the document of the claims.
type claimsJSON struct {
	Claims []spawn.Claim `json:"claims"`
}

func (cmd *claimsCmd) Run(ctx context.Context, c *console, obs *reap.Observer) error {
	if cmd.Forget != nil {
		if err := spawn.ForgetClaim(ctx, *obs, string(*cmd.Forget)); err != nil || !c.json {
			return err
		}
	}
	claims, err := spawn.Claims(ctx, *obs)
	if err != nil {
		// What could be read is shown all the same.
		fmt.Fprintln(c.err, "jobprobe:", printable(err.Error()))
		err = status(exitRefused)
	}
	if c.json {
		if claims == nil {
			claims = []spawn.Claim{}
		}
		if err := c.document(claimsJSON{claims}); err != nil {
			return err
		}
		return err
	}
	if len(claims) == 0 && err == nil {
		fmt.Fprintln(c.err, "no claims")
		return nil
	}
	rows := [][]string{{"KEY", "HOLDER", "STATE", "STATUS"}}
	for _, claim := range claims {
		rows = append(rows, []string{claim.Key, claim.Holder, claim.State.String(), claim.Status})
	}
	if err := c.table(rows, 0); err != nil {
		return err
	}
	return err
}
