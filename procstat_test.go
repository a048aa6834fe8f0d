package jobprobe

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines of testdata/stat as a kernel wrote them, and what they say. Names are
// chosen by the processes and hold whatever the format is made of.
var recordedStat = map[string]struct {
	stat            procStat
	exited, settled bool
}{
	"comm-all-parens":  {procStat{'R', 7072, 5, 199339}, false, true},
	"comm-binary":      {procStat{'R', 7072, 5, 199340}, false, true},
	"comm-empty":       {procStat{'R', 7072, 6, 199339}, false, true},
	"comm-fake-zombie": {procStat{'R', 7072, 5, 199340}, false, true},
	"comm-newline":     {procStat{'S', 7072, 6, 199338}, false, true},
	"comm-parens":      {procStat{'S', 7072, 5, 199338}, false, true},
	"comm-space":       {procStat{'R', 7072, 6, 199340}, false, true},
	"dead-leader":      {procStat{'Z', 7072, 5, 199341}, false, true},
	"kernel-thread":    {procStat{'S', 0, 1, 26}, false, true},
	"session-leader":   {procStat{'S', 23586, 5, 199341}, false, true},
	"stopped":          {procStat{'T', 7072, 5, 199341}, false, true},
	"zombie":           {procStat{'Z', 23586, 1, 199341}, true, true},
}

func TestParseStatRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/stat/*")
	if err != nil || len(files) != len(recordedStat) {
		t.Errorf("%d recorded lines, %d rows: %v", len(files), len(recordedStat), err)
	}
	for name, want := range recordedStat {
		line, err := os.ReadFile(filepath.Join("testdata/stat", name))
		if err != nil {
			t.Fatal(err)
		}
		st, ok := parseStat(line)
		if !ok || st != want.stat || st.exited() != want.exited || st.settled() != want.settled {
			t.Errorf("%s: %+v, %v; exited %v, settled %v", name, st, ok, st.exited(), st.settled())
		}
		// Cut anywhere, a line says the same or nothing.
		for i := range line {
			if st, ok := parseStat(line[:i]); ok && st != want.stat {
				t.Errorf("%s: cut at %d: %+v", name, i, st)
			}
		}
	}
}

// line22 is a whole line with chosen fields.
func line22(state, session, threads, start string) string {
	return "7 (x) " + state + " 1 7 " + session + " 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 " + threads + " 0 " + start + " 0"
}

func TestParseStatBad(t *testing.T) {
	whole := line22("S", "7", "1", "63348")
	if st, ok := parseStat([]byte(whole)); !ok || st != (procStat{'S', 7, 1, 63348}) {
		t.Fatalf("%q: %+v, %v", whole, st, ok)
	}
	short, _ := strings.CutSuffix(whole, " 0")
	for name, line := range map[string]string{
		"empty": "", "newline": "\n", "no parenthesis": strings.NewReplacer("(", "", ")", "").Replace(whole),
		"ends at )": "7 (x)", "ends at ) and space": "7 (x) ", "state only": "7 (x) S", "state and space": "7 (x) S ",
		"no space before state": strings.Replace(whole, ") S", ")S", 1),
		"state a space":         strings.Replace(whole, "S 1", "  1", 1),
		"empty field":           strings.Replace(whole, "0 -1", " -1", 1),
		"long state":            strings.Replace(whole, "S 1", "SS 1", 1),
		"21 fields":             "7 (x) S 1 7 7 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0",
		"ends in field 22":      short,
		"newline in field 22":   short + "\n",
		"start empty":           line22("S", "7", "1", ""),
		"start negative":        line22("S", "7", "1", "-1"),
		"start signed":          line22("S", "7", "1", "+1"),
		"start fraction":        line22("S", "7", "1", "1.5"),
		"start hex":             line22("S", "7", "1", "0x1"),
		"start beyond 64 bits":  line22("S", "7", "1", "18446744073709551616"),
		"start of 21 digits":    line22("S", "7", "1", "000000000000000000001"),
		"threads negative":      line22("S", "7", "-1", "1"),
		"threads empty":         line22("S", "7", "", "1"),
		"session negative":      line22("S", "-2", "1", "1"),
		"session wide":          line22("S", "2147483648", "1", "1"),
		"session a word":        line22("S", "x", "1", "1"),
		"parenthesis at end":    whole + ")",
		"tabs":                  strings.ReplaceAll(whole, " ", "\t"),
	} {
		if st, ok := parseStat([]byte(line)); ok || st != (procStat{}) {
			t.Errorf("%s: %q gave %+v, %v", name, line, st, ok)
		}
	}
	for line, want := range map[string]procStat{
		line22("S", "-1", "1", "1"):                   {'S', 0, 1, 1},
		line22("S", "0", "1", "18446744073709551615"): {'S', 0, 1, 1<<64 - 1},
		line22("X", "2147483647", "1", "0"):           {'X', 1<<31 - 1, 1, 0},
	} {
		if st, ok := parseStat([]byte(line)); !ok || st != want {
			t.Errorf("%q: %+v, %v", line, st, ok)
		}
	}
}

// Which lines may be believed, and which of them show an exited group.
func TestStatState(t *testing.T) {
	for _, c := range []struct {
		state           byte
		threads         uint64
		exited, settled bool
	}{
		{'R', 1, false, true}, {'S', 9, false, true}, {'D', 1, false, true}, {'T', 1, false, true},
		{'t', 1, false, true}, {'I', 1, false, true}, {'P', 1, false, true},
		{'Z', 1, true, true}, {'Z', 2, false, true}, {'Z', 0, false, false},
		{'X', 1, true, true}, {'X', 2, false, false}, {'X', 0, false, false},
		{'R', 0, false, false}, {'0', 0, false, false}, {'0', 1, false, false},
	} {
		st := procStat{state: c.state, threads: c.threads}
		if st.exited() != c.exited || st.settled() != c.settled {
			t.Errorf("%c with %d threads: exited %v, settled %v", c.state, c.threads, st.exited(), st.settled())
		}
	}
}

func TestParseTgid(t *testing.T) {
	for status, want := range map[string]uint64{
		"Name:\tx\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t4711\nNgid:\t0\nPid:\t4712\n": 4711,
		"Name:\tTgid:\\t5\nState:\tS\nTgid:\t6\nPid:\t6\n":                                  6,
		"Name:\tx\nTgid:\t18446744073709551615\n":                                           1<<64 - 1,
	} {
		if got, ok := parseTgid([]byte(status)); !ok || got != want {
			t.Errorf("%q: %d, %v", status, got, ok)
		}
	}
	for _, status := range []string{
		"", "Tgid:\t5\n", "Name:\tx\nTgid:\t5", "Name:\tx\nTgid:\t\n", "Name:\tx\nTgid:\t-5\n",
		"Name:\tx\nTgid: 5\n", "Name:\tx\nTgid:\t5 6\n", "Name:\tx\ntgid:\t5\n", "Name:\tx\nTgid:\t99999999999999999999\n",
	} {
		if got, ok := parseTgid([]byte(status)); ok {
			t.Errorf("%q: %d", status, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	files, err := filepath.Glob("testdata/stat/*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no recorded lines: %v", err)
	}
	for _, name := range files {
		line, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte(line22("0", "-1", "0", "18446744073709551615")))
	f.Fuzz(func(t *testing.T, line []byte) {
		st, ok := parseStat(line)
		if !ok {
			if st != (procStat{}) {
				t.Fatalf("refused, and gave %+v", st)
			}
			return
		}
		// The reference: the words behind the last parenthesis.
		words := bytes.Split(line[bytes.LastIndexByte(line, ')')+2:], []byte(" "))
		if len(words) < 21 || len(words[0]) != 1 || words[0][0] != st.state {
			t.Fatalf("%q: %+v", line, st)
		}
		for i, want := range map[int]uint64{17: st.threads, 19: st.start} {
			if n, ok := digits(words[i]); !ok || n != want {
				t.Fatalf("%q: word %d is %q, want %d", line, i, words[i], want)
			}
		}
		if st.session < 0 || st.session > 1<<31-1 {
			t.Fatalf("%q: session %d", line, st.session)
		}
		// Any command name gives the same answer.
		renamed := append([]byte("1 (a) Z 1 1\n(x"), line[bytes.LastIndexByte(line, ')'):]...)
		if again, ok := parseStat(renamed); !ok || again != st {
			t.Fatalf("renamed: %+v, %v", again, ok)
		}
	})
}
