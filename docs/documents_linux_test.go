package docs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/jobprobe/jobprobe/sidecar"
)

// document is one line of the shell, and the schema of the one document that it
// prints. Without a schema it prepares what follows. Its run id is kept in the
// variable save.
type document struct {
	schema string
	save   string
	shell  string
}

// documentsShown runs every command in each way that makes its document
// another: as it should go, refused, and asked for what is not there.
var documentsShown = []document{
	{"version", "", "jobprobe version --json"},
	{"explain", "", "jobprobe explain --json"},
	{"explain", "", "jobprobe explain --json unknown"},
	{"error", "", "jobprobe explain --json no_such_word"},
	{"error", "", "jobprobe status --json --no-such-flag"},
	{"list", "", "jobprobe list --json"}, // no store yet
	{"doctor", "", "jobprobe doctor --json"},

	{"identify", "", "jobprobe identify --json $$"},
	{"error", "", "jobprobe identify --json 2147483647"},
	{"error", "", "jobprobe identify --json -- -1"},
	{"probe", "", "jobprobe probe --json --evidence $$"},
	{"probe", "", "jobprobe probe --json --evidence 2147483647"},
	{"probe", "", "jobprobe probe --json --evidence -- -1"},
	{"probe", "", "jobprobe identify $$ | jobprobe probe --json --evidence --identity -"},
	{"probe", "", `jobprobe identify $$ | sed 's/,"uniq.*pidfs"//' | jobprobe probe --json --evidence --identity -`},
	{"probe", "", `jobprobe identify $$ | sed 's/"start":"/&x/' | jobprobe probe --json --evidence --identity -`},
	{"error", "", "echo nonsense | jobprobe probe --json --identity -"},
	// A process that has exited and is not collected.
	{"probe", "", `sh -c 'sh -c "jobprobe identify \$\$ > exited" & exec sleep 600' >held 2>&1 &
		until jobprobe probe --identity exited | grep -q process_gone; do :; done
		jobprobe probe --json --evidence --identity exited; kill $!`},

	{"run", "good", "jobprobe run --json --label good --claim key --parent 20260101T000000-000000 --log-max 8k -- echo hello"},
	{"wait", "", "jobprobe wait --json $good"},
	{"claims", "", "jobprobe claims --json"},
	{"run", "bad", `jobprobe run --json --wait --notify-command '["true"]' --notify-target t --notify-sender s -- sh -c 'exit 3'`},
	{"run", "dead", `jobprobe run --json --wait --notify-command '["false"]' -- sh -c 'kill -KILL $$'`},
	{"status", "", "jobprobe status --json $dead"},
	{"error", "", "jobprobe run --json -- /no/such/command"},
	{"run", "long", "jobprobe run --json --claim key -- sleep 600"},
	{"error", "", "jobprobe run --json --claim key -- sleep 600"},
	{"claims", "", "jobprobe claims --json"},
	{"status", "", "jobprobe status --json $long"},
	{"status", "", "jobprobe status --json $good $long absent"},
	{"status", "", "jobprobe status --json absent"},
	{"error", "", "jobprobe status --json ../escape"},
	{"wait", "", "jobprobe wait --json --max-wait 0s $good $long absent ''"},
	{"output", "", "jobprobe output --json $good"},
	{"output", "", "jobprobe output --json absent"},
	{"error", "", "jobprobe close --json --attest gone $long"},
	{"kill", "", "jobprobe kill --json $long"},
	{"kill", "", "jobprobe kill --json $good"},
	{"kill", "", "jobprobe kill --json absent"},
	{"error", "", "jobprobe kill --json --signal NONE $good"},

	// A run that reports its own end, twice, and then exits; and one that is
	// signalled after it has reported.
	{"run", "told", "jobprobe run --json -- sleep 600"},
	{"hook", "", "jobprobe hook --json --run-id $told --status completed"},
	{"hook", "", "jobprobe hook --json --run-id $told --status failed --reason other"},
	{"hook", "", "jobprobe hook --json --run-id $told --status failed"},
	{"hook", "", "jobprobe hook --json --run-id absent --status failed"},
	{"kill", "", "jobprobe kill --json $told"},
	{"run", "late", "jobprobe run --json --wait -- sh -c 'jobprobe hook --status completed; exit 5'"},
	{"", "", lateReport("late")},
	{"status", "", "jobprobe status --json $late"},
	{"run", "later", "jobprobe run --json --wait -- sh -c 'jobprobe hook --status completed; kill -KILL $$'"},
	{"", "", lateReport("later")},
	{"status", "", "jobprobe status --json $later"},

	// A job whose supervisor is killed before it.
	{"run", "lost", `jobprobe run --json --notify-command '["true"]' -- sleep 600`},
	{"", "", "kill -KILL $(recorded $lost supervisor) $(recorded $lost process_identity)"},
	{"", "", "until jobprobe sweep --dry-run | grep '^would end'; do :; done"},
	{"sweep", "", "jobprobe sweep --json --dry-run"},
	{"status", "", "jobprobe status --json $lost"}, // its notice is pending
	{"sweep", "", "jobprobe sweep --json"},

	// Records of other hosts, and what another store knows of one.
	{"", "away", "copy $lost away foreign"},
	{"status", "", "jobprobe status --json away"},
	{"sweep", "", "jobprobe sweep --json"},
	{"close", "", "jobprobe close --json --attest 'the host was scrapped' away"},
	{"error", "", "jobprobe close --json --attest again away"},
	{"", "", "copy $lost known nobody"},
	{"status", "", `jobprobe --lifecycle-command '["cat", "lifecycle"]' status --json known`},

	// What takes longer than a test may, or a program of another kind, from
	// records that were left.
	{"status", "", "jobprobe status --json batch"},
	{"status", "", "jobprobe status --json timeout"},
	{"lifecycle", "", "jobprobe lifecycle --json batch"},
	{"lifecycle", "", "jobprobe lifecycle --json timeout"}, // which has no history
	{"lifecycle", "", "jobprobe lifecycle --json $long"},
	{"lifecycle", "", "jobprobe lifecycle --json absent"},
	{"list", "", "jobprobe list --json --limit 3"},
	{"list", "", "jobprobe list --json --limit 0"},
	{"wait", "", "jobprobe wait --json --max-wait 0s batch timeout"},
	{"doctor", "", "jobprobe doctor --json"},

	{"list-watch", "", "timeout -s TERM 1 jobprobe list --json --limit 1 --watch | head -n 1"},
	{"list-watch", "", `jobprobe list --json --limit 0 --watch > watched & watch=$!
		until grep -q timeout watched; do :; done; rm -r $JOBPROBE_DIR/timeout
		until grep -q removed watched; do :; done; kill $watch; grep removed watched`},
	{"completion", "", "jobprobe completion --json bash"},

	// The store as a whole.
	{"run", "busy", "jobprobe run --json -- sleep 600"},
	{"metrics", "", "jobprobe metrics --json"},
	{"hook", "", "jobprobe hook --json --run-id $busy --status completed"}, // and its process lives
	{"prune", "", "jobprobe prune --json --older-than 0s --dry-run"},
	{"drain", "", "jobprobe drain --json"},
	{"error", "", "jobprobe run --json -- true"},
	{"metrics", "", "jobprobe metrics --json"},
	{"drain", "", "jobprobe drain --json --reopen"},
	{"error", "", "jobprobe drain --json --timeout 0s"},

	// Damaged and hostile records.
	{"status wild", "", "jobprobe status --json torn list odd other"},
	{"list wild", "", "jobprobe list --json --limit 0"},
	{"wait wild", "", "jobprobe wait --json --max-wait 0s torn list odd other"},
	{"sweep wild", "", "jobprobe sweep --json"},
	{"output wild", "", "jobprobe output --json torn"},
	{"output wild", "", "jobprobe output --json odd"},
	{"kill wild", "", "jobprobe kill --json torn"},
	{"kill wild", "", "jobprobe kill --json odd"},
	{"hook wild", "", "jobprobe hook --json --run-id odd --status completed"},
	{"error wild", "", "jobprobe hook --json --run-id torn --status completed"},
	{"error wild", "", "jobprobe hook --json --run-id other --status completed"},
	{"error wild", "", "jobprobe close --json --attest gone list"},
	{"claims wild", "", "jobprobe claims --json"},
	{"lifecycle wild", "", "jobprobe lifecycle --json odd"},
	{"metrics wild", "", "jobprobe metrics --json"},
	{"drain wild", "", "jobprobe drain --json --timeout 1s"},
	{"prune wild", "", "jobprobe prune --json --older-than 0s --dry-run"},
}

