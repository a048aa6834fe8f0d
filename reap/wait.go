package reap

import (
	"context"
	"errors"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

const (
	// slowPoll is the time between looks at a job of which both the record's
	// change and the process's exit are watched.
	slowPoll = 30 * time.Second
	// firstLook is the time that the first look is given, whatever the
	// window: a window of 0 observes each job once.
	firstLook = 250 * time.Millisecond
)

// Wait observes jobs until all have ended, nothing more can be waited for, or
// the window has closed. It looks again when the record changes, when the
// process exits, and every Poll where the system tells neither. A window of 0
// observes each job once.
//
// The window holds whatever else happens: a job whose lock is held by
// somebody who does not answer is then told of as it was last seen. The error
// is the context's; the answer is then of that moment.
func (o Observer) Wait(ctx context.Context, ids []string, opt WaitOptions) (Waiting, error) {
	window, poll := clamp(opt.MaxWait, 0, 600), clamp(opt.Poll, 0.05, 60)
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := wait{
		obs:   o,
		ids:   ids,
		poll:  seconds(poll),
		once:  window == 0,
		runs:  make([]Waited, len(ids)),
		where: make([]standing, len(ids)),
		looks: make([]int, len(ids)),
		seen:  make(chan sighting, len(ids)),
		watch: newWatch(ctx),
	}
	for i, id := range ids {
		go w.follow(ctx, i, id)
	}
	w.collect(ctx, seconds(window), opt.Any)
	out := reply(w.runs, w.where)
	out.MaxWait, out.RequestedMaxWait = window, opt.MaxWait
	out.PollInterval, out.RequestedPoll = poll, opt.Poll
	return out, outer.Err()
}

// wait is one call of Wait.
type wait struct {
	obs   Observer
	ids   []string
	poll  time.Duration
	once  bool // the window is no longer than one look
	watch *watch
	seen  chan sighting

	// Only collect touches these.
	runs  []Waited
	where []standing
	looks []int // how often each job was seen
}

// sighting is what one look at one job found.
type sighting struct {
	index int
	run   Waited
	where standing
}

// collect takes in sightings until the wait is over.
func (w *wait) collect(ctx context.Context, window time.Duration, anyOne bool) {
	closed := time.After(window)
	first := time.After(max(window, firstLook))
	for unseen := len(w.runs); ; {
		if unseen == 0 && (closed == nil || w.over(anyOne)) {
			return
		}
		select {
		case s := <-w.seen:
			if w.looks[s.index] == 0 {
				unseen--
			}
			w.looks[s.index]++
			w.runs[s.index], w.where[s.index] = s.run, s.where
			continue
		case <-ctx.Done():
		case <-closed:
			if closed = nil; unseen > 0 {
				continue // each job is looked at once
			}
		case <-first:
		}
		w.fill()
		return
	}
}

// over says whether nothing more is to be waited for. A job that seems to
// have stopped, or never to start, is given a second look.
func (w *wait) over(anyOne bool) bool {
	again := false
	for i, at := range w.where {
		switch at {
		case pending:
			again = true
		case stopped, unresolved:
			again = again || w.looks[i] < 2
		case atEnd:
			if anyOne {
				return true
			}
		case unanswerable:
		}
	}
	return !again
}

// fill says of the jobs whose look has not come back what can be said
// without a lock.
func (w *wait) fill() {
	for i := range w.runs {
		if w.looks[i] == 0 {
			l := look{id: w.ids[i], reading: w.obs.Store.Read(w.ids[i])}
			w.obs.look(&l)
			w.runs[i] = w.obs.waited(&l, nil)
			w.where[i] = w.obs.standing(&w.runs[i])
		}
	}
}

// follow looks at one job until it has ended or cannot be looked at.
func (w *wait) follow(ctx context.Context, index int, id string) {
	for again := false; ; {
		var changed <-chan struct{}
		watched := false
		if sidecar.ValidRunID(id) {
			changed, watched = w.watch.file(w.obs.recordPath(id))
		}
		l, err := w.obs.observe(ctx, id)
		run := w.obs.waited(&l, err)
		where := w.obs.standing(&run)
		select {
		case w.seen <- sighting{index, run, where}:
		case <-ctx.Done():
			return
		}
		if w.once || where == atEnd || where == unanswerable {
			return
		}
		var exited <-chan struct{}
		release := func() {}
		if where == pending {
			exited, release = w.pin(ctx, &l)
		}
		// A process that is gone is looked at again at once, but only once: if
		// its end is still not due, the record is at odds with itself.
		if again = !again && isClosed(exited); !again && isClosed(exited) {
			exited = nil
		}
		pause := w.poll
		if watched && exited != nil {
			pause = slowPoll
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-exited:
		case <-timer.C:
		}
		timer.Stop()
		release()
		if ctx.Err() != nil {
			return
		}
	}
}

// pin holds the process that the job's end depends on: its own while that is
// there, then its supervisor. The channel is closed when it has exited; it is
// nil if the process cannot be held.
func (w *wait) pin(ctx context.Context, l *look) (exited <-chan struct{}, release func()) {
	id := identityOf(l.record(), "process_identity")
	if l.ending {
		id = identityOf(l.record(), "supervisor")
	}
	gone := make(chan struct{})
	p, err := jobprobe.Open(id)
	switch {
	case errors.Is(err, jobprobe.ErrNoProcess):
		close(gone) // since we looked
		return gone, func() {}
	case err != nil:
		return nil, func() {}
	}
	go func() {
		if _, err := p.Wait(ctx); err == nil {
			close(gone)
		}
	}()
	return gone, func() { p.Close() }
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
