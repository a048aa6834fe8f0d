package sidecar_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/jobprobe/jobprobe/sidecar"
)

// errDied is what a writer panics with that dies on the way. Its lock goes as
// it does with a process, and its temporary file stays.
var errDied = errors.New("died")

// writing is a transaction that waits at each step for leave to go on.
type writing struct {
	op    op
	at    string // the step that it waits at; "" if it is over
	steps chan string
	leave chan bool // false: die
	dead  bool

	// Known from the moment that it holds the lock and has read the record.
	next facts
	want answer

	got sidecar.Transition
	err error
}

// start begins a transaction, which comes to its first step.
func (o op) start(s sidecar.Store) *writing {
	w := &writing{op: o, steps: make(chan string), leave: make(chan bool)}
	go func() {
		defer close(w.steps)
		defer func() {
			if cause := recover(); cause != nil && cause != errDied {
				panic(cause)
			}
		}()
		w.got, w.err = o.run(s.WithSteps(func(point string) {
			if w.dead {
				return
			}
			w.steps <- point
			if !<-w.leave {
				w.dead = true
				panic(errDied)
			}
		}))
	}()
	w.at = <-w.steps
	return w
}

// goOn lets a transaction come to its next step, or end.
func (w *writing) goOn(live bool) {
	w.leave <- live
	w.at = <-w.steps
}

// holds reports whether the transaction is inside the section.
func (w *writing) holds() bool { return w.at != "" && w.at != "lock" && w.at != "released" }

// world is a run and the facts that its record says.
type world struct {
	store sidecar.Store
	now   facts
	watch watcher
}

// step lets one transaction go on, or die, and checks what then is on disk and
// what its writer was told.
func (w *world) step(t *writing, live bool) error {
	from := t.at
	t.goOn(live)
	switch {
	case t.at == "read": // nobody else changes the record from here on
		t.next, t.want = w.now.after(t.op)
	case t.at == "renamed":
		w.now = t.next
	case t.at == "" && t.dead && t.got != (sidecar.Transition{}):
		return fmt.Errorf("%+v died at %s and was told %+v", t.op, from, t.got)
	case t.at == "released", t.at == "" && t.dead:
	case t.at == "":
		if err := t.want.told(t.changes(), t.got, t.err); err != nil {
			return fmt.Errorf("%+v: %w", t.op, err)
		}
	}
	if err := w.watch.sees(w.now); err != nil {
		return fmt.Errorf("%+v from %s to %q: %w", t.op, from, t.at, err)
	}
	return nil
}

// changes reports whether the transaction published something.
func (t *writing) changes() bool { return t.got.Result == sidecar.Written }

// TestInterleavings lets several writers go on in any order, step by step, some
// of them dying on the way, while somebody reads after every step. All of it
// comes to what the transactions are one after the other, as they got the lock.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	dir, n, stepped, died := tempDir(t), 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		s, now := begin(rt, filepath.Join(dir, fmt.Sprint(n)))
		w := &world{store: s, now: now, watch: watcher{store: s}}
		var running []*writing
		defer func() {
			for _, r := range running {
				for r.at != "" {
					r.goOn(false)
				}
			}
		}()
		for i := range rapid.IntRange(2, 4).Draw(rt, "writers") {
			running = append(running, drawOp(rt, early.Add(time.Duration(i)*time.Second)).start(s))
		}
		for len(running) > 0 {
			// Whoever waits for a lock that is held would only wait.
			free := running
			if i := slices.IndexFunc(running, (*writing).holds); i >= 0 && !rapid.Bool().Draw(rt, "try") {
				free = running[i : i+1]
				for _, r := range running {
					if r.at == "released" {
						free = append(slices.Clone(free), r)
					}
				}
			}
			r := rapid.SampledFrom(free).Draw(rt, "writer")
			live := rapid.IntRange(0, 15).Draw(rt, "dies") != 11 // small ones are drawn more often
			if err := w.step(r, live); err != nil {
				rt.Fatal(err)
			}
			stepped++
			if r.dead {
				died++
			}
			running = slices.DeleteFunc(running, func(r *writing) bool { return r.at == "" })
		}
		// Whoever comes next finds the lock free and leaves no trace of the dead.
		if got, err := s.Update(ctx, runID, set("last", sidecar.Int(1))); err != nil || got.Result != sidecar.Written {
			rt.Fatal(got.Result, err)
		}
		wantNoTemp(rt, filepath.Join(s.Dir, runID), "the last")
	})
	t.Logf("count: %d interleavings, %d steps, %d writers died on the way", n, stepped, died)
}

// TestEveryPairAtEveryStep lets each kind of writer come at each step of each
// other. Before the lock is taken and after it is given back it goes through;
// in between it is refused, and nothing of it is seen.
func TestEveryPairAtEveryStep(t *testing.T) {
	t.Parallel()
	pairs, refused := 0, 0
	for i, first := range opNames {
		for j, second := range opNames {
			if runtime.GOOS == "windows" && (i+j)%4 != 0 {
				continue // a file costs ten times as much there
			}
			for stop := 0; ; stop++ {
				over, held, err := pair(t, first, second, stop)
				if err != nil {
					t.Errorf("%s, and %s at step %d: %v", first, second, stop, err)
				}
				if over {
					break
				}
				pairs++
				if held {
					refused++
				}
			}
		}
	}
	t.Logf("count: %d kinds of writers, %d meetings, %d refused", len(opNames), pairs, refused)
}

// pair stops a transaction after so many steps, lets another one go through or
// be refused, and finishes the first. It is over if there are fewer steps.
func pair(t *testing.T, first, second string, stop int) (over, held bool, err error) {
	t.Helper()
	s := sidecar.Store{Dir: tempDir(t), LockWait: time.Hour}
	w := &world{store: s, now: facts{spawn: "preparing"}, watch: watcher{store: s}}
	if err := s.Create(runID, preparing()); err != nil {
		return true, false, err
	}
	a := opAt(first, early).start(s)
	for range stop {
		if err := w.step(a, true); err != nil || a.at == "" {
			return true, false, err
		}
	}
	held = a.holds()
	if held {
		s.LockWait = time.Millisecond
		got, err := opAt(second, late).run(s)
		var refused *sidecar.RefusedError
		if !errors.As(err, &refused) || refused.Reason != sidecar.LockUnavailable || got.Won || got.Result != sidecar.NotDone {
			return false, true, fmt.Errorf("beside %s: %+v, %w", a.at, got, err)
		}
	} else {
		b := opAt(second, late).start(s)
		for b.at != "" {
			if err := w.step(b, true); err != nil {
				return false, false, err
			}
		}
	}
	for a.at != "" {
		if err := w.step(a, true); err != nil {
			return false, held, err
		}
	}
	return false, held, nil
}
