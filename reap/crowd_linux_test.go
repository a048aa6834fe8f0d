package reap

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe/sidecar"
)

// crowdEnv makes this binary one of a crowd: it reads lines of a kind of
// observer and a store, is that observer once, and prints what it was told.
const crowdEnv = "JOBPROBE_CROWD"

func init() {
	if os.Getenv(crowdEnv) == "" {
		return
	}
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		kind, dir, _ := strings.Cut(lines.Text(), " ")
		told, err := crowdKinds[kind](New(dir))
		if err != nil {
			told.Trouble = err.Error()
		}
		out.Encode(told)
	}
	os.Exit(0)
}

// told is what one observer was told of the job's end. Sweep and kill tell
// less than the others.
type told struct {
	FinishedAt, Source, Outcome string
	Running                     bool   // the job has no end
	Won                         bool   // this observer wrote the end
	Killed                      string // the reason code of a kill
	Trouble                     string
}

func (r *told) end(terminal bool, at, source []byte, outcome *string) {
	if r.Running = !terminal; terminal {
		r.FinishedAt, r.Source, r.Outcome = string(at), string(source), str(outcome)
	}
}

// crowdKinds are the observers. Each waits for the notices that it owes.
var crowdKinds = map[string]func(Observer) (told, error){
	"status": func(o Observer) (r told, err error) {
		job, err := o.Status(context.Background(), runID)
		if err == nil {
			r.end(job.Terminal, job.FinishedAt, job.TerminalSource, job.Outcome)
		}
		return r, flushed(o, err)
	},
	"list": func(o Observer) (r told, err error) {
		l, err := o.List(context.Background(), ListOptions{})
		if err == nil {
			row := l.Jobs[0]
			r.end(row.Terminal, row.FinishedAt, row.TerminalSource, row.Outcome)
		}
		return r, flushed(o, err)
	},
	"wait": func(o Observer) (r told, err error) {
		w, err := o.Wait(context.Background(), []string{runID}, WaitOptions{MaxWait: 60, Poll: 1})
		if err == nil {
			run := w.Runs[0]
			r.end(w.AllTerminal && run.Terminal, run.FinishedAt, run.TerminalSource, run.Outcome)
		}
		return r, flushed(o, err)
	},
	"sweep": func(o Observer) (r told, err error) {
		s, err := o.Sweep(context.Background(), false)
		if r.Won = len(s.Ended) > 0; err == nil && (s.Observed != 1 || len(s.Refused)+len(s.Unresolved)+len(s.Unusable) > 0) {
			err = fmt.Errorf("swept %+v", s)
		}
		return r, flushed(o, err)
	},
	"hook": func(o Observer) (r told, err error) {
		h, err := o.Hook(context.Background(), runID, Report{Status: "completed"})
		r.Won = h.Won
		return r, flushed(o, err)
	},
	"kill": func(o Observer) (r told, err error) {
		k, err := o.Kill(context.Background(), runID, KillOptions{})
		if r.Killed = k.ReasonCode; k.Killed != k.Recorded {
			err = errors.Join(err, fmt.Errorf("killed %+v", k))
		}
		return r, flushed(o, err)
	},
}

func flushed(o Observer, err error) error {
	if failed := o.Flush(context.Background()); err == nil {
		err = failed
	}
	return err
}

// crowd is many processes, started once and told what to be in each round.
type crowd []member

type member struct {
	in  io.Writer
	out *json.Decoder
}

func newCrowd(t *testing.T, n int) (c crowd) {
	t.Helper()
	for range n {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crowdEnv+"=1", "GOMAXPROCS=1", "GORACE=atexit_sleep_ms=0")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
		c = append(c, member{in, json.NewDecoder(out)})
	}
	return c
}

// crowdOrder is who is told to look first; each round begins elsewhere in it.
var crowdOrder = []string{"status", "hook", "list", "kill", "wait", "sweep"}

