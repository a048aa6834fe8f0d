package jobprobe

import (
	"encoding"
	"strings"
	"testing"
)

// What every finding proves. The table is the contract; a finding that is not
// in it fails the test.
var findings = []struct {
	finding    Finding
	word       string
	conclusion Conclusion
	alive      bool
}{
	{NotProbed, "not_probed", Unknown, true},
	{IdentityConfirmed, "identity_confirmed", Alive, true},
	{IdentityNotRecorded, "identity_not_recorded", Alive, true},
	{IdentityUnusable, "identity_unusable", Alive, true},
	{PIDAbsent, "pid_absent", ProcessGone, false},
	{PIDRecycled, "pid_recycled", ProcessGone, false},
	{DisappearedDuringProbe, "disappeared_during_probe", ProcessGone, false},
	{UnusablePID, "unusable_pid", Unknown, false},
	{AccessDenied, "access_denied", Unknown, true},
	{IdentityUnreadable, "identity_unreadable", Unknown, true},
	{ProbeEnvironmentUnusable, "probe_environment_unusable", Unknown, true},
	{ForeignHost, "foreign_host", Unknown, true},
	{ForeignBoot, "foreign_boot", Unknown, true},
	{ForeignPIDNamespace, "foreign_pid_namespace", Unknown, true},
	{ForeignTimeNamespace, "foreign_time_namespace", Unknown, true},
	{UnsupportedPlatform, "unsupported_platform", Unknown, true},
}

func TestFindingConclusion(t *testing.T) {
	for i, want := range findings {
		if int(want.finding) != i {
			t.Fatalf("row %d is about finding %d", i, want.finding)
		}
		var v Liveness
		v.conclude(want.finding)
		if v.Finding != want.finding || v.Conclusion != want.conclusion || v.Alive != want.alive || v.Evidence.At().IsZero() {
			t.Errorf("%s: got %v, %v, alive %v", want.word, v.Finding, v.Conclusion, v.Alive)
		}
	}
	// Values added later prove nothing, and waiting for them may help.
	for n := len(findings); n < 256; n++ {
		var v Liveness
		v.conclude(Finding(n))
		if v.Conclusion != Unknown || !v.Alive {
			t.Errorf("finding %d: got %v, alive %v", n, v.Conclusion, v.Alive)
		}
	}
	if v := (Liveness{}); v.Conclusion != Unknown || v.Finding.Conclusion() != Unknown {
		t.Errorf("the zero verdict is %v by %v", v.Conclusion, v.Finding)
	}
}

func TestFindingText(t *testing.T) {
	if n := len(findingNames); n != len(findings) {
		t.Fatalf("%d findings have a name, %d a row", n, len(findings))
	}
	for _, want := range findings {
		var back Finding
		testWord(t, want.finding, &back, want.word)
		if back != want.finding {
			t.Errorf("%s came back as %v", want.word, back)
		}
	}
	back := AccessDenied
	refuseText(t, Finding(len(findings)), &back)
	if back != AccessDenied {
		t.Errorf("a refused word changed the value to %v", back)
	}
}

func TestConclusionText(t *testing.T) {
	words := map[Conclusion]string{Unknown: "unknown", Alive: "alive", ProcessGone: "process_gone"}
	if len(words) != len(conclusionNames) {
		t.Fatalf("%d conclusions have a name, want %d", len(conclusionNames), len(words))
	}
	for c, word := range words {
		var back Conclusion
		testWord(t, c, &back, word)
		if back != c {
			t.Errorf("%s came back as %v", word, back)
		}
	}
	back := Alive
	refuseText(t, Conclusion(len(words)), &back)
	if back != Alive {
		t.Errorf("a refused word changed the value to %v", back)
	}
}

// words is what both enumerations are.
type words interface {
	String() string
	encoding.TextMarshaler
}

// testWord writes a value and reads it back.
func testWord(t *testing.T, value words, back encoding.TextUnmarshaler, word string) {
	t.Helper()
	text, err := value.MarshalText()
	if err != nil || string(text) != word || value.String() != word {
		t.Errorf("%s: text %q, string %q, error %v", word, text, value, err)
	}
	if err := back.UnmarshalText(text); err != nil {
		t.Errorf("%s: %v", word, err)
	}
}

// refuseText checks that one past the end has no word, and that strangers have
// no value.
func refuseText(t *testing.T, past words, back encoding.TextUnmarshaler) {
	t.Helper()
	if text, err := past.MarshalText(); err == nil {
		t.Errorf("one past the end has text %q", text)
	}
	if !strings.HasSuffix(past.String(), ")") {
		t.Errorf("one past the end prints %q, without its number", past)
	}
	for _, word := range []string{"", " ", "Alive", "ALIVE", "alive ", "gone", "unknown\n", "0", "1", past.String()} {
		if err := back.UnmarshalText([]byte(word)); err == nil {
			t.Errorf("%q was accepted", word)
		}
	}
}
