package reap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/sidecar"
)

// keeperEnv makes this binary do what it names, and a store, between two calls
// that nothing else makes, on the main thread.
const keeperEnv = "JOBPROBE_KEEPER_STAGE"

var keepers = map[string]func(o Observer){
	"prune": func(o Observer) {
		p, err := o.Prune(context.Background(), PruneOptions{OlderThan: time.Hour})
		unix.Getpriority(unix.PRIO_PROCESS, 0)
		told, _ := json.Marshal(prunedTold{p, fmt.Sprint(err)})
		os.Stdout.Write(told)
	},
	"close": func(o Observer) {
		err := o.ledger().admission(context.Background(), admissionClosed, time.Now())
		unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			fmt.Println(err)
		}
	},
	"add": func(o Observer) {
		for range ledgerAdds {
			err := o.ledger().update(context.Background(), func(r *sidecar.Record) error {
				add(r, "drain_ms", 1)
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		}
	},
}

func init() {
	do, dir, ok := strings.Cut(os.Getenv(keeperEnv), " ")
	if !ok {
		return
	}
	runtime.LockOSThread()
	o := New(dir)
	o.Store.LockWait = time.Minute
	unix.Getpriority(unix.PRIO_PROCESS, 0)
	keepers[do](o)
	os.Exit(0)
}

// prunedTold is what a pruner says of itself.
type prunedTold struct {
	Pruned
	Err string
}

// keeper is a process that does one of keepers, under a tracer if one is given.
func keeper(do, dir string, strace ...string) *exec.Cmd {
	args := append(strace, os.Args[0])
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), keeperEnv+"="+do+" "+dir, "GOGC=off", "GOMAXPROCS=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// injected is a keeper with something injected at one of its calls.
func injected(do, dir string, p crashPoint, what string) *exec.Cmd {
	return keeper(do, dir, "strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace="+p.name,
		fmt.Sprintf("-einject=%s:%s:when=%d", p.name, what, p.n))
}

// keeperPoints are the system calls of a keeper's main thread, with their counts.
func keeperPoints(t *testing.T, do, dir string) (points []crashPoint) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	log := filepath.Join(t.TempDir(), "trace")
	if out, err := keeper(do, dir, "strace", "-f", "-qq", "-o", log).CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v: %s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	main, marks := "", 0
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		thread, call, _ := strings.Cut(line, " ")
		if main == "" {
			main = thread
		}
		name, _, isCall := strings.Cut(strings.TrimSpace(call), "(")
		if thread != main || !isCall || strings.HasPrefix(name, "<") {
			continue
		}
		if name == "getpriority" {
			marks++
			continue
		}
		count[name]++
		if marks == 1 && slices.Contains(keeperCalls, name) {
			points = append(points, crashPoint{name, count[name]})
		}
	}
	if marks != 2 || len(points) < 30 {
		t.Fatalf("%d marks, and calls %v", marks, points)
	}
	return points
}

func prunePoints(t *testing.T, arrange func(*grave)) []crashPoint {
	t.Helper()
	g := newGrave(t)
	arrange(g)
	points := keeperPoints(t, "prune", g.Store.Dir)
	g.bare("traced")
	return points
}

// keeperCalls are the calls that keepers are made of, without those by which a Go
// program runs itself.
var keeperCalls = []string{
	"openat", "flock", "fchmod", "write", "fsync", "renameat", "renameat2", "unlinkat", "mkdirat",
	"read", "close", "fstat", "newfstatat", "getdents64", "fchown",
}

// changes are the calls among them that leave something behind, of many that
// do the same a few.
func changes(points []crashPoint) (few []crashPoint) {
	had := map[string]int{}
	for _, p := range points {
		had[p.name]++
		if slices.Contains([]string{"flock", "write", "fsync", "renameat", "renameat2", "unlinkat", "mkdirat"}, p.name) && had[p.name] <= 6 {
			few = append(few, p)
		}
	}
	return few
}

