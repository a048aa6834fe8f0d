//go:build unix

package reap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/jobprobe/jobprobe/sidecar"
)

// Variables that make this binary an observer in a process of its own, of the
// directory that the one names; beginMark is a file that is not there, for a
// tracer to see that it begins.
const (
	stageEnv  = "JOBPROBE_NOTICE_STAGE"
	beginMark = "/jobprobe-begin"
)

// A stage looks once its standard input ends; with an argument it is the run's
// hook and reports that status. It does so on the main thread,
// which only an init function can have, so that a tracer sees one sequence of
// system calls.
func init() {
	dir := os.Getenv(stageEnv)
	if dir == "" {
		return
	}
	runtime.LockOSThread()
	os.Stdin.Read(make([]byte, 1))
	os.Lstat(beginMark)
	o := New(dir)
	o.courier = nil
	var err error
	if len(os.Args) > 1 {
		_, err = o.Hook(context.Background(), runID, Report{Status: os.Args[1]})
	} else {
		_, err = observes(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// observer returns a command that is an observer of the store, or a hook.
func (b *bell) observer(report ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], report...)
	cmd.Env = append(os.Environ(), stageEnv+"="+b.Store.Dir, "GOGC=off")
	cmd.Stderr = os.Stderr
	return cmd
}

// Sixteen observers, each a process, find a notice whose winner died before it
// came to it: one of them tells.
func TestPoint8PendingIsClaimedOnce(t *testing.T) {
	b := newBell(t, rings("exit 0"), set("finished_at", `"2026-08-01T00:00:00+00:00"`), set("notify_delivery", pendingNotice))
	gate, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var all []*exec.Cmd
	for range 16 {
		cmd := b.observer()
		cmd.Stdin = gate
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	gate.Close()
	open.Close() // all at once
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	b.want(okNotice, 1)
}

// The winner of an end died before it came to the notice: the next observer,
// whichever way it looks, tells of it; the one after that does not (peer
// fault 9).
func TestPeerFault9PendingIsClaimed(t *testing.T) {
	for name, look := range map[string]func(*bell) error{
		"status": func(b *bell) error { _, err := b.Status(t.Context(), runID); return err },
		"list":   func(b *bell) error { _, err := b.List(t.Context(), ListOptions{}); return err },
		"wait":   func(b *bell) error { _, err := b.Wait(t.Context(), []string{runID}, WaitOptions{}); return err },
		"sweep":  func(b *bell) error { _, err := b.Sweep(t.Context(), false); return err },
		"output": func(b *bell) error { _, _, err := b.Output(t.Context(), runID, 0); return err },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBell(t, rings("exit 0"), set("finished_at", `"2026-08-01T00:00:00+00:00"`),
				set("status", `"killed"`), set("notify_delivery", pendingNotice))
			if _, err := b.Sweep(t.Context(), true); err != nil {
				t.Error(err)
			}
			b.want(pendingNotice, 0) // a dry run tells nobody
			for range 2 {
				if err := look(b); err != nil {
					t.Error(err)
				}
				if err := b.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				b.want(okNotice, 1)
			}
			if got := b.on(runID, "status"); got != `"killed"` {
				t.Errorf("status %s", got)
			}
		})
	}
}

// An attempt that was begun is never made again, even if its result is not
// known: only one that is pending is.
func TestNoticeUnknownIsFinal(t *testing.T) {
	b := newBell(t, rings("exit 0"), set("finished_at", `"2026-08-01T00:00:00+00:00"`), set("notify_delivery", unknownNotice))
	b.look()
	b.hook(Report{Status: "completed"})
	b.want(unknownNotice, 0)
}

// A notifier that hangs holds up no answer (peer fault 15): each comes while
// the notifier still waits for the test.
func TestPeerFault15AnswersDoNotWaitForNotifiers(t *testing.T) {
	gate := fifo(t)
	b := newBell(t, rings(`read x < "$1"`, gate))
	w, err := b.Wait(t.Context(), []string{runID}, WaitOptions{MaxWait: 1})
	if err != nil || !w.AllTerminal {
		t.Errorf("wait: %+v, %v", w, err)
	}
	if _, err := b.List(t.Context(), ListOptions{}); err != nil {
		t.Error(err)
	}
	if job, err := b.Status(t.Context(), runID); err != nil || !job.Terminal {
		t.Errorf("status: %+v, %v", job, err)
	}
	writeFile(t, gate, "on\n")
	if err := b.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	b.want(okNotice, 1)
}

