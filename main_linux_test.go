package jobprobe

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// stages are the parts of these tests that run in processes of their own.
var stages = map[string]func(*testproc.Stage){
	"probe":        probeStage,
	"probe-epoch":  probeEpochStage,
	"identify":     identifyStage,
	"case-a2":      caseA2Stage,
	"case-a3":      caseA3Stage,
	"recover":      recoverStage,
	"dead-prober":  deadProberStage,
	"recycle":      recycleStage,
	"recycle-self": recycleSelfStage,
	"often":        oftenStage,
	"thread-reuse": threadReuseStage,
	"stress":       stressStage,
	"twin":         twinOuterStage,
	"twin/inner":   twinInnerStage,
	"twin/prober":  twinProberStage,
	"unusable":     unusableStage,
	"held-stat":    heldStatStage,
}

func TestMain(m *testing.M) { testproc.Main(m, stages) }

// drawOSScope draws a kernel with or without pidfs.
func drawOSScope(r *rapid.T) osScope {
	return osScope{pidfs: rapid.Bool().Draw(r, "pidfs")}
}

// verdict is one probe in a few words: the finding, and what the receipt adds.
// A verdict that contradicts itself says so.
func verdict(v Liveness) string {
	words := []string{v.Finding.String()}
	if v.Evidence.Weak {
		words = append(words, "weak")
	}
	if v.Evidence.ExitedUnreaped {
		words = append(words, "exited_unreaped")
	}
	if v.Conclusion != v.Finding.Conclusion() || v.Alive != v.Finding.waitable() || v.Evidence.At().IsZero() {
		words = append(words, "INCONSISTENT")
	}
	return strings.Join(words, " ")
}

// expect probes here and compares.
func expect(t *testing.T, name string, id Identity, want string) {
	t.Helper()
	v := Probe(id)
	if got := verdict(v); got != want {
		t.Errorf("%s: got %q, want %q\n%s", name, got, want, receipt(v))
	}
}

func receipt(v Liveness) string {
	text, _ := json.Marshal(v.Evidence)
	return string(text)
}

// child starts a process that waits, and identifies it.
func child(t testproc.T, setup ...string) (*testproc.Child, Identity) {
	t.Helper()
	c := testproc.Start(t, nil, "idle", setup...)
	return c, identify(t, c.PID)
}

func identify(t testproc.T, pid int) Identity {
	t.Helper()
	id, err := Identify(pid)
	if err != nil {
		t.Fatalf("Identify(%d): %v", pid, err)
	}
	return id
}

// reaped returns the identity of a process that has been collected.
func reaped(t testproc.T) Identity {
	t.Helper()
	c, id := child(t)
	c.Kill()
	return id
}

// ticksOnly is what a kernel without pidfs would have recorded.
func ticksOnly(id Identity) Identity {
	id.Uniq, id.UniqKind = 0, ""
	return id
}

// noStamp is an identity of which only the number and its scope are known.
func noStamp(id Identity) Identity {
	id = ticksOnly(id)
	id.Start, id.StartUnit = 0, ""
	return id
}

// needPidfs skips where the kernel has no unique process numbers.
func needPidfs(t testproc.T) {
	t.Helper()
	if sc, err := currentScope(); err != nil || !sc.os.pidfs {
		t.Skipf("this kernel has no pidfs (Linux 6.9)")
	}
}

// encode and decode carry identities to stages.
func encode(t testproc.T, ids ...Identity) (texts []string) {
	t.Helper()
	for _, id := range ids {
		text, err := json.Marshal(id)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func decode(t testproc.T, text string) Identity {
	t.Helper()
	id, err := ParseIdentity([]byte(text))
	if err != nil {
		t.Fatalf("decode %q: %v", text, err)
	}
	return id
}

// scopeMark in a list of setups is where the prober verifies its scope; what
// follows happens to a prober that has already probed.
const scopeMark = "scope"

// prepare applies setups before and after the scope mark.
func prepare(s *testproc.Stage, setups string) {
	before, after, marked := strings.Cut(setups, scopeMark)
	testproc.Prepare(s, strings.Trim(before, ","))
	if !marked {
		return
	}
	if _, err := currentScope(); err != nil {
		s.Fatalf("scope: %v", err)
	}
	testproc.Prepare(s, strings.Trim(after, ","))
}

// probeStage prepares itself and says the verdict on each identity.
func probeStage(s *testproc.Stage) {
	prepare(s, s.Args[0])
	for _, text := range s.Args[1:] {
		v := Probe(decode(s, text))
		s.Say("%s", verdict(v))
		if os.Getenv("JOBPROBE_RECEIPTS") != "" {
			s.Logf("%s", receipt(v))
		}
	}
}

// identifyStage prepares itself and says the identity of a process: its own,
// if no number is given.
func identifyStage(s *testproc.Stage) {
	prepare(s, s.Args[0])
	pid := os.Getpid()
	if len(s.Args) > 1 {
		pid, _ = strconv.Atoi(s.Args[1])
	}
	s.Say("%s", encode(s, identify(s, pid))[0])
}
