package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/jobprobe/jobprobe/reap"
)

const (
	// progressDelay is how long something may take before it is worth a word.
	progressDelay = 500 * time.Millisecond
	// progressTurn is the time between two words.
	progressTurn = 200 * time.Millisecond
	freeColumns  = 3
)

// progress keeps a line on standard error that says how far something is, if
// that is a terminal. The text is asked for from another goroutine. The function
// returned takes the line away: after it, the terminal is as it was.
func (c *console) progress(text func() string) (done func()) {
	s := screenOf(c.err)
	if !s.steers || s.width <= freeColumns {
		return func() {}
	}
	stop := make(chan struct{})
	var shows sync.WaitGroup
	shows.Go(func() {
		for pause, shown := progressDelay, false; ; pause, shown = progressTurn, true {
			select {
			case <-stop:
				if shown {
					fmt.Fprint(c.err, eraseLine)
				}
				return
			case <-time.After(pause):
			}
			// What reaches the last column may wrap, and Ctrl-C takes two.
			fmt.Fprint(c.err, eraseLine, displaywidth.TruncateString(printable(text()), s.width-freeColumns, ellipsis))
		}
	})
	return func() {
		close(stop)
		shows.Wait()
	}
}

// roll is which jobs have ended and which are still waited for.
type roll struct {
	mu    sync.Mutex
	ids   []string // each once, in the order given
	ended map[string]bool
	never map[string]bool // it cannot be waited for
}

func newRoll(ids []string) *roll {
	r := &roll{ended: map[string]bool{}, never: map[string]bool{}}
	for _, id := range ids {
		if _, again := r.ended[id]; !again {
			r.ids = append(r.ids, id)
			r.ended[id] = false
		}
	}
	return r
}

// see takes in what a look at a job has found.
func (r *roll) see(run reap.Waited) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[run.RunID] = run.Terminal
	r.never[run.RunID] = run.Error != nil
}

// mostNamed is how many jobs are named before the others are only counted.
const mostNamed = 5

// String says how many have ended and who is left.
func (r *roll) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended, left := 0, []string(nil)
	for _, id := range r.ids {
		switch {
		case r.ended[id]:
			ended++
		case !r.never[id]:
			left = append(left, id)
		}
	}
	text := fmt.Sprintf("%d of %d ended", ended, len(r.ids))
	if len(left) == 0 {
		return text
	}
	more := ""
	if n := len(left) - mostNamed; n > 0 {
		left, more = left[:mostNamed], fmt.Sprintf(" and %d more", n)
	}
	return text + ", still running: " + strings.Join(left, ", ") + more
}

// interruptedError says that a signal ended a command, when, and where it was.
type interruptedError struct {
	after time.Duration
	where string
}

func interrupted(began time.Time, where string) *interruptedError {
	return &interruptedError{time.Since(began), where}
}

func (e *interruptedError) Error() string {
	return fmt.Sprintf("interrupted after %s: %s", brief(e.after), e.where)
}