// look lets every process of the crowd look at the bell's job, and returns
// what each was and was told.
func (c crowd) look(t *testing.T, b *bell, round int) (kind func(i int) string, all []told) {
	t.Helper()
	kind = func(i int) string { return crowdOrder[(i+round)%len(crowdOrder)] }
	for i, m := range c {
		if _, err := fmt.Fprintf(m.in, "%s %s\n", kind(i), b.Store.Dir); err != nil {
			t.Fatal(err)
		}
	}
	all = make([]told, len(c))
	for i, m := range c {
		if err := m.out.Decode(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return kind, all
}

// ended is what everybody is told who is told of the end on record.
func (b *bell) ended() told {
	source := b.on(runID, "terminal_source")
	return told{FinishedAt: b.on(runID, "finished_at"), Source: source, Outcome: map[string]string{
		`"` + sidecar.SourceHook + `"`: sidecar.Succeeded, `"` + sidecar.SourceReaper + `"`: sidecar.Indeterminate,
		`"` + sidecar.SourceKill + `"`: sidecar.Cancelled,
	}[source]}
}

// observe lets every process of the crowd look at one dead job at once.
func (c crowd) observe(t *testing.T, round int) (source string) {
	t.Helper()
	b := newBell(t, rings("exit 0"), set("pgid", fmt.Sprint(absentPID)))
	seen := watchJob(t, b.dir)
	kind, all := c.look(t, b, round)
	rec := func(name string) string { return b.on(runID, name) }
	source = rec("terminal_source")
	winners := map[string]int{}
	for i, r := range all {
		want := b.ended()
		switch kind(i) {
		case "sweep", "hook":
			if r.Won {
				winners[kind(i)]++
			}
			want = told{Won: r.Won}
		case "kill":
			want = told{Killed: killGroupGone}
		}
		if r != want {
			t.Errorf("round %d: %s was told %+v, on record is %+v", round, kind(i), r, want)
		}
	}
	hooked := source == `"`+sidecar.SourceHook+`"`
	if winners["hook"]+winners["sweep"] > 1 || hooked != (winners["hook"] == 1) {
		t.Errorf("round %d: ended by %s, and these say that they ended it: %v", round, source, winners)
	}
	b.want(okNotice, 1)
	// The end, the claim of the notice, its result, and the first late report.
	published := 3
	if rec("late_report") != "absent" {
		published++
	}
	if n := seen.count(); n != published || !hooked && published == 3 {
		t.Errorf("round %d: ended by %s, %d publications, late report %s", round, source, n, rec("late_report"))
	}
	return source
}

// stop lets every process of the crowd look at one live job at once: some
// kill it, and one or none reports its end before.
func (c crowd) stop(t *testing.T, round int) (source string) {
	t.Helper()
	b := newBell(t)
	p := session(t, scriptIdle, runID).ready()
	id := whoIs(t, p.pid)
	b.rewrite(append(stamped(t, id), rings("exit 0"))...)
	kind, all := c.look(t, b, round)
	mustBeGone(t, id)
	source = b.on(runID, "terminal_source")
	won, signalled := 0, 0
	for i, r := range all {
		want := b.ended()
		switch {
		case kind(i) == "kill":
			if r.Killed == KillSignalled {
				signalled++
			}
			want = told{Killed: r.Killed} // or it came too late
		case kind(i) == "sweep" || kind(i) == "hook":
			if r.Won {
				won++
			}
			want = told{Won: r.Won}
		case r.Running:
			want = told{Running: true}
		}
		if r != want {
			t.Errorf("round %d: %s was told %+v, on record is %+v", round, kind(i), r, want)
		}
	}
	// An observer wins only if a kill could not get the lock and signals first.
	least, most := 0, 0
	switch source {
	case `"` + sidecar.SourceHook + `"`:
		least, most = 1, 1
	case `"` + sidecar.SourceReaper + `"`:
		most = 1
	}
	if won < least || won > most || signalled == 0 {
		t.Errorf("round %d: ended by %s, %d say that the end is theirs, %d have signalled", round, source, won, signalled)
	}
	b.want(okNotice, 1)
	p.end()
	return source
}

const crowdSize = 64

func manyLook(t *testing.T, rounds int, look func(c crowd, t *testing.T, round int) (source string)) {
	c := newCrowd(t, crowdSize)
	sources := map[string]int{}
	for round := range rounds {
		sources[look(c, t, round)]++
		if t.Failed() {
			return
		}
	}
	t.Logf("count: %d rounds of %d processes on one job, ended by %v", rounds, crowdSize, sources)
	if len(sources) < 2 && rounds >= 50 {
		t.Errorf("all ends have one source: %v", sources)
	}
}

// Any number of observers in processes of their own, of every kind, look at
// one dead job at once: it ends once, somebody is told once, and all who say
// how it ended say the same.
func TestPoint3OneEndInTheWorld(t *testing.T) { manyLook(t, 50, crowd.observe) }

func TestStressPoint3OneEndInTheWorld(t *testing.T) {
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
	manyLook(t, 500, crowd.observe)
}

// So they do at one live job that some of them kill and some report as ended.
func TestPoint4KillsAmongObservers(t *testing.T) { manyLook(t, 10, crowd.stop) }

func TestStressPoint4KillsAmongObservers(t *testing.T) {
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
	manyLook(t, 200, crowd.stop)
}
