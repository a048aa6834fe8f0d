package reap

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// What the record alone refuses. The live stranger whose number stands in some
// of these records is there to be hit by a wrong conversion.
func TestKillRecordCodes(t *testing.T) {
	k := newPack(t)
	id := whoIs(t, session(t, scriptIdle).ready().pid)
	good := fmt.Sprintf(`"pid": %d, "pid_create_time": 1700000000.25, "pgid": %[1]d`, id.PID)
	stamp, err := id.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	with := func(fields string) string { return `{"run_id": "` + runID + `", ` + fields + `}` }
	identity := func(text string) string { return with(good + `, "process_identity": ` + text) }
	wrap := uint64(1)<<32 + uint64(id.PID)
	for _, c := range []struct{ name, record, code string }{
		{"empty", ``, "job_record_unreadable"},
		{"duplicate pid", with(good + `, "pid": 1`), "job_record_unreadable"},
		{"NaN", with(`"pid": 4, "pgid": 4, "pid_create_time": NaN`), "job_record_unreadable"},
		{"array", `[]`, "job_record_wrong_shape"},
		{"null", `null`, "job_record_wrong_shape"},
		{"other run", strings.Replace(with(good), runID, runID+"x", 1), "job_record_names_another_run"},
		{"no run id", `{` + good + `}`, "job_record_names_another_run"},
		{"no pid", with(`"pgid": 7`), "no_pid_on_record"},
		{"null pid", with(`"pid": null`), "no_pid_on_record"},
		{"pid 0", with(`"pid": 0`), "no_pid_on_record"},
		{"pid 1", with(`"pid": 1, "process_identity": ` + string(stamp)), "no_pid_on_record"},
		{"pid -1", with(`"pid": -1`), "no_pid_on_record"},
		{"pid -n", with(fmt.Sprintf(`"pid": %d`, -id.PID)), "no_pid_on_record"},
		{"pid 2^31", with(`"pid": 2147483648`), "no_pid_on_record"},
		{"pid 2^32-1", with(`"pid": 4294967295`), "no_pid_on_record"},
		{"pid 2^32+1", with(`"pid": 4294967297`), "no_pid_on_record"},
		{"pid 2^32+n", with(fmt.Sprintf(`"pid": %d, "pgid": %[1]d, "pid_create_time": 1.5`, wrap)), "no_pid_on_record"},
		{"pid 2^64+n", with(fmt.Sprintf(`"pid": 18446744073709%d`, 551616+id.PID)), "no_pid_on_record"},
		{"pid 4.0", with(fmt.Sprintf(`"pid": %d.0`, id.PID)), "no_pid_on_record"},
		{"pid text", with(fmt.Sprintf(`"pid": "%d"`, id.PID)), "no_pid_on_record"},
		{"pid true", with(`"pid": true`), "no_pid_on_record"},
		{"pid list", with(fmt.Sprintf(`"pid": [%d]`, id.PID)), "no_pid_on_record"},
		{"neither key", with(fmt.Sprintf(`"pid": %d`, id.PID)), "no_recorded_process_identity"},
		{"only a group", with(fmt.Sprintf(`"pid": %d, "pgid": %[1]d`, id.PID)), "recorded_identity_unusable"},
		{"only a time", with(fmt.Sprintf(`"pid": %d, "pid_create_time": 1.5`, id.PID)), "recorded_identity_unusable"},
		{"time true", with(fmt.Sprintf(`"pid": %d, "pgid": %[1]d, "pid_create_time": true`, id.PID)), "recorded_identity_unusable"},
		{"time text", with(fmt.Sprintf(`"pid": %d, "pgid": %[1]d, "pid_create_time": "1.5"`, id.PID)), "recorded_identity_unusable"},
		{"time too big", with(fmt.Sprintf(`"pid": %d, "pgid": %[1]d, "pid_create_time": 1e999`, id.PID)), "recorded_identity_unusable"},
		{"group 0", with(fmt.Sprintf(`"pid": %d, "pgid": 0, "pid_create_time": 1.5`, id.PID)), "recorded_identity_unusable"},
		{"group 1", with(fmt.Sprintf(`"pid": %d, "pgid": 1, "pid_create_time": 1.5`, id.PID)), "recorded_identity_unusable"},
		{"group -n", with(fmt.Sprintf(`"pid": %d, "pgid": -%[1]d, "pid_create_time": 1.5`, id.PID)), "recorded_identity_unusable"},
		{"group 2^32+n", with(fmt.Sprintf(`"pid": %d, "pgid": %d, "pid_create_time": 1.5`, id.PID, wrap)), "recorded_identity_unusable"},
		{"group text", with(fmt.Sprintf(`"pid": %d, "pgid": "%[1]d", "pid_create_time": 1.5`, id.PID)), "recorded_identity_unusable"},
		{"identity {}", identity(`{}`), "recorded_identity_unusable"},
		{"identity list", identity(`[]`), "recorded_identity_unusable"},
		{"identity of another pid", identity(strings.Replace(string(stamp), `"pid":"`, `"pid":"1`, 1)), "recorded_identity_unusable"},
		{"identity damaged", identity(strings.Replace(string(stamp), `"start":"`, `"start":"x`, 1)), "recorded_identity_unusable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &pack{k.Observer, t}
			k.write([]byte(c.record))
			reply := k.refuses(c.code, id)
			if reply.Undecided() || string(reply.PGID) != "null" {
				t.Errorf("reply is %+v", reply)
			}
			if rec, err := sidecar.Parse([]byte(c.record)); err == nil && rec.RunID() == runID && string(reply.PID) != string(field(rec, "pid")) {
				t.Errorf("pid is %s, not as recorded", reply.PID)
			}
		})
	}
}

