package jobprobe

import "testing"

// Environments as the kernel shows them, and the run that they name.
func TestParseMarker(t *testing.T) {
	const ours, theirs = "JOBPROBE_RUN_ID=", "LIONAGI_MCP_JOB_RUN_ID="
	for _, c := range []struct {
		env, runID string
		marker     Marker
	}{
		{"", "", MarkerNone},
		{"HOME=/\x00", "", MarkerNone},
		{ours + "a\x00", "a", MarkerFound},
		{"X=\x00" + theirs + "b\x00Y=1\x00", "b", MarkerFound},
		{ours + "a\x00" + theirs + "a\x00", "a", MarkerFound},
		{ours + "outer\x00" + theirs + "inner\x00", "inner", MarkerFound},
		{ours + "a\x00" + ours + "a\x00", "a", MarkerFound},
		{ours + "a\x00" + ours + "b\x00", "", MarkerUnreadable},
		{theirs + "a\x00" + ours + "c\x00" + theirs + "b\x00", "", MarkerUnreadable},
		{ours + "\x00" + theirs + "\x00", "", MarkerNone},
		{theirs + "\x00" + ours + "a\x00", "a", MarkerFound},
		{"MY_" + ours + "a\x00" + "JOBPROBE_RUN_ID2=b\x00JOBPROBE_RUN_ID\x00", "", MarkerNone},
		{ours + "a=b\x00", "a=b", MarkerFound},
		{ours + "cut", "cut", MarkerFound}, // the last entry of a title written over it
	} {
		if marker, runID := parseMarker([]byte(c.env)); marker != c.marker || runID != c.runID {
			t.Errorf("%q: %s %q, want %s %q", c.env, marker, runID, c.marker, c.runID)
		}
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add([]byte("JOBPROBE_RUN_ID=a\x00LIONAGI_MCP_JOB_RUN_ID=b\x00"))
	f.Fuzz(func(t *testing.T, env []byte) {
		marker, runID := parseMarker(env)
		if (marker == MarkerFound) != (runID != "") {
			t.Errorf("%s %q", marker, runID)
		}
		if _, err := marker.MarshalText(); err != nil {
			t.Error(err)
		}
	})
}

func TestMarkerText(t *testing.T) {
	for n, name := range markerNames {
		m := Marker(n)
		text, err := m.MarshalText()
		if err != nil || string(text) != name || m.String() != name {
			t.Errorf("%d: %q %q, %v", n, text, m, err)
		}
		var back Marker
		if err := back.UnmarshalText(text); err != nil || back != m {
			t.Errorf("%q: %v, %v", text, back, err)
		}
	}
	beyond := Marker(len(markerNames))
	if _, err := beyond.MarshalText(); err == nil || beyond.String() != "Marker(3)" {
		t.Errorf("beyond the table: %v, %v", beyond, err)
	}
	var m Marker
	if m.UnmarshalText([]byte("FOUND")) == nil {
		t.Error("a stranger's word is accepted")
	}
}

// Numbers that name no group are never asked about.
func TestGroupNumbers(t *testing.T) {
	for _, pgid := range []int64{-1, 0, 1, 1 << 31, 1<<32 + 2, 1<<63 - 1} {
		if members, complete := Group(pgid); len(members) > 0 || complete {
			t.Errorf("group %d: %v, complete %t", pgid, members, complete)
		}
		if pgid == 1 {
			continue
		}
		if _, err := Describe(pgid); err == nil {
			t.Errorf("%d is described", pgid)
		}
	}
	if members, complete := Marked(""); len(members) > 0 || complete {
		t.Errorf("no marker: %v, complete %t", members, complete)
	}
}