// halfway leaves what a pruner left that was killed after it had moved one job.
func halfway(g *grave) {
	g.t.Helper()
	err := g.ledger().update(g.t.Context(), func(r *sidecar.Record) error {
		tally := newTally()
		for _, id := range g.old[:3] {
			tally.count(g.Store.Read(id).Record)
		}
		tally.write(r)
		r.Set(pruningName, sidecar.Text(strings.Join(g.old[:3], " ")))
		return nil
	})
	if err != nil {
		g.t.Fatal(err)
	}
	if err := os.MkdirAll(g.trash(), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(g.Store.Dir, g.old[0]), filepath.Join(g.trash(), g.old[0])); err != nil {
		g.t.Fatal(err)
	}
	g.sound("half done")
}

// A prune that is killed before any of its system calls leaves each job whole or
// gone and every number as it was; the next one completes it, and leaves nothing.
// So does one that completes another's.
func TestPruneKilledAnywhere(t *testing.T) {
	t.Parallel()
	pruneKilled(t, changes)
}

func TestStressPruneKilledAnywhere(t *testing.T) {
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
	pruneKilled(t, func(all []crashPoint) []crashPoint { return all })
}

func pruneKilled(t *testing.T, which func([]crashPoint) []crashPoint) {
	for name, arrange := range map[string]func(*grave){"first": func(*grave) {}, "second": halfway} {
		points := which(prunePoints(t, arrange))
		seen := map[int]int{}
		for _, p := range points {
			g := newGrave(t)
			arrange(g)
			if out, err := injected("prune", g.Store.Dir, p, "signal=KILL").CombinedOutput(); err == nil {
				t.Errorf("%s, %v: not killed: %s", name, p, out)
			}
			seen[len(g.sound(p))]++
			g.prune(PruneOptions{OlderThan: time.Hour})
			g.bare(p)
		}
		if len(seen) < 3 {
			t.Errorf("%s: %d calls, and these numbers of jobs were left: %v", name, len(points), seen)
		}
		t.Logf("count: %s prune killed at %d calls; jobs left, and how often: %v", name, len(points), seen)
	}
}

// A system call that fails is told of, or made up for: what is said to be removed
// is gone, everything else is whole, no number changes, and the next prune
// completes.
func TestPruneErrorAnywhere(t *testing.T) {
	t.Parallel()
	pruneFails(t, []string{"ENOSPC"}, changes)
}

func TestStressPruneErrorAnywhere(t *testing.T) {
	if os.Getenv("JOBPROBE_STRESS") == "" {
		t.Skip("JOBPROBE_STRESS is not set")
	}
	pruneFails(t, []string{"EIO", "ENOSPC", "EROFS", "EACCES", "EMFILE"}, func(all []crashPoint) []crashPoint { return all })
}

func pruneFails(t *testing.T, faults []string, which func([]crashPoint) []crashPoint) {
	points := which(prunePoints(t, func(*grave) {}))
	for _, fault := range faults {
		told := map[string]int{}
		for _, p := range points {
			g := newGrave(t)
			out, err := injected("prune", g.Store.Dir, p, "error="+fault).Output()
			var said prunedTold
			if err == nil {
				err = json.Unmarshal(out, &said)
			}
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				err = fmt.Errorf("%w: %s", err, exit.Stderr)
			}
			if err != nil {
				t.Fatalf("%s at %v: %v: %s", fault, p, err, out)
			}
			left := g.sound(p)
			for _, id := range g.old {
				if slices.Contains(left, id) == slices.Contains(said.Removed, id) {
					t.Errorf("%s at %v: %s is there: %v, told as removed: %v", fault, p, id, slices.Contains(left, id), said.Removed)
				}
			}
			switch {
			case said.Err != "<nil>":
				told["an error"]++
			case len(said.Removed) == len(g.old):
				told["made up for"]++
			case strings.Contains(reasons(said.Pruned), "io_error"), strings.Contains(reasons(said.Pruned), keptUnknown):
				told["a job that stays"]++
			case len(said.Removed) == len(g.old)-1 && p.name == "openat":
				told["a record that could not be read"]++ // so nobody knows its age
			default:
				t.Errorf("%s at %v: nothing is told: %s", fault, p, out)
			}
			g.prune(PruneOptions{OlderThan: time.Hour})
			g.bare(p)
		}
		t.Logf("count: %s at %d calls of a prune, told as %v", fault, len(points), told)
		if told["an error"] == 0 || told["a job that stays"] == 0 {
			t.Errorf("%s: the faults did not reach: %v", fault, told)
		}
	}
}
