package sidecar_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// benchRecord returns a record of about 1.5 KB with the members of a real one,
// of a run that was reaped.
func benchRecord(id string) *sidecar.Record {
	now := time.Date(2026, 7, 25, 0, 0, 0, 123456000, time.UTC)
	r := sidecar.NewRecord(
		sidecar.Field{Name: "run_id", Value: sidecar.Text(id)},
		sidecar.Field{Name: "pid", Value: sidecar.Int(2147483000)},
		sidecar.Field{Name: "pid_create_time", Value: sidecar.Float(1700000000.25)},
		sidecar.Field{Name: "pgid", Value: sidecar.Int(2147483000)},
		sidecar.Field{Name: "kind", Value: sidecar.Text("agent")},
		sidecar.Field{Name: "argv", Value: sidecar.Texts([]string{
			"/usr/local/bin/worker", "--model", "large", strings.Repeat("x", 370)})},
		sidecar.Field{Name: "cwd", Value: sidecar.Text("/srv/project")},
		sidecar.Field{Name: "submit_cwd", Value: sidecar.Null()},
		sidecar.Field{Name: "label", Value: sidecar.Text("a label")},
		sidecar.Field{Name: "notify_command", Value: sidecar.Text(`["notify", "{run_id}"]`)},
		sidecar.Field{Name: "notify_target", Value: sidecar.Null()},
		sidecar.Field{Name: "notify_sender", Value: sidecar.Null()},
		sidecar.Field{Name: "submitted_at", Value: sidecar.Text(sidecar.FormatTime(now))},
		sidecar.Field{Name: "finished_at", Value: sidecar.Null()},
		sidecar.Field{Name: "status", Value: sidecar.Text("running")},
		sidecar.Field{Name: "spawn_state", Value: sidecar.Text("started")},
		sidecar.Field{Name: "log", Value: sidecar.Text("/srv/jobs/" + id + "/console.log")},
		sidecar.Field{Name: "process_identity", Value: sidecar.Object(
			sidecar.Field{Name: "os", Value: sidecar.Text("linux")},
			sidecar.Field{Name: "pid", Value: sidecar.Text("2147483000")},
			sidecar.Field{Name: "start", Value: sidecar.Text("6335112")},
			sidecar.Field{Name: "start_unit", Value: sidecar.Text("boot_ticks")},
			sidecar.Field{Name: "boot", Value: sidecar.Text("3a1c3a52-9a4b-4d8e-9f43-6f1d2c1a0b9e")},
			sidecar.Field{Name: "boot_src", Value: sidecar.Text("procfs")},
		)},
	)
	if _, err := (sidecar.Reaping{Finding: jobprobe.PIDAbsent, At: now}).Apply(r); err != nil {
		panic(err)
	}
	return r
}

const benchRuns = 10000

func benchStore(b *testing.B) (sidecar.Store, []string) {
	b.Helper()
	dir := tempDir(b)
	ids := make([]string, benchRuns)
	for i := range ids {
		ids[i] = sidecar.NewRunID(time.Unix(1784000000+int64(i), 0))
		if err := os.Mkdir(filepath.Join(dir, ids[i]), 0o700); err != nil {
			b.Fatal(err)
		}
		data := benchRecord(ids[i]).Append(nil)
		if err := os.WriteFile(filepath.Join(dir, ids[i], "job.json"), data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return sidecar.Store{Dir: dir}, ids
}

func BenchmarkIDs(b *testing.B) {
	store, ids := benchStore(b)
	for b.Loop() {
		if got, err := store.IDs(); err != nil || len(got) != len(ids) {
			b.Fatal(len(got), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/record")
}

func BenchmarkParse(b *testing.B) {
	data := benchRecord("20260801T000000-abcdef").Append(nil)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := sidecar.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
