package reap

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// absentPID is a number that no process has: it is beyond every pid_max.
const absentPID = 2147483000

// What is damaged in a recorded identity may be its scope: the number may have
// been issued in another pid namespace, where the job still runs. Then absence
// here proves nothing, and the fields that have no scope must not be asked
// instead.
func TestDamagedIdentityEndsNothing(t *testing.T) {
	for _, text := range []string{
		fmt.Sprintf(`{"os": "linux", "pid": "%d", "start": "77", "start_unit": "boot_ticks", "pid_ns": "many"}`, absentPID),
		fmt.Sprintf(`{"os": "linux", "pid": "%d", "boot": 7}`, absentPID),
		fmt.Sprintf(`{"os": "linux", "pid": "%d", "host": ["h"]}`, absentPID),
		fmt.Sprintf(`{"os": "linux", "pid": %d, "pid_ns": "4026531836"}`, absentPID),
		`{"os": "linux", "pid": "0x7ffffc18"}`,
		`{}`, `[]`, `"gone"`, `7`, `true`,
	} {
		w := newWorld(t)
		w.probe = nil // the real one
		w.putRecord(started(set("pid", fmt.Sprint(absentPID)), set("pgid", "null"), set("process_identity", text)))
		before := w.bytes(runID)
		if job := w.status(runID); job.Terminal || job.LivenessConclusion != "unknown" {
			t.Errorf("process_identity %s: %s, %s (%s)", text, job.Status, job.LivenessConclusion, job.Finding)
		}
		w.untouched(runID, before)
	}
}

// An identity of another process than the record's pid contradicts it: nothing
// is proved, whatever becomes of either number.
func TestIdentityOfAnotherPID(t *testing.T) {
	w := newWorld(t)
	w.probe = nil
	self, err := jobprobe.Identify(os.Getpid())
	if err != nil {
		t.Skipf("no identities here: %v", err)
	}
	other := self
	other.OS, other.Host = "plan9", "elsewhere"
	for _, id := range []jobprobe.Identity{self, other} {
		text, err := id.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range []string{fmt.Sprint(absentPID), "null", "1"} {
			w.putRecord(started(set("pid", pid), set("pgid", "null"), set("process_identity", string(text))))
			before := w.bytes(runID)
			if job := w.status(runID); job.Alive || job.LivenessConclusion != "unknown" || job.Terminal {
				t.Errorf("pid %s, identity of %d: %s (%s)", pid, id.PID, job.Status, job.Finding)
			}
			w.untouched(runID, before)
		}
	}
}

// What the peer wrote may be of any type.
func TestCreateTime(t *testing.T) {
	for text, want := range map[string]float64{
		"1700000000.25": 1700000000.25, "1700000000": 1700000000, "1e9": 1e9, "-1.5": -1.5,
		"null": 0, `"1700000000.25"`: math.NaN(), "true": math.NaN(), "[1]": math.NaN(), "{}": math.NaN(), "1e999": math.NaN(),
	} {
		got := createTime(sidecar.NewRecord(set("pid_create_time", text)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s reads %v, want %v", text, got, want)
		}
	}
	if got := createTime(sidecar.NewRecord()); got != 0 {
		t.Errorf("no time reads %v", got)
	}
}

// No pid that is not a plain number in range is asked about.
func TestUnusablePIDs(t *testing.T) {
	texts := []string{
		"null", "0", "-1", "-7", "1", "true", `"4242"`, "[4242]", "{}", "42.0", "42.5", "1e3",
		"4294967295", "4294967297", "9223372036854775807", "9223372036854775808", "1e40",
	}
	if runtime.GOOS != "windows" { // whose numbers have 32 bits and no sign
		texts = append(texts, "2147483648")
	}
	for _, text := range texts {
		w := newWorld(t)
		w.probe = nil
		w.putRecord(started(set("pid", text), set("process_identity", "null")))
		before := w.bytes(runID)
		job := w.status(runID)
		if job.Terminal || job.Alive || job.Finding != "unusable_pid" || !job.PossiblyOrphaned {
			t.Errorf("pid %s: %s (%s), alive %v", text, job.Status, job.Finding, job.Alive)
		}
		if got := strings.Join(strings.Fields(string(job.PID)), ""); got != text {
			t.Errorf("pid %s is shown as %s", text, job.PID)
		}
		w.untouched(runID, before)
	}
}
