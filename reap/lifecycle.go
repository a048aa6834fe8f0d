package reap

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/jobprobe/jobprobe/sidecar"
)

const (
	// lifecycleTimeout is how long a lifecycle command may take.
	lifecycleTimeout = 20 * time.Second
	// maxLifecycle bounds its answer, in bytes.
	maxLifecycle = 1_000_000
)

// Lifecycle is a command that knows, from a store of its own, how runs ended.
// It is asked about a job whose process is not alive and that has no end on
// record; what it does not know, or says in a way that is not understood, is
// as if it had not been asked.
//
// Each {run_id} in its words is replaced; if there is none, the run id is
// added at the end. It must exit 0 within 20 seconds and print one JSON
// object of at most 1,000,000 bytes:
//
//	{"contract_version": 1, "ok": true, "data": {"lifecycle":
//	 {"available": true, "value": {"terminal": true, "status": "completed",
//	  "outcome": "succeeded", "reason_code": null, "ended_at": 1785542400.5,
//	  "ended_at_is_approximate": false}}}}
//
// Only status is needed of a terminal value. ended_at is in epoch seconds;
// where it is missing or approximate the end's time is an upper bound. An
// Observer that New made, and its copies, run at most eight at a time.
type Lifecycle struct {
	Command []string
}

// ask asks the lifecycle store, when it is this job's turn.
func (o Observer) ask(ctx context.Context, id string) (end sidecar.LifecycleEnd, known bool) {
	if o.courier != nil {
		select {
		case o.courier.asking <- struct{}{}:
			defer func() { <-o.courier.asking }()
		case <-ctx.Done():
			return end, false
		}
	}
	return o.Lifecycle.ask(ctx, id, o.time())
}

// ask runs the command, and returns the end that the store knows of a run, if
// it knows one.
func (c Lifecycle) ask(ctx context.Context, id string, now time.Time) (end sidecar.LifecycleEnd, known bool) {
	answer, ok := c.run(ctx, id)
	if !ok {
		return end, false
	}
	doc, err := sidecar.Parse(answer)
	if err != nil {
		return end, false
	}
	version, _ := doc.Int("contract_version")
	if version != 1 || !literal(doc, "ok", "true") {
		return end, false
	}
	data, ok := doc.Object("data")
	if !ok {
		return end, false
	}
	lifecycle, ok := data.Object("lifecycle")
	if !ok || !literal(lifecycle, "available", "true") {
		return end, false
	}
	value, ok := lifecycle.Object("value")
	if !ok || !literal(value, "terminal", "true") || literal(value, "found", "false") {
		return end, false
	}
	return lifecycleEnd(value, now)
}

// lifecycleEnd reads a terminal value. An outcome outside the closed set is
// left to be derived from the status.
func lifecycleEnd(value *sidecar.Record, now time.Time) (end sidecar.LifecycleEnd, known bool) {
	status, _ := value.Text("status")
	if status == "" {
		return end, false
	}
	end = sidecar.LifecycleEnd{Status: status, At: now, Approximate: true}
	end.ReasonCode, _ = value.Text("reason_code")
	switch outcome, _ := value.Text("outcome"); outcome {
	case sidecar.Succeeded, sidecar.Failed, sidecar.Cancelled, sidecar.Indeterminate:
		end.Outcome = outcome
	}
	// What has ended has done so by now, whatever another clock says.
	if at, ok := value.Number("ended_at"); ok && at > 0 && at <= float64(now.Unix()+1) {
		whole, fraction := math.Modf(at)
		end.At = time.Unix(int64(whole), int64(fraction*1e9))
		end.Approximate = literal(value, "ended_at_is_approximate", "true")
	}
	return end, true
}

// run runs the command and returns what it printed.
func (c Lifecycle) run(ctx context.Context, id string) (answer []byte, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, lifecycleTimeout)
	defer cancel()
	argv := slices.Clone(c.Command)
	named := false
	for i, word := range argv {
		argv[i] = strings.ReplaceAll(word, "{run_id}", id)
		named = named || argv[i] != word
	}
	if !named {
		argv = append(argv, id)
	}
	out := &bounded{most: maxLifecycle}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = os.Environ()
	cmd.Stdout, cmd.WaitDelay, cmd.SysProcAttr = out, lastWords, apart()
	g, err := startNotifier(cmd)
	if err != nil {
		return nil, false
	}
	defer g.release()
	if !g.watch(ctx) {
		collectNotifier(cmd)
		return nil, false
	}
	err = cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it left somebody behind that holds its output
	}
	return out.kept, err == nil && !out.over
}

// bounded keeps what is written to it up to a bound, and remembers if there
// was more. It must not be a bytes.Buffer, whose ReadFrom knows no bound.
type bounded struct {
	kept []byte
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.kept)+len(p) > b.most {
		b.over = true
	} else {
		b.kept = append(b.kept, p...)
	}
	return len(p), nil
}
