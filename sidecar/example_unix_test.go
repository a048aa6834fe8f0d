//go:build unix

package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jobprobe/jobprobe/sidecar"
)

// exampleStore makes a store with one job in it.
func exampleStore() (store sidecar.Store, id string, remove func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	store, id = sidecar.Store{Dir: dir}, "20260101T000000-0000aa"
	err = store.Create(id, sidecar.NewRecord(
		sidecar.Field{Name: "run_id", Value: sidecar.Text(id)},
		sidecar.Field{Name: "label", Value: sidecar.Text("old")},
		sidecar.Field{Name: "finished_at", Value: sidecar.Null()},
		sidecar.Field{Name: "cost", Value: sidecar.Value("1.50")}, // nobody here knows it
	))
	if err != nil {
		panic(err)
	}
	return store, id, func() { os.RemoveAll(dir) }
}

// Reading takes no lock. What there is to read is told apart, and only "ok" has
// a record.
func ExampleStore_Read() {
	store, id, remove := exampleStore()
	defer remove()
	for _, id := range []string{id, "no-such-run", "../escape"} {
		reading := store.Read(id)
		if reading.State != sidecar.OK {
			fmt.Println(reading.State, errors.Is(reading.Err, sidecar.ErrRunID))
			continue
		}
		label, _ := reading.Record.Text("label")
		fmt.Println(reading.State, label, "ended:", reading.Record.Ended())
	}
	// Output:
	// ok old ended: false
	// absent false
	// unread true
}

// A change is made under the lock, of what is on disk then. What it asks for and
// is there already is not written; what it does not know is kept.
func ExampleStore_Update() {
	store, id, remove := exampleStore()
	defer remove()
	ctx := context.Background()
	rename := func(r *sidecar.Record) error {
		r.Set("label", sidecar.Text("new"))
		return nil
	}
	for range 2 {
		change, err := store.Update(ctx, id, rename)
		if err != nil {
			panic(err)
		}
		fmt.Println(change.Result)
	}
	_, err := store.Update(ctx, "no-such-run", rename)
	if refused, ok := errors.AsType[*sidecar.RefusedError](err); ok {
		fmt.Println("refused:", refused.Reason)
	}
	fmt.Println(string(store.Read(id).Record.Append(nil)))
	// Output:
	// written
	// unchanged
	// refused: absent
	// {
	//   "run_id": "20260101T000000-0000aa",
	//   "label": "new",
	//   "finished_at": null,
	//   "cost": 1.50
	// }
}
