//go:build unix

package reap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// An actor is somebody who may change a job's record. It says whether the end,
// or the attachment, is its own.
type actor struct {
	name string
	act  func(o Observer) (won bool, err error)
}

// actors are the writers of a job that has started and whose process is gone.
var actors = []actor{
	{"observer", observes},
	{"hook", func(o Observer) (bool, error) {
		h, err := o.Hook(context.Background(), runID, Report{Status: "completed"})
		return h.Won, err
	}},
	{"lifecycle", func(o Observer) (bool, error) {
		o.Lifecycle.Command = []string{"echo", `{"contract_version":1,"ok":true,"data":{"lifecycle":{"available":true,` +
			`"value":{"terminal":true,"status":"timed_out","run":"{run_id}"}}}}`}
		return observes(o)
	}},
	{"supervisor", func(o Observer) (bool, error) {
		code := 3
		got, err := o.EndBySupervisor(context.Background(), runID, sidecar.SupervisorEnd{Status: "failed", ExitCode: &code, At: time.Now()})
		return got.Won, err
	}},
	{"kill", func(o Observer) (bool, error) { // its part that is about the record
		return o.ends(func(owed bool) (sidecar.Transition, error) {
			return o.Store.EndByKill(context.Background(), runID, sidecar.KillEnd{At: time.Now(), NoticeOwed: owed})
		})
	}},
	{"operator", func(o Observer) (bool, error) { // who has seen nothing conclusive
		return o.ends(func(owed bool) (sidecar.Transition, error) {
			return o.Store.Attest(context.Background(), runID, sidecar.Attestation{Text: "gone", At: time.Now(), NoticeOwed: owed})
		})
	}},
}

func (o Observer) ends(write func(owed bool) (sidecar.Transition, error)) (bool, error) {
	got, err := o.end(context.Background(), runID, o.Store.Read(runID), write)
	return got.Won, err
}

// starters are those of a job that is being prepared by a process that is gone.
var starters = []actor{
	actors[0], actors[1],
	{"attach", func(o Observer) (bool, error) {
		o.reach(stepDue)
		got, err := o.Store.Attach(context.Background(), runID, sidecar.Attachment{PID: absentPID, CreateTime: 1700000000.25})
		o.reach(stepWritten)
		if errors.Is(err, sidecar.ErrNotPreparing) {
			err = nil
		}
		return got.Won, err
	}},
}

func observes(o Observer) (bool, error) {
	l, err := o.observe(context.Background(), runID)
	return l.won, errors.Join(err, l.refused)
}

// errDied is what an actor panics with that dies on the way.
var errDied = errors.New("died")

// acting is an actor that waits at each step for leave to go on.
type acting struct {
	actor
	over, dead bool
	at         step
	steps      chan step
	leave      chan bool // false: die
	won        bool
	err        error
}

// start lets an actor come to its first step.
func (a actor) start(o Observer) *acting {
	p := &acting{actor: a, steps: make(chan step), leave: make(chan bool)}
	o.step = func(now step) {
		if p.dead {
			return
		}
		p.steps <- now
		if !<-p.leave {
			p.dead = true
			panic(errDied)
		}
	}
	go func() {
		defer close(p.steps)
		defer func() {
			if cause := recover(); cause != nil && cause != errDied {
				panic(cause)
			}
		}()
		p.won, p.err = a.act(o)
	}()
	p.arrive()
	return p
}

func (p *acting) arrive() {
	now, ok := <-p.steps
	p.at, p.over = now, !ok
}

// goOn lets an actor come to its next step, or end.
func (p *acting) goOn(live bool) {
	p.leave <- live
	p.arrive()
}

// stage is a job, and what was seen of it so far.
type stage struct {
	*bell
	first string // the end, as it was first seen
	told  int    // how far its notice has come
	dead  bool   // somebody has died
}

// deliveries are the stages of a notice, in their order.
var deliveries = map[string]int{"absent": 0, "null": 0, pendingNotice: 1, unknownNotice: 2, okNotice: 3}

func newStage(t *testing.T, preparing bool) *stage {
	t.Helper()
	fields := []sidecar.Field{rings("exit 0"), set("kept", `{"b": 1.50, "a": [null]}`)}
	if preparing {
		fields = append(fields, set("spawn_state", `"preparing"`), set("pid", "null"), set("spawner", process(childPID)))
	}
	s := &stage{bell: newBell(t, fields...)}
	s.courier = nil
	s.probe = func(jobprobe.Identity, time.Time) jobprobe.Liveness { return verdict(jobprobe.PIDAbsent) }
	return s
}

