//go:build unix

package sidecar_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe/sidecar"
)

var _ = register("storm", helpStorm)

// stormers is the number of writing processes, readers that of the goroutines
// which read beside them.
const (
	stormers = 16
	readers  = 4
)

// helpStorm DIR N changes the record until its standard input ends: its own
// counter, which nobody else may set back, and in between any change that there
// is. It prints how far it counted, and how many changes, ends and starts it made.
func helpStorm(args []string) error {
	s := sidecar.Store{Dir: args[0], LockWait: time.Minute}
	key := "w" + args[1]
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		bufio.NewReader(os.Stdin).ReadByte()
	}()
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return err
	}
	var counted, changes, ends, starts int64
	for running := true; running; {
		select {
		case <-stop:
			running = false
		default:
		}
		if _, err := s.Update(ctx, runID, func(r *sidecar.Record) error { return count(r, key, counted) }); err != nil {
			return err
		}
		counted++
		o := op{name: opNames[rand.IntN(len(opNames))], at: early.Add(time.Duration(rand.IntN(1e9)) * time.Microsecond), owed: rand.IntN(2) > 0}
		o.text = map[string]string{
			"foreign": fmt.Sprintf("x-%d", rand.IntN(10)), "unproven": "access_denied",
			"settle": fmt.Sprintf(`{"attempted":true,"ok":%v}`, rand.IntN(2) > 0)}[o.name]
		got, err := o.run(s)
		if err != nil && !errors.Is(err, sidecar.ErrNotPreparing) && !errors.Is(err, sidecar.ErrNotGone) {
			return fmt.Errorf("%+v: %w", o, err)
		}
		if got.Result == sidecar.Written {
			changes++
		}
		_, isEnd := enders[o.name]
		switch {
		case got.Won && isEnd:
			ends++
		case got.Won && o.name == "attach":
			starts++
		}
	}
	_, err := fmt.Println(counted, changes, ends, starts)
	return err
}

// count sets a writer's counter to one more than it left it at, and with it a
// total and a pad that every reading must find to agree.
func count(r *sidecar.Record, key string, was int64) error {
	if now, _ := r.Int(key); now != was {
		return fmt.Errorf("%s was left at %d and is %d", key, was, now)
	}
	total, _ := r.Int("total")
	r.Set(key, sidecar.Int(was+1))
	r.Set("total", sidecar.Int(total+1))
	r.Set("pad", sidecar.Text(padOf(total+1)))
	return nil
}

func padOf(total int64) string {
	return strings.Repeat(strconv.FormatInt(total%10, 10), int(total*97%5000))
}

// TestStorm lets 16 processes make every kind of change at once, while others
// read a hundred thousand times.
func TestStorm(t *testing.T) {
	storm(t, 0, 100_000)
}

// TestStressStorm does so for a minute.
func TestStressStorm(t *testing.T) {
	stressed(t)
	storm(t, time.Minute, 100_000)
}

// storm lasts at least so long and so many reads.
func storm(t *testing.T, least time.Duration, reads int64) {
	t.Helper()
	s := newStore(t, preparing())
	outs := make([]chan string, stormers)
	var closers []func() error
	for i := range stormers {
		cmd := helper(t, "storm", s.Dir, strconv.Itoa(i))
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(stdout)
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Fatalf("said %q, %v", line, err)
		}
		closers = append(closers, stdin.Close)
		outs[i] = make(chan string, 1)
		go func() {
			line, _ := lines.ReadString('\n')
			if err := cmd.Wait(); err != nil {
				line = err.Error()
			}
			outs[i] <- line
		}()
	}
	var done atomic.Int64
	over := time.Now().Add(least)
	var reading sync.WaitGroup
	for range readers {
		reading.Go(func() { readAlong(t, s, &done, reads, over) })
	}
	reading.Wait()
	for _, stop := range closers {
		stop()
	}
	var sum [4]int64 // counted, changes, ends, starts
	for i, out := range outs {
		line := <-out
		var n [4]int64
		if _, err := fmt.Sscan(line, &n[0], &n[1], &n[2], &n[3]); err != nil {
			t.Errorf("writer %d: %q", i, line)
		}
		for j := range sum {
			sum[j] += n[j]
		}
		outs[i] <- strconv.FormatInt(n[0], 10)
	}
	r := s.Read(runID).Record
	for i, out := range outs {
		if got, _ := r.Raw("w" + strconv.Itoa(i)); string(got) != <-out {
			t.Errorf("writer %d: its counter is %s", i, got)
		}
	}
	if total, _ := r.Int("total"); total != sum[0] || sum[2] != 1 || sum[3] > 1 || !r.Ended() {
		t.Errorf("total %d of %d; %d ends and %d starts", total, sum[0], sum[2], sum[3])
	}
	t.Logf("count: %d processes made %d changes and %d end; %d reads, none torn", stormers, sum[0]+sum[1], sum[2], done.Load()-readers)
}

// readAlong reads until so many readings were made, by all readers, and the
// time has come.
func readAlong(t *testing.T, s sidecar.Store, done *atomic.Int64, reads int64, over time.Time) {
	seen := sight{counts: map[string]int64{}}
	for done.Add(1) <= reads || time.Now().Before(over) {
		got := s.Read(runID)
		err := got.Err
		if err == nil {
			err = seen.follow(got.Record)
		}
		if err != nil {
			t.Errorf("%v: %v", got.State, err)
			return
		}
	}
}

// sight is what one reader has seen: how far each counter was, and the end.
type sight struct {
	counts map[string]int64
	end    string
}

// follow checks that a reading is whole, and that nothing in it was lost or set
// back since the one before. It looks at each member once: what it costs, the
// readings are fewer.
func (s *sight) follow(r *sidecar.Record) error {
	counters, pad, end := 0, `""`, ""
	for name, v := range r.All() {
		switch {
		case name == "total" || name[0] == 'w':
			n, err := strconv.ParseInt(string(v), 10, 64)
			if err != nil || n < s.counts[name] {
				return fmt.Errorf("%s went from %d to %s", name, s.counts[name], v)
			}
			s.counts[name] = n
			counters++
		case name == "pad":
			pad = string(v)
		case name == "finished_at" && v.Kind() == '"', name == "terminal_source":
			end += string(v)
		}
	}
	total := s.counts["total"]
	switch {
	case counters != len(s.counts):
		return fmt.Errorf("of %d counters %d are left", len(s.counts), counters)
	case pad != `"`+padOf(total)+`"`:
		return fmt.Errorf("a total of %d with a pad of %d", total, len(pad))
	case s.end != "" && end != s.end:
		return fmt.Errorf("the end was %s, is %s", s.end, end)
	}
	s.end = end
	return nil
}