// C24 and G10: nothing is asked of, or sent to, a number that means a group.
func TestCaseC24(t *testing.T) {
	for _, pid := range []string{"0", "-1", "null"} {
		for _, state := range []string{"started", "preparing"} {
			k := newPack(t)
			k.record(set("pid", pid), set("pgid", pid), set("spawn_state", `"`+state+`"`))
			k.refuses("no_pid_on_record")
		}
	}
}

// An absent job, and an id that names no job.
func TestPeerFault17(t *testing.T) {
	k := newPack(t)
	k.refuses("no_such_job")
	outside := filepath.Join(k.Store.Dir, "..", "outside")
	if err := os.MkdirAll(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", ".", "..", "../outside", "a/b", outside, "x\x00y"} {
		if _, err := k.Kill(t.Context(), id, KillOptions{}); !errors.Is(err, sidecar.ErrRunID) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside the store: %v, %v", entries, err)
	}
}

// A killed run is cancelled, not failed, and what ignores the signal is gone
// when the kill says completed.
func TestPeerFault18(t *testing.T) {
	k := newPack(t)
	p := session(t, scriptDeaf, runID)
	member := whoIs(t, p.member())
	leader := whoIs(t, p.ready().pid)
	k.record(plainly(t, leader)...)
	want(t, k.kill(hasty), "signalled", sidecar.CleanupCompleted, sidecar.RemainsNone, true)
	mustBeGone(t, leader, member)
	job, err := k.Status(t.Context(), runID)
	if err != nil || job.Status != "killed" || deref(job.Outcome) != sidecar.Cancelled || !job.Terminal {
		t.Errorf("job is %s %s, %v", job.Status, deref(job.Outcome), err)
	}
}

// A record without a start time in seconds is killed by the stamp it has; one
// that has neither stays refused.
func TestPeerFault19(t *testing.T) {
	k := newPack(t)
	id := whoIs(t, session(t, scriptIdle, runID).ready().pid)
	k.record(set("pid", fmt.Sprint(id.PID)))
	k.refuses("no_recorded_process_identity", id)
	k.record(append(stamped(t, id), set("pid_create_time", "null"))...)
	want(t, k.kill(patient), "signalled", sidecar.CleanupCompleted, sidecar.RemainsNone, false)
	mustBeGone(t, id)
}

