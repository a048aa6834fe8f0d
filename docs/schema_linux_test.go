package docs

import (
	"bytes"
	"encoding"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
	"github.com/jobprobe/jobprobe/spawn"
)

// schemas are the compiled files of the schema directory, by name. The strict
// ones refuse what is not described: an unknown property, and a field of the
// record that is not as we write it.
type schemas struct{ open, strict map[string]*jsonschema.Schema }

func compileSchemas(t *testing.T) schemas {
	t.Helper()
	return schemas{compile(t, func(any) {}), compile(t, tighten)}
}

// compile reads the schemas, each after a change.
func compile(t *testing.T, change func(any)) map[string]*jsonschema.Schema {
	t.Helper()
	paths, err := filepath.Glob("schema/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	c := jsonschema.NewCompiler()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		change(doc)
		if err := c.AddResource("file:///"+filepath.Base(path), doc); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]*jsonschema.Schema{}
	for _, path := range paths {
		file := filepath.Base(path)
		if all[strings.TrimSuffix(file, ".json")], err = c.Compile("file:///" + file); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

const asRecorded = "common.json#/$defs/as_recorded"

// recordFields are the properties of job.json, which are what a field that is
// passed on can be if the record is ours.
var recordFields = func() []string {
	text, err := os.ReadFile("schema/job.json")
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	return slices.Collect(maps.Keys(doc.(map[string]any)["properties"].(map[string]any)))
}()

// tighten makes a schema strict.
func tighten(node any) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			tighten(item)
		}
	case map[string]any:
		if properties, ok := node["properties"].(map[string]any); ok {
			node["additionalProperties"] = false
			for name, sub := range properties {
				if sub.(map[string]any)["$ref"] == asRecorded {
					properties[name] = ours(name)
				}
			}
		}
		for _, sub := range node {
			tighten(sub)
		}
	}
}

// ours is what a field that is passed on is if the record is ours.
func ours(name string) map[string]any {
	null := map[string]any{"type": "null"}
	if !slices.Contains(recordFields, name) {
		return null
	}
	return map[string]any{"anyOf": []any{null, map[string]any{"$ref": "job.json#/properties/" + name}}}
}

// coverage knows which properties documents have had, by their place in the
// schemas.
type coverage map[string]bool

// mark marks the properties of a value that a schema describes.
func (c coverage) mark(s *jsonschema.Schema, v any) {
	if s == nil || s.Validate(v) != nil {
		return
	}
	for _, sub := range slices.Concat([]*jsonschema.Schema{s.Ref}, s.OneOf, s.AnyOf, s.AllOf) {
		c.mark(sub, v)
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			c.mark(s.Items2020, item)
		}
	case map[string]any:
		for name, sub := range s.Properties {
			if value, ok := v[name]; ok {
				c[s.Location+" "+name] = true
				c.mark(sub, value)
			}
		}
	}
}

// all adds the properties that a schema describes, not yet marked.
func (c coverage) all(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	for _, sub := range slices.Concat([]*jsonschema.Schema{s.Ref, s.Items2020}, s.OneOf, s.AnyOf, s.AllOf) {
		c.all(sub, seen)
	}
	for name, sub := range s.Properties {
		if place := s.Location + " " + name; !c[place] {
			c[place] = false
		}
		c.all(sub, seen)
	}
}

// words lists an enumeration from its zero value on.
func words[T encoding.TextMarshaler](value func(n int) T) (list []string) {
	for n := 0; ; n++ {
		text, err := value(n).MarshalText()
		if err != nil {
			return list
		}
		list = append(list, string(text))
	}
}

