package reap

import (
	"context"
	"errors"
	"sync"
)

// maxNotifiers bounds the notifiers that one Observer runs at a time, and the
// lifecycle commands: a pass over a store may end thousands of jobs at once.
const maxNotifiers = 8

// courier carries out deliveries beside the answers of an Observer. Its
// goroutines end when there is nothing to deliver.
//
// A delivery that waits has not touched its record, which still says that the
// notice is pending. So nothing is lost if the program ends, or gives it up:
// the next observer takes it.
type courier struct {
	mu      sync.Mutex
	known   map[string]bool // jobs whose delivery waits or runs
	waiting []errand
	running int           // goroutines, at most maxNotifiers
	idle    chan struct{} // closed when running falls to 0
	failed  []error       // since the last flush

	asking chan struct{} // holds one of each lifecycle command that runs
}

// errand is the delivery of one job's notice. Its error is about the record,
// never about the notifier, whose fate is on record.
type errand struct {
	job string
	run func() error
}

func newCourier() *courier {
	return &courier{known: map[string]bool{}, asking: make(chan struct{}, maxNotifiers)}
}

// take accepts a delivery, unless it has one of the same job in hand.
func (c *courier) take(job string, run func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[job] {
		return
	}
	c.known[job] = true
	c.waiting = append(c.waiting, errand{job, run})
	if c.running == maxNotifiers {
		return
	}
	if c.running++; c.running == 1 {
		c.idle = make(chan struct{})
	}
	go c.work()
}

// work carries out deliveries until none waits.
func (c *courier) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.mu.Unlock()
		err := next.run()
		c.mu.Lock()
		delete(c.known, next.job)
		if err != nil {
			c.failed = append(c.failed, err)
		}
	}
	if c.running--; c.running == 0 {
		close(c.idle)
	}
}

// flush waits until nothing runs. When the context ends, what has not begun is
// given up; what has is waited for all the same.
func (c *courier) flush(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for done := ctx.Done(); c.running > 0; {
		idle := c.idle
		c.mu.Unlock()
		select {
		case <-idle:
			c.mu.Lock()
		case <-done:
			done = nil
			c.mu.Lock()
			c.giveUp()
		}
	}
	err := errors.Join(c.failed...)
	c.failed = nil
	return err
}

// giveUp forgets what has not begun.
func (c *courier) giveUp() {
	for _, e := range c.waiting {
		delete(c.known, e.job)
	}
	c.waiting = nil
}