// changed is a recorded identity with some of its JSON fields replaced.
func changed(t *testing.T, id jobprobe.Identity, fields map[string]string) sidecar.Field {
	t.Helper()
	text, _ := id.MarshalJSON()
	var m map[string]string
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		if m[name] = value; value == "" {
			delete(m, name)
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return set("process_identity", string(text))
}

const otherBoot = "00000000-0000-4000-8000-000000000000"

// A1, A14, A16, A17 and what is like them: a live process has the recorded
// number, and the rest of the record says that it is another one, or cannot be
// compared from here. It lives on.
func TestKillForeign(t *testing.T) {
	id := whoIs(t, session(t, scriptIdle).ready().pid)
	later := fmt.Sprint(id.Start + 1)
	for _, c := range []struct {
		name, code string
		fields     map[string]string
		undecided  bool
	}{
		{"A1 other host", "foreign_host", map[string]string{"boot": otherBoot, "host": "pod-old"}, true},
		{"other system", "foreign_host", map[string]string{"os": "plan9", "start_unit": ""}, true},
		{"A16 other namespace", "foreign_pid_namespace", map[string]string{"pid_ns": "7"}, true},
		{"other time namespace", "foreign_time_namespace", map[string]string{"time_ns": "7", "uniq": ""}, true},
		{"boot of another host", "foreign_boot", map[string]string{"boot": otherBoot, "host": "", "pid_ns": "7"}, true},
		{"A14 other stamp", "pid_recycled", map[string]string{"start": later, "uniq": ""}, false},
		{"other inode", "pid_recycled", map[string]string{"uniq": "7"}, false},
		{"nothing to compare", "unverified_identity", map[string]string{"start": "", "start_unit": "", "uniq_kind": "other"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.fields["uniq"] == "7" && id.Uniq == 0 {
				t.Skip("this kernel has no pidfs (Linux 6.9)")
			}
			k := newPack(t)
			k.record(append(stamped(t, id), changed(t, id, c.fields))...)
			if reply := k.refuses(c.code, id); reply.Undecided() != c.undecided {
				t.Errorf("undecided is %t", reply.Undecided())
			}
		})
	}
}

// A17: the record is from before the last boot of this host, and its group's
// number is a live group's.
func TestCaseA17(t *testing.T) {
	id := whoIs(t, session(t, scriptIdle, runID).ready().pid)
	old := map[string]string{"boot": otherBoot}
	k := newPack(t)
	k.record(append(stamped(t, id), changed(t, id, old), set("submitted_at", `"2001-01-01T00:00:00+00:00"`))...)
	if jobprobe.Probe(identityOf(k.Store.Read(runID).Record, "process_identity")).Finding != jobprobe.PIDRecycled {
		// Not the host's first namespace: nothing is known of an earlier boot.
		k.refuses("foreign_boot", id)
		return
	}
	k.refuses("pid_recycled", id)
	gone := session(t, scriptIdle).ready()
	was := whoIs(t, gone.pid)
	gone.end()
	k.record(append(stamped(t, was), changed(t, was, old),
		set("pgid", fmt.Sprint(id.PID)), set("submitted_at", `"2001-01-01T00:00:00+00:00"`))...)
	k.refuses("group_gone", id)
}

// The peer's own replies to kill, where JOBPROBE_GOLDEN names the cases.
func TestKillGolden(t *testing.T) {
	root := os.Getenv("JOBPROBE_GOLDEN")
	if root == "" {
		t.Skip("JOBPROBE_GOLDEN is not set")
	}
	replies, err := filepath.Glob(filepath.Join(root, "*", "*-kill.json"))
	if err != nil || len(replies) == 0 {
		t.Fatalf("no reply to kill below %s: %v", root, err)
	}
	for _, path := range replies {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			before := readGolden(t, filepath.Join(filepath.Dir(path), "before.json"))
			peer, err := sidecar.Parse(readGolden(t, path))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(filepath.Base(filepath.Dir(path)), "X14-") {
				// A NaN makes the whole record unreadable here.
				peer.Set("reason_code", sidecar.Text("job_record_unreadable"))
				peer.Set("pid", sidecar.Null())
				peer.Set("pgid", sidecar.Null())
			}
			k := newPack(t)
			k.write(before)
			code, _ := peer.Text("reason_code")
			reply, err := json.Marshal(k.refuses(code))
			if err != nil {
				t.Fatal(err)
			}
			ours, err := sidecar.Parse(reply)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range peer.All() {
				one := sidecar.NewRecord(sidecar.Field{Name: name, Value: value})
				if got, _ := ours.Raw(name); name != "reason" && !one.Equal(sidecar.NewRecord(sidecar.Field{Name: name, Value: got})) {
					t.Errorf("%s is %s, want %s", name, got, value)
				}
			}
			if diff := cmp.Diff(peer.Names(), ours.Names()[:len(peer.Names())]); diff != "" {
				t.Errorf("order of the fields (-peer +ours):\n%s", diff)
			}
		})
	}
}