// check is made after each step of each actor.
func (s *stage) check() error {
	if kept := s.on(runID, "kept"); kept != `{"b":1.50,"a":[null]}` {
		return fmt.Errorf("a field of nobody's is %s", kept)
	}
	if n := s.rung(); n > 1 {
		return fmt.Errorf("%d were told", n)
	}
	end := ""
	for _, name := range []string{"finished_at", "status", "outcome", "reason_code", "terminal_source", "finished_at_precision"} {
		end += name + " " + s.on(runID, name) + " "
	}
	if s.on(runID, "finished_at") == "null" {
		end = ""
	}
	if s.first != "" && end != s.first {
		return fmt.Errorf("the end was %s and is %s", s.first, end)
	}
	s.first = end
	delivery := s.on(runID, "notify_delivery")
	now, known := deliveries[delivery]
	if !known || now < s.told || now > 0 && end == "" {
		return fmt.Errorf("notify_delivery went from %d to %s", s.told, delivery)
	}
	s.told = now
	return nil
}

// settled is checked when everybody is done, and after one more look.
func (s *stage) settled(all []*acting) error {
	winners, late := 0, false
	for _, p := range all {
		switch {
		case p.err != nil:
			return fmt.Errorf("%s: %w", p.name, p.err)
		case p.won && p.name != "attach":
			winners++
		case !p.won && !p.dead && (p.name == "hook" || p.name == "supervisor"):
			late = true
		}
	}
	if winners > 1 {
		return fmt.Errorf("%d say that the end is theirs", winners)
	}
	if ended := s.first != ""; winners == 0 && ended && !s.dead {
		return errors.New("nobody says that the end is theirs")
	}
	if kept := s.on(runID, "late_report") != "absent"; late && !kept {
		return errors.New("a report that came second is lost")
	}
	if _, err := observes(s.Observer); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	switch {
	case s.first == "":
		return errors.New("the next observer left the job without an end")
	case s.told == 3 && s.rung() == 1:
		return nil
	case s.told == 2 && s.dead: // whoever died knew what came of it
		return nil
	}
	return fmt.Errorf("in the end the notice is %d, %d were told", s.told, s.rung())
}

// Every pair of writers, the second of which does all that it does between any
// two steps of the first: the first end stays, with every field that nobody
// changes, one of them says that it is its own, and somebody is told once.
func TestPoint4EveryPairAtEveryStep(t *testing.T) {
	schedules := 0
	pairs := func(all []actor, preparing bool) {
		for _, a := range all {
			for _, b := range all {
				for k := 0; ; k++ {
					s := newStage(t, preparing)
					first := a.start(s.Observer)
					for range k {
						if !first.over {
							first.goOn(true)
						}
					}
					if first.over {
						break
					}
					schedules++
					at, playing := first.at, []*acting{b.start(s.Observer), first}
					err := s.check()
					for _, p := range playing {
						for err == nil && !p.over {
							p.goOn(true)
							err = s.check()
						}
					}
					if err == nil {
						err = s.settled(playing)
					}
					if err != nil {
						t.Fatalf("%s at step %d of %s: %v", b.name, at, a.name, err)
					}
				}
			}
		}
	}
	pairs(actors, false)
	pairs(starters, true)
	t.Logf("count: %d schedules of two writers", schedules)
	if schedules < 100 {
		t.Error("the writers have too few steps")
	}
}

// Several writers go on in any order, step by step, and some die on the way.
func TestPoint4Interleavings(t *testing.T) { interleave(t, 1) }

func TestStressPoint4Interleavings(t *testing.T) {
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
	interleave(t, 30)
}

func interleave(t *testing.T, runs int) {
	schedules, stepped, died := 0, 0, 0
	schedule := func(rt *rapid.T) {
		schedules++
		preparing := rapid.IntRange(0, 3).Draw(rt, "preparing") == 0
		cast := actors
		if preparing {
			cast = starters
		}
		s := newStage(t, preparing)
		var all, running []*acting
		for range rapid.IntRange(2, 4).Draw(rt, "actors") {
			p := rapid.SampledFrom(cast).Draw(rt, "actor").start(s.Observer)
			all, running = append(all, p), append(running, p)
		}
		defer func() {
			for _, p := range running {
				for !p.over {
					p.goOn(false)
				}
			}
		}()
		for len(running) > 0 {
			i := rapid.IntRange(0, len(running)-1).Draw(rt, "next")
			p := running[i]
			if !p.over {
				live := rapid.IntRange(0, 19).Draw(rt, "dies") > 0
				if !live {
					died++
					s.dead = true
				}
				stepped++
				p.goOn(live)
			}
			if err := s.check(); err != nil {
				rt.Fatalf("%s: %v", p.name, err)
			}
			if p.over {
				running = append(running[:i], running[i+1:]...)
			}
		}
		if err := s.settled(all); err != nil {
			rt.Fatal(err)
		}
	}
	for range runs {
		rapid.Check(t, schedule)
	}
	t.Logf("count: %d schedules, %d steps, %d writers died", schedules, stepped, died)
}