// While the lock is held by somebody who does not answer, the notice stays
// pending, the refusal is reported, and nothing is sent; then it is.
func TestNoticeClaimRefused(t *testing.T) {
	b := newBell(t, rings("exit 0"), set("finished_at", `"2026-08-01T00:00:00+00:00"`), set("notify_delivery", pendingNotice))
	b.Store.LockWait = time.Millisecond
	lock := flock.New(filepath.Join(b.dir, "job.lock"))
	if held, err := lock.TryLock(); !held || err != nil {
		t.Fatal(held, err)
	}
	if _, err := b.Status(t.Context(), runID); err != nil {
		t.Fatal(err)
	}
	err := b.Flush(t.Context())
	var refused *sidecar.RefusedError
	if !errors.As(err, &refused) || refused.Reason != sidecar.LockUnavailable || !strings.HasPrefix(err.Error(), "notice of run "+runID) {
		t.Errorf("flush: %v", err)
	}
	b.want(pendingNotice, 0)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	b.Store.LockWait = 0
	b.look()
	b.want(okNotice, 1)
}

// A result that cannot be recorded is reported and leaves "attempted, outcome
// unknown", for good.
func TestNoticeResultRefused(t *testing.T) {
	b := newBell(t)
	b.rewrite(rings(`mv "$1" "$1.away"`, b.dir))
	if _, err := b.Status(t.Context(), runID); err != nil {
		t.Fatal(err)
	}
	var refused *sidecar.RefusedError
	if err := b.Flush(t.Context()); !errors.As(err, &refused) || refused.Reason != sidecar.RecordAbsent {
		t.Errorf("flush: %v", err)
	}
	if err := os.Rename(b.dir+".away", b.dir); err != nil {
		t.Fatal(err)
	}
	b.want(unknownNotice, 1)
	b.look()
	b.want(unknownNotice, 1)
}

// At most maxNotifiers run at a time. Those that have not begun when a flush
// is out of time stay pending, and the next observer tells of them.
func TestNoticeFlushLeavesTheRestPending(t *testing.T) {
	const jobs = maxNotifiers + 5
	begun, gate := fifo(t), fifo(t)
	b := newBell(t)
	os.RemoveAll(b.dir)
	command := rings(`echo begun > "$1"; read x < "$2"`, begun, gate)
	for i := range jobs {
		b.add(fmt.Sprintf("job-%02d", i), command)
	}
	hold := keepOpen(t, gate) // no reader at the gate sees its end
	if _, err := b.List(t.Context(), ListOptions{}); err != nil {
		t.Fatal(err)
	}
	lines := keepOpen(t, begun)
	for range maxNotifiers {
		if n, err := lines.Read(make([]byte, len("begun\n"))); n != len("begun\n") || err != nil {
			t.Fatalf("read %d bytes: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	flushed := make(chan error)
	go func() { flushed <- b.Flush(ctx) }()
	for b.courier.inHand() > maxNotifiers { // until the flush has given up the rest
		runtime.Gosched()
	}
	if _, err := hold.WriteString(strings.Repeat("on\n", maxNotifiers)); err != nil {
		t.Fatal(err)
	}
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	count := func() (told, pending int) {
		list, err := b.List(t.Context(), ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range list.Jobs {
			switch row.NotifyDeliveryState {
			case "delivered":
				told++
			case "pending":
				pending++
			}
		}
		return told, pending
	}
	rung := b.rung()
	if told, pending := count(); rung != maxNotifiers || told != maxNotifiers || pending != jobs-maxNotifiers {
		t.Errorf("%d have run, %d told, %d pending", rung, told, pending)
	}
	if _, err := hold.WriteString(strings.Repeat("on\n", jobs-maxNotifiers)); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(t.Context()); err != nil { // that count was an observer too
		t.Error(err)
	}
	if told, pending := count(); b.rung() != jobs || told != jobs || pending != 0 {
		t.Errorf("%d have run, %d told, %d pending", b.rung(), told, pending)
	}
}

// keepOpen opens both ends of a named pipe, which never waits.
func keepOpen(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func (c *courier) inHand() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known)
}
