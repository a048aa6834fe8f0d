package reap

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// ledgerAdds is how often each process of a crowd adds to the ledger.
const ledgerAdds = 20

// keeperCrowd runs keepers at once, and fails for each that complains.
func keeperCrowd(t *testing.T, n int, do, dir string) {
	t.Helper()
	out := make([]bytes.Buffer, n)
	var all []*exec.Cmd
	for i := range n {
		cmd := keeper(do, dir)
		cmd.Stdout, cmd.Stderr = &out[i], &out[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil || out[i].Len() > 0 {
			t.Errorf("%v: %s", err, out[i].String())
		}
	}
}

// Sixteen processes make one ledger, and lose nothing of what each adds.
func TestLedgerCrowd(t *testing.T) {
	const n = 16
	w := newWorld(t)
	keeperCrowd(t, n, "add", w.Store.Dir)
	rec, err := w.ledger().read()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := rec.Int("drain_ms"); got != n*ledgerAdds {
		t.Errorf("%d were added, want %d", got, n*ledgerAdds)
	}
	t.Logf("count: %d processes added %d times each to a ledger that none had made", n, ledgerAdds)
}

// A drain that is killed at any system call of the making of the ledger leaves the
// store open or closed, and the next one closes it.
func TestLedgerKilledBeingMade(t *testing.T) {
	t.Parallel()
	points := keeperPoints(t, "close", filepath.Join(t.TempDir(), "jobs"))
	points = slices.DeleteFunc(points, func(p crashPoint) bool {
		return slices.Contains([]string{"read", "close", "fstat", "newfstatat", "getdents64"}, p.name)
	})
	seen := map[bool]int{}
	for _, p := range points {
		o := New(filepath.Join(testproc.TempDir(t), "jobs"))
		if out, err := injected("close", o.Store.Dir, p, "signal=KILL").CombinedOutput(); err == nil {
			t.Errorf("%v: not killed: %s", p, out)
		}
		draining, err := o.Draining()
		if err != nil {
			t.Errorf("%v: %v", p, err)
		}
		seen[draining]++
		if err := o.ledger().admission(t.Context(), admissionClosed, time.Now()); err != nil {
			t.Errorf("%v: the next: %v", p, err)
		}
		if closed, err := o.Draining(); err != nil || !closed {
			t.Errorf("%v: the next left it %v, %v", p, closed, err)
		}
		// The next writer removes what was left of an earlier one.
		err = o.ledger().update(t.Context(), func(r *sidecar.Record) error {
			add(r, "drain_ms", 1)
			return nil
		})
		names, _ := filepath.Glob(filepath.Join(o.ledger().Dir, "*", ".*"))
		if err != nil || len(names) > 0 {
			t.Errorf("%v: left %v, %v", p, names, err)
		}
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("draining after %d kills: %v", len(points), seen)
	}
	t.Logf("count: killed at %d calls of making a ledger: %s", len(points), fmt.Sprint(seen))
}

// Many reopen a store whose ledger is damaged: one puts it aside, and none puts
// aside the new one.
func TestLedgerCrowdReopens(t *testing.T) {
	for range 30 {
		w := keeping(t, "{")
		var all sync.WaitGroup
		begin := make(chan struct{})
		for range 16 {
			all.Go(func() {
				<-begin
				if err := w.Reopen(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		all.Wait()
		if aside, _ := filepath.Glob(filepath.Join(w.ledger().Dir, "*.damaged-*")); len(aside) != 1 {
			t.Errorf("put aside: %v", aside)
		}
		if err := w.Admits(); err != nil {
			t.Error(err)
		}
	}
}