// lateReport waits until the supervisor of a job has reported that, too.
func lateReport(name string) string {
	return "until grep -q late_report $JOBPROBE_DIR/$" + name + "/job.json; do :; done"
}

// tools are functions of the shell for the lines above: recorded prints the
// number of a process that a record names; copy makes a job of a record, without
// its end, whose process is of another host or nobody's.
const tools = `
recorded() { sed -n '/"'$2'": {/,/}/s/.*"pid": "\([0-9]*\)".*/\1/p' "$JOBPROBE_DIR/$1/job.json"; }
copy() {
  mkdir -p "$JOBPROBE_DIR/$2"
  sed -e 's/"finished_at": .*/"finished_at": null,/' -e 's/"status": .*/"status": "running",/' -e "s/$1/$2/" \
    -e '/"outcome"/,$d' "$JOBPROBE_DIR/$1/job.json" | sed '$s/,$//' > record
  case $3 in
  foreign) sed -e 's/"boot": ".*"/"boot": "another"/' -e 's/"host": ".*"/"host": "another"/' record ;;
  nobody) sed -e 's/"supervisor": {/"unknown": {/' record ;;
  esac > "$JOBPROBE_DIR/$2/job.json"
  echo '}' >> "$JOBPROBE_DIR/$2/job.json"
}
`

