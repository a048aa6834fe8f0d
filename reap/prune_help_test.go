package reap

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// grave is a store of jobs that ended long ago, beside some that must stay. Its
// processes are looked for for real.
type grave struct {
	Observer
	t    *testing.T
	old  []string // ended long ago, newest first
	stay []string
	want Metrics
	was  map[string]string // each record
}

const day = 24 * time.Hour

// newGrave has jobs of all kinds.
func newGrave(t *testing.T) *grave {
	t.Helper()
	g := &grave{Observer: New(filepath.Join(testproc.TempDir(t), "jobs")), t: t, was: map[string]string{}}
	g.courier = nil
	if runtime.GOOS != "linux" { // whose identities the records hold
		g.probe = func(jobprobe.Identity, time.Time) jobprobe.Liveness { return verdict(jobprobe.PIDAbsent) }
	}
	at := time.Now().Add(-2 * day)
	code := 3
	g.old = []string{"20200101T000005-a", "20200101T000004-a", "20200101T000003-a", "20200101T000002-a"}
	g.end(g.old[0], sidecar.HookEnd{Status: "completed", At: at}.Apply)
	g.end(g.old[1], sidecar.SupervisorEnd{Status: "failed", ExitCode: &code, At: at}.Apply)
	g.end(g.old[2], sidecar.Reaping{Finding: jobprobe.PIDAbsent, At: at}.Apply)
	g.end(g.old[3], sidecar.KillEnd{At: at}.Apply)
	g.end("20200101T000009-new", sidecar.HookEnd{Status: "failed", At: time.Now()}.Apply)
	g.end("20200101T000008-owed", sidecar.HookEnd{Status: "failed", At: at, NoticeOwed: true}.Apply)
	g.put("20200101T000007-live", started(set("pid", "-5"), set("process_identity", "null")))
	g.put("20200101T000006-other", sidecar.NewRecord(set("run_id", `"another"`), set("finished_at", `"2020-01-01T00:00:00+00:00"`)))
	g.stay = []string{"20200101T000009-new", "20200101T000008-owed", "20200101T000007-live", "20200101T000006-other"}
	for _, id := range slices.Concat(g.old, g.stay) {
		data, err := os.ReadFile(filepath.Join(g.Store.Dir, id, "job.json"))
		if err != nil {
			t.Fatal(err)
		}
		g.was[id] = string(data)
	}
	g.want = g.metrics()
	return g
}

func (g *grave) put(id string, rec *sidecar.Record) {
	g.t.Helper()
	dir := filepath.Join(g.Store.Dir, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		g.t.Fatal(err)
	}
	for name, data := range map[string]string{"job.json": string(rec.Append(nil)), "job.lock": "", "console.log": "a line\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			g.t.Fatal(err)
		}
	}
}

// end puts a job with a history, ended by a transition and seen to be gone.
func (g *grave) end(id string, by func(*sidecar.Record) (bool, error)) {
	g.t.Helper()
	rec := started(set("run_id", fmt.Sprintf("%q", id)), sidecar.Field{Name: "lifecycle", Value: sidecar.NewHistory()})
	if won, err := by(rec); err != nil || !won {
		g.t.Fatal(won, err)
	}
	if _, err := (sidecar.Proof{Left: sidecar.RemainsNone, At: time.Now()}).Apply(rec); err != nil {
		g.t.Fatal(err)
	}
	g.put(id, rec)
}

func (g *grave) metrics() Metrics {
	g.t.Helper()
	m, err := g.Metrics(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	return m
}

func (g *grave) prune(opt PruneOptions) Pruned {
	g.t.Helper()
	p, err := g.Prune(g.t.Context(), opt)
	if err != nil {
		g.t.Fatal(err)
	}
	return p
}

// sound checks that each job is whole or gone, that those that must stay are
// there, and that the numbers are those of the beginning. It returns what is
// there of the old jobs.
func (g *grave) sound(what any) (left []string) {
	g.t.Helper()
	for id, was := range g.was {
		data, err := os.ReadFile(filepath.Join(g.Store.Dir, id, "job.json"))
		_, gone := os.Lstat(filepath.Join(g.Store.Dir, id))
		log, _ := os.ReadFile(filepath.Join(g.Store.Dir, id, "console.log"))
		switch {
		case err == nil && string(data) == was && string(log) == "a line\n":
			left = append(left, id)
		case os.IsNotExist(gone) && slices.Contains(g.old, id):
		default:
			g.t.Errorf("%v: %s is half a job: %v, %q", what, id, err, data)
		}
	}
	if diff := cmp.Diff(g.want, g.metrics()); diff != "" {
		g.t.Errorf("%v: the metrics: %s", what, diff)
	}
	return slices.DeleteFunc(left, func(id string) bool { return slices.Contains(g.stay, id) })
}

// bare checks that a prune has left nothing of the old jobs, and nothing else.
func (g *grave) bare(what any) {
	g.t.Helper()
	if left := g.sound(what); len(left) > 0 {
		g.t.Errorf("%v: %v are left", what, left)
	}
	var names []string
	entries, err := os.ReadDir(g.Store.Dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	inLedger, _ := os.ReadDir(g.ledger().Dir)
	for _, e := range inLedger {
		names = append(names, e.Name())
	}
	want := slices.Concat([]string{ledgerDir}, slices.Sorted(slices.Values(g.stay)), []string{ledgerName, ledgerLock, pruneLock})
	if diff := cmp.Diff(want, names); diff != "" || err != nil {
		g.t.Errorf("%v: the store: %s, %v", what, diff, err)
	}
	rec, err := g.ledger().read()
	if err != nil || len(pruning(rec)) > 0 {
		g.t.Errorf("%v: the ledger: %v, %v", what, pruning(rec), err)
	}
}

// reasons are those for which jobs were kept.
func reasons(p Pruned) string {
	m := map[string]string{}
	for _, k := range p.Kept {
		m[k.RunID] = k.Reason
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(m)) {
		out = append(out, id+"="+m[id])
	}
	return strings.Join(out, " ")
}
