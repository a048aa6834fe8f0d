package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

const (
	// claimsDir is where a store keeps its claims. It is no run id.
	claimsDir = ".claims"
	// claimsLock is the lock of all claims of a store.
	claimsLock = "lock"
)

// claims are the claims of a store: themselves a store, of one record a key
// ever claimed, so that they are published and read as jobs are. A record's
// run_id is the hash of its key; "key" and "holder" are what it says.
type claims struct{ sidecar.Store }

func claimsOf(store sidecar.Store) claims {
	store.Dir = filepath.Join(store.Dir, claimsDir)
	return claims{store}
}

// read returns a claim's record, nil if it was never taken.
func (c claims) read(name string) (*sidecar.Record, error) {
	r := c.Read(name)
	if r.State == sidecar.OK || r.State == sidecar.Absent {
		return r.Record, nil
	}
	return nil, fmt.Errorf("claim %s is %v: %w", name, r.State, r.Err)
}

// put makes a run the holder. The caller holds the lock.
func (c claims) put(ctx context.Context, name, key, id string, first bool) error {
	if !first {
		_, err := c.Update(ctx, name, func(r *sidecar.Record) error {
			r.Set("holder", sidecar.Text(id))
			return nil
		})
		return err
	}
	rec := sidecar.NewRecord(
		sidecar.Field{Name: "run_id", Value: sidecar.Text(name)},
		sidecar.Field{Name: "key", Value: sidecar.Text(key)},
		sidecar.Field{Name: "holder", Value: sidecar.Text(id)},
	)
	// Published and lost with the power, it is lost together with the job.
	return c.CreateShared(name, rec)
}

// list observes the holder of each claim.
func (c claims) list(ctx context.Context, obs reap.Observer) ([]Claim, error) {
	names, err := c.IDs()
	if err != nil {
		return nil, err
	}
	list := make([]Claim, 0, len(names))
	var damaged []error
	for _, name := range names {
		claim, err := c.look(ctx, obs, name, "")
		if err != nil {
			damaged = append(damaged, err)
			continue
		}
		list = append(list, claim)
	}
	slices.SortFunc(list, func(a, b Claim) int { return cmp.Compare(a.Key, b.Key) })
	return list, errors.Join(damaged...)
}
