package reap

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sample is one line of a text with its labels, as "name{a=b,c=d}".
type sample struct {
	name  string
	value float64
}

var (
	headLine   = regexp.MustCompile(`^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.+)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)`)
)

// parsePrometheus reads text of the format's version 0.0.4, and refuses more than
// the format does: each family is told once, with HELP, then TYPE, then all of its
// samples, and a counter ends in _total.
func parsePrometheus(t testing.TB, text string) map[string]float64 {
	t.Helper()
	samples := map[string]float64{}
	families := map[string]string{}
	family, expect := "", "HELP"
	if !strings.HasSuffix(text, "\n") {
		t.Errorf("the last line does not end")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if head := headLine.FindStringSubmatch(line); head != nil {
			switch word, name := head[1], head[2]; {
			case word == "HELP" && (expect == "TYPE" || families[name] != ""):
				t.Errorf("out of place: %s", line)
			case word == "HELP":
				family, expect = name, "TYPE"
			case name != family || expect != "TYPE" || head[3] != "counter" && head[3] != "gauge",
				(head[3] == "counter") != strings.HasSuffix(name, "_total"):
				t.Errorf("out of place: %s", line)
			default:
				families[name], expect = head[3], "sample"
			}
			continue
		}
		s := parseSample(t, line)
		if name, _, _ := strings.Cut(s.name, "{"); name != family || expect != "sample" {
			t.Errorf("a sample outside of its family: %s", line)
		}
		if _, twice := samples[s.name]; twice {
			t.Errorf("told twice: %s", line)
		}
		samples[s.name] = s.value
	}
	return samples
}

func parseSample(t testing.TB, line string) sample {
	t.Helper()
	m := sampleLine.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("no line of the format: %q", line)
	}
	value, err := strconv.ParseFloat(m[3], 64)
	if err != nil {
		t.Errorf("no number: %q", line)
	}
	var labels []string
	for rest := m[2]; rest != ""; {
		pair := labelPair.FindStringSubmatch(rest)
		if pair == nil {
			t.Fatalf("no labels: %q", line)
		}
		labels = append(labels, pair[1]+"="+pair[2])
		rest = rest[len(pair[0]):]
	}
	if labels == nil {
		return sample{m[1], value}
	}
	return sample{m[1] + "{" + strings.Join(labels, ",") + "}", value}
}

// samples are the numbers of m under the names of the text.
func (m *Metrics) samples() map[string]float64 {
	out := map[string]float64{
		"jobprobe_restart_reconciliations_total": float64(m.RestartReconciliations),
		"jobprobe_drain_seconds_total":           m.DrainSeconds,
		"jobprobe_persistence_failures_total":    float64(m.PersistenceFailures),
		"jobprobe_unusable_records":              float64(m.Unusable),
		"jobprobe_admission_open":                map[string]float64{"open": 1}[m.Admission],
	}
	for _, e := range m.Ends {
		out[fmt.Sprintf("jobprobe_ends_total{source=%s,outcome=%s}", e.Source, e.Outcome)] = float64(e.Count)
	}
	for name, counts := range map[string]map[string]int64{
		"cleanup{cleanup": m.Cleanup, "ownership{ownership": m.Ownership,
		"drains_total{outcome": m.Drains, "observations{conclusion": m.Observations,
	} {
		for word, n := range counts {
			out["jobprobe_"+name+"="+word+"}"] = float64(n)
		}
	}
	return out
}

// The parser of this test refuses what is no text of the format.
func TestMetricsParserRefuses(t *testing.T) {
	head := "# HELP a_total x\n# TYPE a_total counter\n"
	for _, text := range []string{
		"a_total 1\n", head + "a_total 1", head + "b 1\n", head + "a_total 1\na_total 1\n", head + "a_total one\n",
		head + head, "# TYPE a_total counter\na_total 1\n", "# HELP a x\n# TYPE a counter\na 1\n",
		head + `a_total{b="\a"} 1` + "\n", head + `a_total{b="c" 1` + "\n", head + `a_total{b=c} 1` + "\n", head + "a_total{} 1\n", "\n",
	} {
		tb := &refusing{TB: t}
		func() {
			defer func() { _ = recover() }()
			parsePrometheus(tb, text)
		}()
		if !tb.refused {
			t.Errorf("takes %q", text)
		}
	}
	tb := &refusing{TB: t}
	got := parsePrometheus(tb, head+"a_total{b=\"c\",d=\"\\\"\\\\\\n\"} 2\n")
	if len(got) != 1 || tb.refused {
		t.Errorf("%v", got)
	}
}

// refusing remembers a failure instead of failing.
type refusing struct {
	testing.TB
	refused bool
}

func (r *refusing) Helper()               {}
func (r *refusing) Errorf(string, ...any) { r.refused = true }
func (r *refusing) Fatalf(string, ...any) { r.refused = true; panic("refused") }