// Each vocabulary of the schemas is the packages', and what explain explains.
// Closed ones are enumerations, open ones list what is known.
func TestVocabularies(t *testing.T) {
	explained := map[string][]string{}
	for _, code := range newHome(t).document(t, "jobprobe explain --json").(map[string]any)["codes"].([]any) {
		code := code.(map[string]any)
		kind := code["kind"].(string)
		explained[kind] = append(explained[kind], code["code"].(string))
	}
	want := map[string][]string{
		"conclusion":     explained["conclusion"],
		"finding":        explained["finding"],
		"outcome":        explained["outcome"],
		"source":         explained["source"],
		"precision":      explained["precision"],
		"status":         explained["status"],
		"reason":         explained["reason"],
		"refusal":        explained["refusal"],
		"kill_code":      explained["kill"],
		"claim_state":    explained["claim"],
		"error":          slices.Concat(explained["error"], explained["refusal"]),
		"cleanup":        explained["cleanup"],
		"state":          without(explained["state"], "none"), // null in documents
		"ownership":      explained["ownership"],
		"cause":          without(explained["lifecycle reason"], "none"), // the same
		"drain":          without(explained["drain"], "unknown"),         // there was none
		"warning":        explained["warning"],
		"kept":           explained["prune"],
		"admission":      {"open", "closed"},
		"result":         words(func(n int) sidecar.Result { return sidecar.Result(n) }),
		"record_state":   words(func(n int) sidecar.State { return sidecar.State(n) }),
		"health":         words(func(n int) reap.Health { return reap.Health(n) }),
		"remains":        words(func(n int) sidecar.Remains { return sidecar.Remains(n) }),
		"delivery_state": {"none", "pending", "unknown", "delivered", "delivered_unverified", "failed"},
		"pid_identity":   {"confirmed", "not_recorded", "unusable", "gone", "recycled", "unusable_pid", "unreadable"},
	}
	fromPackages := map[string][]string{
		"conclusion":  words(func(n int) jobprobe.Conclusion { return jobprobe.Conclusion(n) }),
		"finding":     words(func(n int) jobprobe.Finding { return jobprobe.Finding(n) }),
		"refusal":     words(func(n int) sidecar.Refusal { return sidecar.Refusal(n) }),
		"claim_state": words(func(n int) spawn.ClaimState { return spawn.ClaimState(n) }),
		"outcome":     {sidecar.Succeeded, sidecar.Failed, sidecar.Cancelled, sidecar.Indeterminate},
		"source": {sidecar.SourceHook, sidecar.SourceLifecycle, sidecar.SourceSpawn, sidecar.SourceKill,
			sidecar.SourceReaper, sidecar.SourceSupervisor, sidecar.SourceOperator},
		"cleanup":   words(func(n int) sidecar.Cleanup { return sidecar.Cleanup(n) }),
		"ownership": words(func(n int) sidecar.Ownership { return sidecar.Ownership(n) }),
		"state":     words(func(n int) sidecar.Phase { return sidecar.Phase(n) })[1:],
		"cause":     words(func(n int) sidecar.Cause { return sidecar.Cause(n) })[1:],
		"drain":     words(func(n int) reap.DrainOutcome { return reap.DrainOutcome(n) })[1:],
		"precision": {sidecar.Observed, sidecar.UpperBound},
	}
	for name, list := range fromPackages {
		same(t, name+" of the packages", list, want[name])
	}
	text, err := os.ReadFile("schema/common.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, def := range doc.(map[string]any)["$defs"].(map[string]any) {
		def := def.(map[string]any)
		list, closed := def["enum"].([]any)
		if !closed {
			list, _ = def["examples"].([]any)
		}
		if list == nil {
			continue
		}
		var got []string
		for _, word := range list {
			got = append(got, word.(string))
		}
		same(t, name, got, want[name])
		delete(want, name)
		mark := "Open: "
		if closed {
			mark = "Closed: "
		}
		if !strings.Contains(def["description"].(string), mark) {
			t.Errorf("%s does not say %q", name, mark)
		}
	}
	for name := range want {
		t.Errorf("no schema has the vocabulary %s", name)
	}
}

// without is a list but for one word.
func without(list []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(w string) bool { return w == word })
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if len(want) == 0 || !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("%s:\n%q, and not as explained\n%q", what, got, want)
	}
}

// coming are commands that are not there yet. When one is, it needs a file
// schema/NAME.json and a line in the list of documents, and leaves this list.
var coming = []string{}

// Every command that is shown has a schema, and nothing stays on the list of
// those that are coming.
func TestEveryCommandHasASchema(t *testing.T) {
	all := compile(t, func(any) {})
	commands := newHome(t).commandNames(t)
	if len(commands) < 15 {
		t.Fatalf("only %q found", commands)
	}
	for _, name := range commands {
		file := strings.ReplaceAll(name, " --", "-")
		if all[file] == nil {
			t.Errorf("%s has no schema: write docs/schema/%s.json", name, file)
		}
		if slices.Contains(coming, name) {
			t.Errorf("%s is there: take it from the list of what is coming", name)
		}
		if !slices.ContainsFunc(documentsShown, func(d document) bool { return d.schema == file }) {
			t.Errorf("%s: no document of it is looked at", name)
		}
	}
	t.Logf("count: %d commands", len(commands))
}

// commandNames are the commands that the help shows, and with their flag those
// whose documents another flag changes.
func (h home) commandNames(t *testing.T) (names []string) {
	t.Helper()
	help, err := h.command("jobprobe", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(help), "\nCommands:\n")
	for line := range strings.SplitSeq(list, "\n") {
		if strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") {
			names = append(names, strings.Fields(line)[0])
		}
	}
	of, err := h.command("jobprobe", "list", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(of), "--watch") {
		names = append(names, "list --watch")
	}
	return names
}

// unseen are properties that no command can be made to produce in a test, and
// why.
var unseen = map[string]string{
	"evidence.json# calls_dropped": "needs a kernel that answers EINTR or EAGAIN again and again",
}

// unproduced are the properties of the schemas that no document has had.
func (s schemas) unproduced(seen coverage) (list []string) {
	visited := map[*jsonschema.Schema]bool{}
	for _, schema := range s.strict {
		seen.all(schema, visited)
	}
	for place, had := range seen {
		place = strings.TrimPrefix(place, "file:///")
		if _, excused := unseen[place]; had == excused {
			list = append(list, fmt.Sprintf("%s (excused: %v)", place, excused))
		}
	}
	return slices.Sorted(slices.Values(list))
}