// left are records that other programs have left, by their run id.
var left = map[string]string{
	"batch": `{"run_id": "batch", "pid": 2147483646, "pid_create_time": null, "pgid": null, "kind": "command", "argv": [],
		"cwd": "/", "submit_cwd": null, "label": null, "notify_command": null, "notify_target": null, "notify_sender": null,
		"submitted_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T00:00:01+00:00", "status": "failed",
		"spawn_state": "started", "log": "/x", "lifecycle": {"schema_version": 1, "state": "failed", "cleanup": "not_requested",
		"ownership": "runtime_task_only", "reason": "provider_failure", "dropped": 1, "damaged": 1, "history": [
		{"at": null, "state": "running", "cleanup": "not_requested", "ownership": "runtime_task_only", "reason": null}]},
		"parent_run_id": "p", "spawn_index": 0, "tool_call_id": "c",
		"signal": "SIGSEGV", "core_dumped": true, "reason_code": "run.failed.signal",
		"finished_at_precision": "observed", "terminal_source": "supervisor_exit", "notify_delivery": {"attempted": false}}`,
	"timeout": `{"run_id": "timeout", "pid": 2147483646, "pid_create_time": null, "pgid": null, "kind": "command", "argv": [],
		"cwd": "/", "submit_cwd": null, "label": null, "notify_command": "[\"true\"]", "notify_target": null, "notify_sender": null,
		"submitted_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T00:00:01+00:00", "status": "completed",
		"spawn_state": "started", "log": "/x", "exit_code": 0, "finished_at_precision": "observed",
		"terminal_source": "supervisor_exit", "notify_delivery": {"attempted": true, "ok": false, "exit_code": null,
		"error": "TimeoutExpired", "failure_class": "timeout", "delivery_verified": false,
		"unverified_reason": "delivery_timed_out", "command": "true"}}`,
}

// hostile are records that nobody should have left.
var hostile = map[string]string{
	"torn":  `{"run_id": "torn", "pid"`,
	"list":  `[1]`,
	"other": `{"run_id": "another", "spawn_state": "started", "finished_at": null}`,
	"odd": `{"run_id": "odd", "pid": "7", "pgid": {}, "label": [1], "status": 5, "spawn_state": 1, "finished_at": null,
		"submitted_at": {}, "terminal_source": 9, "notify_delivery": "x", "exit_code": "0", "signal": 1, "late_report": []}`,
}

