package reap

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// bell is a store with one job, whose process is gone and whose end is not
// recorded, and a file that each notifier of these tests leaves a line in.
type bell struct {
	Observer
	t     testing.TB
	dir   string // the job's directory
	calls string
}

// newBell makes the job, with further members. "CALLS" in their text stands
// for the path of the file.
func newBell(t testing.TB, fields ...sidecar.Field) *bell {
	t.Helper()
	home := testproc.TempDir(t)
	b := &bell{Observer: New(filepath.Join(home, "jobs")), t: t, calls: filepath.Join(home, "calls")}
	b.dir = b.add(runID, fields...)
	return b
}

func (b *bell) add(id string, fields ...sidecar.Field) (dir string) {
	b.t.Helper()
	rec := sidecar.NewRecord(
		set("run_id", `"`+id+`"`), set("pid", "2147483000"), set("pid_create_time", "1700000000.25"),
		set("label", `"a-label"`), set("notify_target", `"somebody"`),
		set("finished_at", "null"), set("status", `"running"`), set("spawn_state", `"started"`),
		sidecar.Field{Name: "lifecycle", Value: sidecar.NewHistory()},
	)
	b.fill(rec, fields)
	if err := b.Store.Create(id, rec); err != nil {
		b.t.Fatal(err)
	}
	return filepath.Join(b.Store.Dir, id)
}

func (b *bell) fill(rec *sidecar.Record, fields []sidecar.Field) {
	for _, f := range fields {
		rec.Set(f.Name, bytes.ReplaceAll(f.Value, []byte("CALLS"), []byte(b.calls)))
	}
}

// tells is a record's command.
func tells(argv ...string) sidecar.Field {
	return sidecar.Field{Name: "notify_command", Value: sidecar.Text(string(sidecar.Texts(argv)))}
}

// rung counts the notifiers that have run.
func (b *bell) rung() int {
	b.t.Helper()
	data, err := os.ReadFile(b.calls)
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return bytes.Count(data, []byte("\n"))
}

// look lets one observer look, and waits until it has told whom it must.
func (b *bell) look() Job {
	b.t.Helper()
	job, err := b.Status(b.t.Context(), runID)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.Flush(b.t.Context()); err != nil {
		b.t.Error(err)
	}
	return job
}

// on returns a member of the record as it stands, without layout.
func (b *bell) on(id, name string) string {
	b.t.Helper()
	r := b.Store.Read(id)
	if r.State != sidecar.OK {
		b.t.Fatalf("record is %v: %v", r.State, r.Err)
	}
	raw, ok := r.Record.Raw(name)
	if !ok {
		return "absent"
	}
	v := jsontext.Value(slices.Clone(raw))
	if err := v.Compact(); err != nil {
		b.t.Fatal(err)
	}
	return string(v)
}

// want checks the delivery on record, and how many notifiers have run.
func (b *bell) want(delivery string, rung int) {
	b.t.Helper()
	if got := b.on(runID, "notify_delivery"); got != delivery {
		b.t.Errorf("notify_delivery is\n%s, want\n%s", got, delivery)
	}
	if n := b.rung(); n != rung {
		b.t.Errorf("%d notifiers have run, want %d", n, rung)
	}
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Deliveries as they are recorded.
const (
	noNotice      = `{"attempted":false}`
	pendingNotice = `{"attempted":false,"pending":true}`
	unknownNotice = `{"attempted":true,"ok":null,"exit_code":null,"error":"delivery_outcome_unknown","command":null}`
	okNotice      = `{"attempted":true,"ok":true,"exit_code":0,"error":null,"failure_class":null,"command":"sh"}`
)

func refusedNotice(codes, command string) string {
	return `{"attempted":false,"ok":false,"exit_code":null,"error":"` + codes + `","command":` + command + `}`
}
