package reap

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Nothing is told of a job that has no end, whatever keeps it from having one:
// not even its lock is made.
func TestPoint2NothingIsTold(t *testing.T) {
	for f, of := range answers {
		for _, spawn := range []string{"started", "preparing"} {
			if of.Written && spawn == "started" {
				continue
			}
			w := newWorld(t)
			w.Notices.Command = []string{"no-such-notifier"} // an attempt would be on record
			w.sees(childPID, f)
			w.putRecord(started(set("spawn_state", `"`+spawn+`"`), set("notify_command", `"[\"no-such-notifier\"]"`)))
			before := w.bytes(runID)
			job := w.status(runID)
			w.list(ListOptions{})
			w.look1(runID)
			if _, err := w.Sweep(t.Context(), false); err != nil {
				t.Error(err)
			}
			if err := w.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			if job.Terminal || string(job.NotifyDelivery) != "null" {
				t.Errorf("%v, %s: terminal %v, notice %s", f, spawn, job.Terminal, job.NotifyDelivery)
			}
			w.untouched(runID, before)
		}
	}
}

// Whatever a record holds, status, list and wait say the same of it.
func TestPoint7ListAndStatusAgree(t *testing.T) {
	records := map[string]*sidecar.Record{
		"ended, outcome":     started(set("finished_at", `"2026-08-01T00:00:09+00:00"`), set("status", `"killed"`), set("outcome", `"cancelled"`)),
		"ended, none":        started(set("finished_at", `"2026-08-01T00:00:09+00:00"`), set("status", `"killed"`)),
		"ended, open":        started(set("finished_at", "0"), set("status", `"odd"`), set("outcome", `"splendid"`), set("reason_code", `""`)),
		"completed_empty":    started(set("finished_at", `"x"`), set("status", `"completed_empty"`)),
		"no status":          started(set("finished_at", `"x"`), set("status", "7")),
		"spawn failed":       started(set("spawn_state", `"failed"`), set("status", `"failed"`)),
		"preparing":          started(set("spawn_state", `"preparing"`)),
		"warming up":         started(set("spawn_state", `"warming_up"`)),
		"supervised":         supervised(),
		"exit code":          started(set("finished_at", `"x"`), set("exit_code", "3"), set("signal", `"SIGTERM"`), set("late_report", "{}")),
		"notice of any kind": started(set("finished_at", `"x"`), set("notify_delivery", `[7]`)),
		"another run":        started(set("run_id", `"another"`)),
		"unlike":             sidecar.NewRecord(set("run_id", `"`+runID+`"`), set("kind", "[]"), set("label", "7"), set("status", "{}")),
	}
	findings := []jobprobe.Finding{jobprobe.IdentityConfirmed, jobprobe.PIDAbsent, jobprobe.UnusablePID, jobprobe.ForeignHost}
	compared := 0
	for name, rec := range records {
		for _, f := range findings {
			w := newWorld(t)
			w.sees(childPID, f)
			w.put(runID, string(rec.Append(nil)))
			job := asMap(t, w.status(runID))
			for kind, other := range map[string]any{"list": w.list(ListOptions{}).Jobs[0], "wait": w.look1(runID).Runs[0]} {
				for field, value := range asMap(t, other) {
					if want, both := job[field]; both {
						compared++
						if diff := cmp.Diff(want, value); diff != "" {
							t.Errorf("%s, %v: %s of %s (-status +%s):\n%s", name, f, field, kind, kind, diff)
						}
					}
				}
			}
		}
	}
	t.Logf("count: %d fields of rows compared with those of a status", compared)
	if compared < len(records)*len(findings)*20 {
		t.Error("too few fields have the same name")
	}
}

