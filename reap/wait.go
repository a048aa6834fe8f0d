package reap

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"syscall"
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
	firstLook = time.Second
	// lastLook is how long a wait that is over gives those who still look.
	lastLook = 100 * time.Millisecond
)

// Wait observes jobs until all have ended, nothing more can be waited for, or
// the window has closed. It looks again when the record changes, when the
// process exits, and every Poll where the system tells neither. A window of 0
// observes each job once.
//
// The window holds whatever else happens: a job whose lock is held by
// somebody who does not answer is then told of as it was last seen. Only a
// first look that is held up so is given a second, if the window is shorter.
// The error is the context's; the answer is then of that moment.
func (o Observer) Wait(ctx context.Context, ids []string, opt WaitOptions) (Waiting, error) {
	window, poll := clamp(opt.MaxWait, 0, 600), clamp(opt.Poll, 0.05, 60)
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := wait{
		obs:   o,
		ids:   ids,
		index: make(map[string][]int, len(ids)),
		poll:  seconds(poll),
		once:  window == 0,
		runs:  make([]Waited, len(ids)),
		where: make([]standing, len(ids)),
		looks: make([]int, len(ids)),
		pins:  make(chan struct{}, mostPins()),
		seen:  make(chan sighting, len(ids)),
		watch: newWatch(),
		told:  opt.Seen,
	}
	var followers sync.WaitGroup
	followers.Go(func() { w.watch.dispatch(ctx) })
	for i, id := range ids {
		w.index[id] = append(w.index[id], i)
	}
	followers.Go(func() {
		distinct := slices.Collect(maps.Keys(w.index))
		// Reading and probing, which never block, need much more stack than
		// waiting does: a few goroutines have it.
		_ = each(ctx, len(distinct), func(i int) {
			g := w.glimpse(ctx, distinct[i])
			followers.Go(func() { w.follow(ctx, g) })
		})
	})
	w.collect(ctx, seconds(window), opt.Any)
	cancel()
	leave(&followers)
	out := reply(w.runs, w.where)
	out.MaxWait, out.RequestedMaxWait = window, opt.MaxWait
	out.PollInterval, out.RequestedPoll = poll, opt.Poll
	return out, outer.Err()
}

// leave waits for those who follow, now that they have nothing to wait for. One
// in the middle of a transaction is left to finish it.
func leave(followers *sync.WaitGroup) {
	left := make(chan struct{})
	go func() {
		defer close(left)
		followers.Wait()
	}()
	select {
	case <-left:
	case <-time.After(lastLook):
	}
}

// wait is one call of Wait.
type wait struct {
	obs   Observer
	ids   []string
	index map[string][]int // where in ids each id stands
	poll  time.Duration
	once  bool // the window is no longer than one look
	watch *watch
	seen  chan sighting
	told  func(Waited)  // nil: nobody
	pins  chan struct{} // holds one of each process that is pinned

	// Only collect touches these.
	runs  []Waited
	where []standing
	looks []int // how often each job was seen
}

// sighting is what one look at one job found.
type sighting struct {
	id    string
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
			for _, i := range w.index[s.id] {
				if w.looks[i] == 0 {
					unseen--
				}
				w.looks[i]++
				w.runs[i], w.where[i] = s.run, s.where
			}
			if w.told != nil {
				w.told(s.run)
			}
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

// fill says of the jobs whose look has not come back what can be said without a
// lock. An end that is due may be written any moment: they are pending.
func (w *wait) fill() {
	for i := range w.runs {
		if w.looks[i] == 0 {
			l, err := w.obs.examine(w.ids[i])
			w.runs[i] = waited(&l, err)
			if l.due != nothingDue {
				w.runs[i].PossiblyOrphaned = false
			}
			w.where[i] = w.obs.standing(&w.runs[i])
		}
	}
}

// glimpse is what one look at a job has found so far, and the context that ends
// when its record changes after that.
type glimpse struct {
	look
	err     error
	changed context.Context
	watched bool
}

func (w *wait) glimpse(ctx context.Context, id string) *glimpse {
	g := &glimpse{changed: ctx}
	if sidecar.ValidRunID(id) {
		g.changed, g.watched = w.watch.file(ctx, w.obs.recordPath(id))
	}
	g.look, g.err = w.obs.examine(id)
	return g
}

// follow settles what the looks at one job find due, until it has ended or
// cannot be looked at.
func (w *wait) follow(ctx context.Context, g *glimpse) {
	id := g.id
	for again := false; ; g = w.glimpse(ctx, id) {
		w.obs.settle(ctx, &g.look)
		if g.starved() {
			w.rest(g.changed, nil, g.watched)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		run := waited(&g.look, g.err)
		where := w.obs.standing(&run)
		select {
		case w.seen <- sighting{id, run, where}:
		case <-ctx.Done():
			return
		}
		if w.once || where == atEnd || where == unanswerable {
			return
		}
		p, gone := (*jobprobe.Process)(nil), false
		if where == pending {
			p, gone = w.pin(&g.look)
		}
		// A process that is gone is looked at again at once, but only once: if
		// its end is still not due, the record is at odds with itself.
		if again = gone && !again; !again {
			w.rest(g.changed, p, g.watched)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// rest returns when the record has changed, the process has exited, or it is
// time to look anyway.
func (w *wait) rest(changed context.Context, p *jobprobe.Process, watched bool) {
	pause := w.poll
	if watched && p != nil {
		pause = slowPoll
	}
	turn, cancel := context.WithTimeout(changed, pause)
	defer cancel()
	if p != nil {
		_, err := p.Wait(turn)
		p.Close()
		<-w.pins
		if err == nil || turn.Err() != nil {
			return
		}
		// It cannot be waited for after all.
		var done context.CancelFunc
		turn, done = context.WithTimeout(turn, w.poll)
		defer done()
	}
	<-turn.Done()
}

// starved says that a look failed because there are too many open files, which
// says nothing about the job.
func (l *look) starved() bool {
	return slices.ContainsFunc([]error{l.reading.Err, l.refused}, func(err error) bool {
		return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
	})
}

// mostPins is how many processes a wait may pin, each of which takes two
// descriptors, so that enough are left for looking.
func mostPins() int {
	most := descriptors()
	return max(0, most-max(48, most/8)) / 2
}

// pin holds the process that the job's end depends on: its own while that is
// there, then its supervisor. It is nil if the process cannot be held, and
// gone if there is nothing to hold since the look.
func (w *wait) pin(l *look) (p *jobprobe.Process, gone bool) {
	select {
	case w.pins <- struct{}{}:
	default:
		return nil, false
	}
	p, gone = l.pin()
	if p == nil {
		<-w.pins
	}
	return p, gone
}

// pin opens that process.
//
// Where the record has no stamps it is whoever has the number now. That decides
// nothing: when the process exits, the job is looked at.
func (l *look) pin() (p *jobprobe.Process, gone bool) {
	id, err := l.who, error(nil)
	switch {
	case l.ending:
		id = identityOf(l.record(), "supervisor")
	case id == (jobprobe.Identity{}) && l.live.Conclusion == jobprobe.Alive:
		pid, _ := l.record().Int("pid")
		id, err = jobprobe.Identify(int(pid))
	}
	if err == nil {
		p, err = jobprobe.Open(id)
	}
	return p, errors.Is(err, jobprobe.ErrNoProcess)
}
