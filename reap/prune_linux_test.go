package reap

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// A job that cannot be moved, because its directory is a mount point, stays, and
// is counted once all the same. It is removed when it can be, whatever that prune
// is asked for.
func TestPruneStuck(t *testing.T) {
	if !testproc.InMounts(t) {
		return
	}
	g := newGrave(t)
	dir := filepath.Join(g.Store.Dir, g.old[2])
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p := g.prune(PruneOptions{OlderThan: day})
		if got := reasons(p); got != g.old[2]+"=io_error 20200101T000008-owed=notice_pending" || len(p.Kept) != 2 {
			t.Errorf("kept %s of %v", got, p.Kept)
		}
		if left := g.sound("stuck"); !slices.Equal(left, g.old[2:3]) {
			t.Errorf("left %v", left)
		}
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if p := g.prune(PruneOptions{OlderThan: day, Keep: 100}); !slices.Equal(p.Removed, g.old[2:3]) {
		t.Errorf("removed %v", p.Removed)
	}
	g.bare("no longer stuck")
}

// A job that was moved and cannot be deleted is removed, is told as an error, and
// keeps no other.
func TestPruneUndeletable(t *testing.T) {
	if !testproc.InMounts(t) {
		return
	}
	g := newGrave(t)
	inner := filepath.Join(g.Store.Dir, g.old[2], "inner")
	if err := unix.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", inner, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	p, err := g.Prune(t.Context(), PruneOptions{OlderThan: day, Keep: 7})
	if err != nil || len(p.Removed) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = g.Prune(t.Context(), PruneOptions{OlderThan: day})
	if err == nil || len(p.Removed) != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	g.sound("undeletable")
	if err := unix.Unmount(filepath.Join(g.trash(), g.old[2], "inner"), 0); err != nil {
		t.Fatal(err)
	}
	g.prune(PruneOptions{OlderThan: day})
	g.bare("deletable")
}

// A killed job of whose group a process lives stays, until that is gone.
func TestPruneGroupAlive(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 600 & read line")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	group := cmd.Process.Pid
	t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	who, err := jobprobe.Identify(group)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := json.Marshal(who)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the leader leaves the other behind
	g := newGrave(t)
	rec := started(set("run_id", `"job"`), set("pid", fmt.Sprint(group)), set("pgid", fmt.Sprint(group)),
		set("process_identity", string(identity)), sidecar.Field{Name: "lifecycle", Value: sidecar.NewHistory()})
	if _, err := (sidecar.KillEnd{At: time.Now().Add(-2 * day)}).Apply(rec); err != nil {
		t.Fatal(err)
	}
	g.put("job", rec)
	g.stay, g.want = append(g.stay, "job"), g.metrics()
	if got := reasons(g.prune(PruneOptions{OlderThan: day})); got != "20200101T000008-owed=notice_pending job=process_alive" {
		t.Errorf("kept %s", got)
	}
	g.bare("alive")
	members, _ := jobprobe.Group(int64(group))
	if err := syscall.Kill(-group, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		p, err := jobprobe.Open(m.Identity)
		if err == nil {
			_, err = p.Wait(t.Context())
			p.Close()
		}
		if err != nil {
			t.Logf("%v", err) // it was gone already
		}
	}
	if p := g.prune(PruneOptions{OlderThan: day}); !slices.Equal(p.Removed, []string{"job"}) {
		t.Errorf("%+v", p)
	}
}

// While processes prune one store at once, beside observers and jobs that are
// being started, each job is removed by one of them, and whoever counts at any
// time counts each end once.
func TestPruneInACrowd(t *testing.T) {
	const jobs, pruners, observers = 600, 3, 16
	g := newGrave(t)
	at := time.Now().Add(-3 * day)
	for i := range jobs {
		id := fmt.Sprintf("20190101T%06d-a", i)
		g.end(id, sidecar.HookEnd{Status: []string{"completed", "failed", "cancelled"}[i%3], At: at}.Apply)
	}
	want := g.metrics()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var beside sync.WaitGroup
	var counted, looked atomic.Int64
	beside.Go(func() {
		for ctx.Err() == nil {
			m, err := g.Metrics(context.WithoutCancel(ctx))
			m.Observations = want.Observations // jobs are being started
			if diff := cmp.Diff(want, m); diff != "" || err != nil {
				t.Errorf("counted meanwhile: %s, %v", diff, err)
				return
			}
			counted.Add(1)
		}
	})
	for i := range observers {
		beside.Go(func() {
			for n := i; ctx.Err() == nil; n += observers {
				if _, err := g.Status(ctx, fmt.Sprintf("20190101T%06d-a", n%jobs)); err != nil {
					t.Error(err)
				}
				looked.Add(1)
			}
		})
	}
	beside.Go(func() {
		for n := 0; n < 100 && ctx.Err() == nil; n++ {
			id := fmt.Sprintf("20300101T%06d-a", n)
			rec := started(set("run_id", fmt.Sprintf("%q", id)), set("pid", "-5"), set("process_identity", "null"))
			if err := g.Store.Create(id, rec); err != nil {
				t.Error(err)
			}
		}
	})
	removed := map[string]int{}
	var all []*exec.Cmd
	var outs []io.Reader
	for range pruners {
		cmd := keeper("prune", g.Store.Dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		all, outs = append(all, cmd), append(outs, out)
	}
	for i, cmd := range all {
		var told prunedTold
		err := json.UnmarshalRead(outs[i], &told)
		if ended := cmd.Wait(); err != nil || ended != nil || told.Err != "<nil>" {
			t.Errorf("%v, %v, %s", err, ended, told.Err)
		}
		for _, id := range told.Removed {
			removed[id]++
		}
	}
	cancel()
	beside.Wait()
	for id, n := range removed {
		if n != 1 {
			t.Errorf("%s was removed %d times", id, n)
		}
	}
	if len(removed) != jobs+len(g.old) || counted.Load() == 0 || looked.Load() == 0 {
		t.Errorf("%d were removed; counted %d times, %d looks", len(removed), counted.Load(), looked.Load())
	}
	t.Logf("count: %d jobs removed by %d processes; counted %d times meanwhile, %d looks", len(removed), pruners, counted.Load(), looked.Load())
}

// Numbers are exact although the store is pruned between any two steps of
// counting, a job at a time.
func TestMetricsBetweenPrunes(t *testing.T) {
	const jobs = 30
	g := newGrave(t)
	for i := range jobs {
		g.end(fmt.Sprintf("20190101T%06d-a", i), sidecar.HookEnd{Status: "failed", At: time.Now().Add(-3 * day)}.Apply)
	}
	want := g.metrics()
	var counters sync.WaitGroup
	var counted atomic.Int64
	done := make(chan struct{})
	for range 3 {
		counters.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				m, err := g.Metrics(context.Background())
				if diff := cmp.Diff(want, m); diff != "" || err != nil {
					t.Errorf("counted meanwhile: %s, %v", diff, err)
					return
				}
				counted.Add(1)
			}
		})
	}
	for left := jobs + len(g.was) - 1; left >= len(g.was); left-- {
		if p := g.prune(PruneOptions{OlderThan: day, Keep: left}); len(p.Removed) != 1 {
			t.Errorf("removed %v of %d", p.Removed, left)
		}
	}
	close(done)
	counters.Wait()
	t.Logf("count: counted %d times beside %d prunes", counted.Load(), jobs)
}
