package spawn

import (
	"cmp"
	"slices"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Children returns the committed slots of a parent, in the order in which they
// were admitted, exactly as the reports of their admissions had them. A program
// that was killed before it was told seeds from them what it has reserved.
//
// It reads every record of the store, takes no lock and observes nothing: a
// child that has ended since is a committed slot still. Jobs that were started
// by [Start], whatever parent they name, fill no slot. A record that cannot be
// read is nobody's child.
func Children(store sidecar.Store, parent string) ([]Slot, error) {
	family, err := children(store, parent)
	if err != nil {
		return nil, err
	}
	var slots []Slot
	for _, c := range family {
		if c.state == "started" {
			slots = append(slots, c.Slot)
		}
	}
	return slots, nil
}

// child is a job that was recorded for a slot, whatever became of it.
type child struct {
	Slot
	state     string // spawn_state
	submitted string
}

// children returns the jobs recorded for a parent's slots.
func children(store sidecar.Store, parent string) ([]child, error) {
	ids, err := store.IDs()
	if err != nil {
		return nil, err
	}
	var family []child
	for _, id := range ids {
		rec := store.Read(id).Record
		if rec == nil || rec.RunID() != id {
			continue
		}
		of, _ := rec.Text("parent_run_id")
		index, ok := rec.Int("spawn_index")
		call, named := rec.Text("tool_call_id")
		if of != parent || !ok || !named {
			continue
		}
		c := child{Slot: Slot{SpawnIndex: int(index), ToolCallID: call, RunID: id, Outcome: Failed}}
		c.state, _ = rec.Text("spawn_state")
		c.submitted, _ = rec.Text("submitted_at")
		if c.state == "started" {
			raw, _ := rec.Raw("process_identity")
			c.Identity, _ = jobprobe.ParseIdentity(raw)
			c.Outcome = Committed
		}
		family = append(family, c)
	}
	// All of a batch are recorded one after the other, before the next batch.
	slices.SortFunc(family, func(a, b child) int {
		return cmp.Or(cmp.Compare(a.submitted, b.submitted), cmp.Compare(a.SpawnIndex, b.SpawnIndex))
	})
	return family, nil
}
