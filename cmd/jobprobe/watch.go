package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-json-experiment/json"

	"github.com/jobprobe/jobprobe/reap"
)

// watchList lists again and again, until it is interrupted.
func watchList(ctx context.Context, c *console, obs *reap.Observer, opt reap.ListOptions, every time.Duration) error {
	began, looks := time.Now(), 0
	every = min(every, maxWindow)
	obs.Notices.Leave = nil // nobody waits for the end of a watch
	alarm := newAlarm(obs)
	defer alarm.close()
	var v view = &changes{c: c}
	if c.screen.steers && !c.json {
		v = newPage(c, obs)
	}
	jobs, live := 0, []string(nil)
	for ctx.Err() == nil {
		alarm.set(live)
		l, err := obs.List(ctx, opt)
		if err == nil {
			err = v.show(&l)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			v.close()
			return err
		}
		if err != nil {
			break
		}
		looks++
		jobs, live = len(l.Jobs), unended(l.Jobs)
		// What is watched only now may have changed since it was looked at.
		if !alarm.set(live) {
			alarm.wait(ctx, live, every)
		}
	}
	v.close()
	fmt.Fprintln(c.err, "jobprobe:", interrupted(began, fmt.Sprintf("%d of %d jobs had ended, after %d looks", jobs-len(live), jobs, looks)))
	return status(exitLeft)
}

// unended are the jobs without an end, which may change.
func unended(jobs []reap.Row) (ids []string) {
	for i := range jobs {
		if !jobs[i].Terminal && jobs[i].RecordState == "ok" {
			ids = append(ids, jobs[i].RunID)
		}
	}
	return ids
}

// view is what a watch is shown on.
type view interface {
	show(*reap.Listing) error
	close()
}

// page is a terminal that is drawn anew. What was on it comes back at the end.
type page struct {
	c   *console
	obs *reap.Observer
}

func newPage(c *console, obs *reap.Observer) *page {
	fmt.Fprint(c.out, otherPage)
	return &page{c, obs}
}

func (p *page) close() { fmt.Fprint(p.c.out, firstPage) }

func (p *page) show(l *reap.Listing) error {
	p.c.screen = screenOf(p.c.out)
	now := time.Now()
	s := p.c.screen
	rows := listRows(l.Jobs, now)
	title := fmt.Sprintf("%s  %d jobs, %d without an end; Ctrl-C ends the watch", now.Format(time.TimeOnly), len(l.Jobs), len(unended(l.Jobs)))
	if fit := max(1, s.height-2); len(rows) > fit {
		title = fmt.Sprintf("%s  the newest %d of %d jobs; Ctrl-C ends the watch", now.Format(time.TimeOnly), fit-1, len(l.Jobs))
		rows = rows[:fit]
	}
	text := s.layout([][]string{{title}}) + s.layout(rows, 5, 3)
	// One write and no clearing first, so that nothing flickers.
	var out bytes.Buffer
	out.WriteString(home)
	for line := range bytes.Lines([]byte(text)) {
		out.Write(bytes.TrimSuffix(line, []byte("\n")))
		out.WriteString(eraseRight + "\n")
	}
	out.WriteString(eraseBelow)
	_, err := p.c.out.Write(out.Bytes())
	return err
}

// changes prints what is new, oldest first: a line, or with --json a document, for
// each job that was not there or was different at the last look.
type changes struct {
	c    *console
	last map[string]string
}

// changedJSON is the document of one change.
type changedJSON struct {
	Job *reap.Row `json:"job,omitzero"`
	// Removed is the run id of a job that is not listed any more.
	Removed string `json:"removed,omitzero"`
}

func (ch *changes) close() {}

func (ch *changes) show(l *reap.Listing) error {
	seen := make(map[string]string, len(l.Jobs))
	for i := len(l.Jobs) - 1; i >= 0; i-- {
		job := &l.Jobs[i]
		data, err := json.Marshal(job)
		if err != nil {
			return err
		}
		if seen[job.RunID] = string(data); ch.last[job.RunID] == string(data) {
			continue
		}
		if err := ch.changed(job); err != nil {
			return err
		}
	}
	for id := range ch.last {
		if _, there := seen[id]; !there {
			if err := ch.removed(id); err != nil {
				return err
			}
		}
	}
	ch.last = seen
	return nil
}

