package reap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe/sidecar"
)

// golden replays one recorded case of the peer against this package.
type golden struct {
	*world
	dir, home string
	finished  []string // finished_at of our replies
	volatile  bool     // the case ends the job, so finished_at is ours
}

// peerTime is a time as the peer writes it.
var peerTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00$`)

// TestGolden compares every field of the peer's replies with ours, and what
// is on disk afterwards byte for byte.
func TestGolden(t *testing.T) {
	root := os.Getenv("JOBPROBE_GOLDEN")
	if root == "" {
		t.Skip("JOBPROBE_GOLDEN is not set")
	}
	cases, err := filepath.Glob(filepath.Join(root, "*", "before.json"))
	if err != nil || len(cases) == 0 {
		t.Fatalf("no case below %s: %v", root, err)
	}
	replies, _ := filepath.Glob(filepath.Join(root, "*", "[0-9]*-*.json"))
	compared := map[string]int{}
	for _, before := range cases {
		dir := filepath.Dir(before)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			for _, verb := range replay(t, dir) {
				compared[verb]++
			}
		})
	}
	sum := 0
	for _, n := range compared {
		sum += n
	}
	t.Logf("count: %d cases, and of each operation %v", len(cases), compared)
	if sum != len(replies) && !t.Failed() {
		t.Errorf("%d operations, but %d replies are recorded", sum, len(replies))
	}
}

// replay performs the operations of a case, and returns them.
func replay(t *testing.T, dir string) (verbs []string) {
	g := &golden{world: newWorld(t), dir: dir}
	g.probe, g.now = nil, nil                        // the real ones
	g.home = filepath.Dir(filepath.Dir(g.Store.Dir)) // which ends in mcp/jobs
	g.put(runID, g.file("before.json"))
	if strings.HasPrefix(filepath.Base(dir), "R5-") {
		g.runFile("notify_outcome.json", `{"ok": true}`)
	}
	before := sidecar.Store{Dir: g.Store.Dir}.Read(runID)
	g.volatile = before.State == sidecar.OK && !before.Record.Ended() && g.file("after.json") != g.file("before.json")
	for i, op := range strings.Split(strings.TrimSpace(g.file("ops.txt")), "\n") {
		verb, args, _ := strings.Cut(op, " ")
		verbs = append(verbs, verb)
		if verb == "kill" {
			continue // see TestKillGolden, on systems with process groups
		}
		g.compare(op, g.file(fmt.Sprintf("%d-%s.json", i+1, verb)), g.run(verb, args))
	}
	g.after()
	return verbs
}

func (g *golden) file(name string) string {
	g.t.Helper()
	return string(readGolden(g.t, filepath.Join(g.dir, name)))
}

// readGolden reads a file of a case as if its run were the one of these tests.
func readGolden(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(data, []byte("20260801T000000-abcdef"), []byte(runID))
}

func (g *golden) runFile(name, data string) {
	g.t.Helper()
	dir := filepath.Join(g.home, "runs", runID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

// run performs one operation and returns our reply as JSON.
func (g *golden) run(verb, args string) string {
	g.t.Helper()
	var reply any
	switch verb {
	case "status":
		reply = g.status(runID)
	case "list":
		reply = g.list(ListOptions{Limit: 50}).Jobs
	case "wait":
		var opt WaitOptions
		if _, err := fmt.Sscan(args, &opt.MaxWait, &opt.Poll); err != nil {
			g.t.Fatal(err)
		}
		w, err := g.Wait(g.t.Context(), []string{runID}, opt)
		if err != nil {
			g.t.Fatal(err)
		}
		reply = w
	case "mark":
		tr, err := g.MarkTerminal(g.t.Context(), runID, Report{Status: args})
		if err != nil {
			g.t.Fatal(err)
		}
		return string(tr.Record.Append(nil))
	case "output":
		out, unusable, err := g.Output(g.t.Context(), runID, 20000)
		if err != nil {
			g.t.Fatal(err)
		}
		if reply = out; unusable != nil {
			reply = unusable
		}
	default:
		g.t.Fatalf("an operation that this test does not know: %q", verb)
	}
	text, err := json.Marshal(reply)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// raised are our answers where the peer's own reply is an exception: a record
// with a NaN in it is unreadable, and one row of a listing.
var raised = map[string]string{
	"status": `{"run_id": "` + runID + `", "known": false, "record_state": "unreadable", "status": "unknown",
		"terminal": false, "outcome": null, "possibly_orphaned": false, "alive": false,
		"pid_identity": "unusable_pid", "liveness_conclusion": "unknown", "pid": null, "finished_at": null}`,
	"list": `[{"run_id": "` + runID + `", "record_state": "unreadable", "status": "unknown", "terminal": false}]`,
}

// compare fails for every field of the peer's reply that ours has not, or has
// with another value or in another order.
func (g *golden) compare(op, peer, ours string) {
	g.t.Helper()
	want, got := parseReply(g.t, peer), parseReply(g.t, ours)
	if rec, err := sidecar.Parse([]byte(ours)); err == nil && !rec.Null("finished_at") {
		at, _ := rec.Text("finished_at")
		g.finished = append(g.finished, at)
	}
	if m, ok := want.(map[string]any); ok && m["peer_raised"] != nil {
		want = parseReply(g.t, raised[op])
	}
	if diff := cmp.Diff(g.settle(want), g.settle(project(want, got))); diff != "" {
		g.t.Errorf("%s (-peer +ours):\n%s", op, diff)
	}
	if peerKeys := topKeys(peer); len(peerKeys) > 1 {
		if diff := cmp.Diff(peerKeys, keep(topKeys(ours), peerKeys)); diff != "" {
			g.t.Errorf("%s: order of the fields (-peer +ours):\n%s", op, diff)
		}
	}
}

// settle replaces what differs from one run to the next. finished_at must have
// the peer's form.
func (g *golden) settle(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "server")
		if dir, ok := v["run_dir"].(string); ok {
			v["run_dir"] = filepath.FromSlash(strings.Replace(dir, "HOME", g.home, 1))
		}
		if at, ok := v["finished_at"].(string); ok && g.volatile {
			if !peerTime.MatchString(at) {
				g.t.Errorf("finished_at is %q", at)
			}
			v["finished_at"] = "OURS"
		}
		for key, member := range v {
			v[key] = g.settle(member)
		}
	case []any:
		for i := range v {
			v[i] = g.settle(v[i])
		}
	}
	return v
}

// project leaves of our reply what the peer's has, at any depth.
func project(want, got any) any {
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return got
		}
		out := map[string]any{}
		for key, member := range want {
			if value, ok := have[key]; ok {
				out[key] = project(member, value)
			}
		}
		return out
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) != len(want) {
			return got
		}
		for i := range have {
			have[i] = project(want[i], have[i])
		}
		return have
	}
	return got
}

// after compares the bytes on disk with the peer's, but for its clock.
func (g *golden) after() {
	g.t.Helper()
	want, got := g.file("after.json"), string(g.bytes(runID))
	if g.volatile {
		peer, err := sidecar.Parse([]byte(want))
		if err != nil {
			g.t.Fatal(err)
		}
		theirs, _ := peer.Text("finished_at")
		ours, _ := g.Store.Read(runID).Record.Text("finished_at")
		want = strings.Replace(want, theirs, ours, 1)
		for _, at := range g.finished {
			if at != ours {
				g.t.Errorf("a reply said finished_at %s, and %s is on disk", at, ours)
			}
		}
		if len(g.finished) == 0 {
			g.t.Error("no reply told the end")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		g.t.Errorf("on disk (-peer +ours):\n%s", diff)
	}
}

// parseReply reads JSON with numbers as exact values: 600 equals 600.0, and
// 9223372036854775808 is itself.
func parseReply(t *testing.T, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return exact(v)
}

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			return "number " + r.RatString()
		}
	case map[string]any:
		for key := range v {
			v[key] = exact(v[key])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	}
	return v
}

// topKeys returns the keys of an object in their order, nil for anything else.
func topKeys(text string) []string {
	if rec, err := sidecar.Parse([]byte(text)); err == nil {
		return rec.Names()
	}
	return nil
}

func keep(keys, of []string) []string {
	return slices.DeleteFunc(keys, func(key string) bool { return !slices.Contains(of, key) })
}