func asMap(t *testing.T, v any) (m map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Records that were stranded long ago, in the shape of that time, end with the
// next conclusive look; an inconclusive one leaves them as they are, byte for
// byte.
func TestPoint9StrandedRecords(t *testing.T) {
	old := `{"run_id": "` + runID + `", "pid": 4242,  "pid_create_time":1600000000.25, "pgid": 4242,
  "kind": "agent", "argv": ["x"], "submitted_at": "2020-09-13T12:26:40+00:00", "finished_at": null,
	"status": "running", "spawn_state": "started", "extra": 1.50}`
	for f, want := range answers {
		w := newWorld(t)
		w.sees(childPID, f)
		w.put(runID, strings.Replace(old, `"extra"`, `"process_identity": `+process(childPID)+`, "extra"`, 1))
		before := w.bytes(runID)
		for range 2 {
			job := w.status(runID)
			w.list(ListOptions{})
			w.look1(runID)
			if job.Terminal != want.Written {
				t.Errorf("%v: terminal %v", f, job.Terminal)
			}
		}
		if !want.Written {
			w.untouched(runID, before)
			continue
		}
		checkReaped(w, f)
		if got := w.onDisk(runID, "extra"); got != "1.50" {
			t.Errorf("%v: extra is %s", f, got)
		}
	}
}

// README defines the words of an end.
func TestPoint10WordsAreDefined(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for word, means := range map[string]string{
		"indeterminate":                "reported no result",
		"process_gone_without_outcome": "reason",
		"terminal_source":              "who wrote the end",
		"liveness_conclusion":          "what one probe proves",
		"all_terminal":                 "every job has a durable end",
		"finished_at":                  "upper_bound",
	} {
		found := false
		for line := range strings.Lines(string(readme)) {
			if strings.HasPrefix(line, "| `"+word+"` |") {
				found = true
				if !strings.Contains(line, means) {
					t.Errorf("%s is defined without %q: %s", word, means, line)
				}
			}
		}
		if !found {
			t.Errorf("README does not define %s", word)
		}
	}
}

// Nothing branches on the status "exited": a word of
// an open vocabulary, which the record of a live job may hold.
func TestPoint11NothingBranchesOnExited(t *testing.T) {
	files := token.NewFileSet()
	branches := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.Ident:
			return e.Name == "statusExited"
		case *ast.BasicLit:
			return e.Value == `"exited"`
		}
		return false
	}
	read := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		read++
		ast.Inspect(file, func(n ast.Node) bool {
			var compared []ast.Expr
			switch n := n.(type) {
			case *ast.BinaryExpr:
				compared = []ast.Expr{n.X, n.Y}
			case *ast.CaseClause:
				compared = n.List
			}
			for _, e := range compared {
				if branches(e) {
					t.Errorf("%v branches on exited", files.Position(e.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil || read < 50 {
		t.Errorf("%d files read: %v", read, err)
	}
	for _, status := range []string{"exited", "completed", "failed", "killed", "anything"} {
		w := newWorld(t)
		w.sees(childPID, jobprobe.IdentityConfirmed)
		w.putRecord(started(set("status", `"`+status+`"`)))
		before := w.bytes(runID)
		if job := w.status(runID); job.Terminal || job.Status != "running" {
			t.Errorf("a live job that says %s: %s, terminal %v", status, job.Status, job.Terminal)
		}
		w.untouched(runID, before)
	}
}

// Time ends nothing, however much of it goes by: no clock is asked whether a
// job has ended.
func TestPoint16TimeEndsNothing(t *testing.T) {
	for f, of := range answers {
		for _, spawn := range []string{"started", "preparing", "warming_up"} {
			if of.Written && spawn == "started" {
				continue
			}
			w := newWorld(t)
			w.sees(childPID, f)
			w.putRecord(started(set("spawn_state", `"`+spawn+`"`)))
			before := w.bytes(runID)
			for _, year := range []int{1970, 2026, 2126, 9999} {
				w.now = func() time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
				if job := w.status(runID); job.Terminal {
					t.Errorf("%v, %s: ended in %d", f, spawn, year)
				}
				if s, err := w.Sweep(t.Context(), false); err != nil || len(s.Ended) > 0 {
					t.Errorf("%v, %s: swept in %d: %+v, %v", f, spawn, year, s, err)
				}
			}
			w.untouched(runID, before)
		}
	}
}

// Each of the three positive findings is one transition: the first look writes
// it, and says so; no later one, of whatever kind, writes anything.
func TestPoint1OneTransition(t *testing.T) {
	written := 0
	for f, of := range answers {
		w := newWorld(t)
		w.sees(childPID, f)
		w.putRecord(started())
		var won []bool
		for range 3 {
			l, err := w.observe(t.Context(), runID)
			if err != nil {
				t.Fatal(err)
			}
			won = append(won, l.won)
		}
		if diff := cmp.Diff([]bool{of.Written, false, false}, won); diff != "" {
			t.Errorf("%v (-want +won):\n%s", f, diff)
		}
		if of.Written {
			written++
		}
	}
	if written != 3 {
		t.Errorf("%d findings end a job", written)
	}
}

// What could not be locked is neither ended nor told of.
func TestPoint13NobodyIsTold(t *testing.T) {
	for name, block := range map[string]func(*world) (unblock func()){
		"held": func(w *world) func() { return w.lockJob(runID) },
		"impossible": func(w *world) func() {
			path := filepath.Join(w.Store.Dir, runID, "job.lock")
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			return func() { os.Remove(path) }
		},
	} {
		w := newWorld(t)
		w.Store.LockWait = 20 * time.Millisecond
		w.Notices.Command = []string{"no-such-notifier"} // an attempt is on record, whatever comes of it
		w.putRecord(started())
		before := w.bytes(runID)
		unblock := block(w)
		job := w.status(runID)
		s, err := w.Sweep(t.Context(), false)
		if job.Terminal || str(job.Refused) != "lock_unavailable" || string(job.NotifyDelivery) != "null" {
			t.Errorf("%s: terminal %v, refused %s, notice %s", name, job.Terminal, str(job.Refused), job.NotifyDelivery)
		}
		if diff := cmp.Diff([]Swept{{runID, "lock_unavailable"}}, s.Refused); diff != "" || len(s.Ended) > 0 || err != nil {
			t.Errorf("%s: swept %+v, %v", name, s, err)
		}
		if after := w.bytes(runID); string(after) != string(before) {
			t.Errorf("%s: written:\n%s", name, after)
		}
		unblock()
		nextLookEnds(w)
		if err := w.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(w.status(runID).NotifyDelivery); !strings.Contains(got, `"attempted":true`) && !strings.Contains(got, `"attempted": true`) {
			t.Errorf("%s: notice %s", name, got)
		}
	}
}