func (ch *changes) changed(job *reap.Row) error {
	if ch.c.json {
		return ch.c.document(changedJSON{Job: job})
	}
	cells := listRows([]reap.Row{*job}, time.Now())[1]
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	return ch.line(cells[0], cells[1], cells[2], cells[3], cells[5])
}

func (ch *changes) removed(id string) error {
	if ch.c.json {
		return ch.c.document(changedJSON{Removed: id})
	}
	return ch.line(id, "not listed", "", "", "")
}

// line has the time of the change, because it stays.
func (ch *changes) line(id, state, outcome, reason, label string) error {
	text := fmt.Sprintf("%s  %-22s  %-10s  %-13s  %-27s  %s", time.Now().Format(time.RFC3339), id, state, outcome, reason, label)
	_, err := fmt.Fprintf(ch.c.out, "%s\n", bytes.TrimRight([]byte(text), " "))
	return err
}

// alarm wakes a watch: when a job is added or removed, a record of one without an
// end is replaced, its process exits, the terminal is resized, or it is time.
type alarm struct {
	obs     *reap.Observer
	files   *fsnotify.Watcher // nil if the system tells nothing
	known   map[string]bool   // jobs whose records were watched before
	resized chan os.Signal
}

func newAlarm(obs *reap.Observer) *alarm {
	a := &alarm{obs: obs, known: map[string]bool{}, resized: make(chan os.Signal, 1)}
	signal.Notify(a.resized, resized)
	a.files, _ = fsnotify.NewWatcher()
	return a
}

func (a *alarm) close() {
	signal.Stop(a.resized)
	if a.files != nil {
		a.files.Close()
	}
}

// set watches the store and the records of some jobs, and says whether one was not
// watched before. A record is replaced by rename, which takes the watched inode
// away, so each call watches what is there now.
func (a *alarm) set(ids []string) (more bool) {
	if a.files == nil {
		return false
	}
	_ = a.files.Add(a.obs.Store.Dir) // no store yet: the next turn tries again
	for _, id := range ids {
		dir := filepath.Join(a.obs.Store.Dir, id)
		if !a.known[id] {
			a.known[id], more = true, true
			_ = a.files.Remove(dir) // or each line that the job prints would wake
		}
		_ = a.files.Add(filepath.Join(dir, "job.json"))
	}
	return more
}

// settling is how long what comes together is waited for: a record is made in
// several steps, each of which wakes.
const settling = 50 * time.Millisecond

// wait returns when one of the jobs may have changed since it was set. File events
// are kept until then, and a job whose process is gone is looked at first.
func (a *alarm) wait(ctx context.Context, ids []string, every time.Duration) {
	looking, wake := context.WithTimeout(ctx, every)
	defer wake()
	if len(ids) > 0 {
		woken := make(chan struct{})
		defer func() { wake(); <-woken }()
		go func() {
			defer close(woken)
			w, err := a.obs.Wait(looking, ids, reap.WaitOptions{MaxWait: every.Seconds(), Poll: pollSeconds, Any: true})
			if err == nil && anyEnded(&w) {
				wake()
			}
		}()
	}
	var events <-chan fsnotify.Event
	var lost <-chan error
	if a.files != nil {
		events, lost = a.files.Events, a.files.Errors
	}
	for turn := looking; ; {
		select {
		case <-turn.Done():
			return
		case <-a.resized:
			return
		case <-lost: // some events, perhaps: look
			return
		case e := <-events:
			if e.Op.Has(fsnotify.Create) && filepath.Dir(e.Name) == filepath.Clean(a.obs.Store.Dir) {
				_ = a.files.Add(e.Name) // until its record is there
			}
			var stop context.CancelFunc
			turn, stop = context.WithTimeout(turn, settling)
			defer stop()
		}
	}
}

// anyEnded says whether a job of a wait has its end on record.
func anyEnded(w *reap.Waiting) bool {
	for i := range w.Runs {
		if w.Runs[i].Terminal {
			return true
		}
	}
	return false
}