// leave writes records into the store.
func (h home) leave(t *testing.T, records map[string]string) {
	t.Helper()
	for id, text := range records {
		write(t, filepath.Join(h.jobs(), id, "job.json"), text)
	}
}

// document is the one document that a line of the shell prints.
func (h home) document(t *testing.T, shell string) any {
	t.Helper()
	cmd := h.command("sh", "-c", tools+shell)
	cmd.Stderr = nil
	out, err := cmd.Output()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
	if err != nil || bytes.Count(out, []byte("\n")) != 1 {
		t.Fatalf("%s: no document: %v\n%s", shell, err, out)
	}
	return doc
}

// Every document that a command prints is as its schema describes it, has
// nothing that is not described, and every property that is described is in
// some document.
func TestDocuments(t *testing.T) {
	s := compileSchemas(t)
	h := newHome(t)
	write(t, filepath.Join(string(h), "lifecycle"), `{"contract_version": 1, "ok": true, "data": {"lifecycle":
		{"available": true, "value": {"terminal": true, "status": "completed", "outcome": "succeeded"}}}}`)
	seen := coverage{}
	for _, d := range documentsShown {
		name, wild, _ := strings.Cut(d.schema, " ")
		switch {
		case d.shell == "jobprobe status --json batch":
			h.leave(t, left)
		case wild != "":
			h.leave(t, hostile)
		}
		if name == "" {
			if out, err := h.command("sh", "-c", tools+d.shell).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", d.shell, err, out)
			}
			continue
		}
		if s.open[name] == nil {
			t.Fatalf("there is no docs/schema/%s.json", name)
		}
		doc := h.document(t, d.shell)
		if d.save != "" {
			id, _ := doc.(map[string]any)["run_id"].(string)
			t.Setenv(d.save, id)
		}
		if err := s.open[name].Validate(doc); err != nil {
			t.Errorf("%s: %v\n%v", d.shell, err, doc)
		}
		if wild != "" {
			continue
		}
		if err := s.strict[name].Validate(doc); err != nil {
			t.Errorf("%s: strictly: %v\n%v", d.shell, err, doc)
		}
		seen.mark(s.strict[name], doc)
	}
	n := h.validateRecords(t, s, seen)
	for _, place := range s.unproduced(seen) {
		t.Errorf("no document of this test has %s, or it has and is excused", place)
	}
	t.Logf("count: %d documents and %d records, %d properties", len(documentsShown), n, len(seen))
}

// validateRecords checks the records that the commands have written.
func (h home) validateRecords(t *testing.T, s schemas, seen coverage) (n int) {
	t.Helper()
	ids, err := sidecar.Store{Dir: h.jobs()}.IDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if hostile[id] != "" || id == "known" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(h.jobs(), id, "job.json"))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.strict["job"].Validate(doc); err != nil {
			t.Errorf("the record %s: %v\n%s", id, err, text)
		}
		seen.mark(s.strict["job"], doc)
		n++
	}
	return n
}

// A document with an unknown property, a word that is no word or without a
// property that must be there is refused, strictly or at all.
func TestSchemasRefuse(t *testing.T) {
	s := compileSchemas(t)
	for doc, ok := range map[string][2]bool{
		`{"contract_version":1,"version":"v","go":"g","platform":"p"}`:          {true, true},
		`{"contract_version":1,"version":"v","go":"g","platform":"p","more":1}`: {true, false},
		`{"contract_version":2,"version":"v","go":"g","platform":"p"}`:          {false, false},
		`{"contract_version":1,"version":"v","go":"g"}`:                         {false, false},
		`{"contract_version":1,"version":"v","go":"g","platform":1}`:            {false, false},
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		got := [2]bool{s.open["version"].Validate(v) == nil, s.strict["version"].Validate(v) == nil}
		if got != ok {
			t.Errorf("%s: valid and strictly so: %v, want %v", doc, got, ok)
		}
	}
	if len(s.unproduced(coverage{})) < 100 {
		t.Error(fmt.Sprint("properties that are in no document are not told: ", len(s.unproduced(coverage{}))))
	}
}
