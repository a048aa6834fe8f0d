package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// bounds are the numbers of the configuration, beside a drain of 45 seconds.
var bounds = []struct {
	key     string
	low, up int
	usual   int
	of      func(*config) int
}{
	{"shutdown_drain_timeout_ms", 1, 45000, 5000, func(c *config) int { return c.Lifecycle.DrainMS }},
	{"process_grace_timeout_ms", 1, 10000, 250, func(c *config) int { return c.Lifecycle.GraceMS }},
	{"process_kill_timeout_ms", 1, 10000, 1000, func(c *config) int { return c.Lifecycle.KillMS }},
	{"max_completed_process_diagnostics", 0, 1024, 64, func(c *config) int { return c.Lifecycle.Finished }},
}

// configured is the configuration of a file's [lifecycle] and of variables.
func configured(t *testing.T, lines string, env map[string]string) (config, string, error) {
	t.Helper()
	path := filepath.Join(testproc.TempDir(t), "jobprobe.toml")
	if err := os.WriteFile(path, []byte("[lifecycle]\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	c := defaults()
	err := c.readFile(path)
	if err == nil {
		err = c.readEnv(func(name string) string { return env[name] }, path+": ")
	}
	return c, path, err
}

// beside keeps the other bounds out of the way of one.
func beside(key string) string {
	others := "process_grace_timeout_ms = 1\nprocess_kill_timeout_ms = 1\nshutdown_drain_timeout_ms = 45000\n"
	var lines strings.Builder
	for line := range strings.Lines(others) {
		if !strings.HasPrefix(line, key) {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// Every number is taken within its range, ends included, and refused beyond, by
// the key in a file and by the variable, with its value and range.
func TestConfigBounds(t *testing.T) {
	tried := 0
	for _, b := range bounds {
		if c := defaults(); b.of(&c) != b.usual {
			t.Errorf("%s is %d if nothing is said, want %d", b.key, b.of(&c), b.usual)
		}
		variable := "JOBPROBE_" + strings.ToUpper(b.key)
		for _, n := range []int{-1 << 31, b.low - 1, b.low, b.up, b.up + 1, 1<<31 - 1} {
			good := n >= b.low && n <= b.up
			for name, try := range map[string]func() (config, string, error){
				"lifecycle." + b.key: func() (config, string, error) {
					return configured(t, fmt.Sprintf("%s%s = %d\n", beside(b.key), b.key, n), nil)
				},
				variable: func() (config, string, error) {
					return configured(t, fmt.Sprintf("%s%s = %d\n", beside(b.key), b.key, b.low), map[string]string{variable: strconv.Itoa(n)})
				},
			} {
				tried++
				c, path, err := try()
				switch {
				case good && (err != nil || b.of(&c) != n):
					t.Errorf("%s = %d: %d, %v", name, n, b.of(&c), err)
				case !good && (err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("%s is %d, and must be %d to %d", name, n, b.low, b.up))),
					!good && strings.Contains(name, ".") != strings.Contains(err.Error(), path):
					t.Errorf("%s = %d: %v", name, n, err)
				}
			}
		}
	}
	t.Logf("count: %d numbers at and beyond the bounds", tried)
}

// What one job is given is no more than all are given, whichever is set where; an
// error names what set the number that is too large.
func TestConfigWithinTheDrain(t *testing.T) {
	for _, key := range []string{"process_grace_timeout_ms", "process_kill_timeout_ms"} {
		variable, drain := "JOBPROBE_"+strings.ToUpper(key), "JOBPROBE_SHUTDOWN_DRAIN_TIMEOUT_MS"
		rest := "process_grace_timeout_ms = 1\nprocess_kill_timeout_ms = 1\n"
		rest = strings.Replace(rest, key+" = 1\n", "", 1)
		for _, test := range []struct {
			lines string
			env   map[string]string
			want  string // the end of the error, none if it is good
		}{
			{rest + key + " = 700\nshutdown_drain_timeout_ms = 700", nil, ""},
			{rest + key + " = 701\nshutdown_drain_timeout_ms = 700", nil, "jobprobe.toml: lifecycle." + key + " is 701, and must be 1 to 700"},
			{rest + key + " = 701\nshutdown_drain_timeout_ms = 700", map[string]string{variable: "700"}, ""},
			{rest + key + " = 701\nshutdown_drain_timeout_ms = 700", map[string]string{drain: "701"}, ""},
			{rest + key + " = 701", map[string]string{drain: "700"}, "jobprobe.toml: lifecycle." + key + " is 701, and must be 1 to 700"},
			{rest + "shutdown_drain_timeout_ms = 700\n" + key + " = 1", map[string]string{variable: "701"}, variable + " is 701, and must be 1 to 700"},
			{rest + key + " = 9999", map[string]string{drain: "20000"}, ""},
		} {
			_, _, err := configured(t, test.lines, test.env)
			if (err == nil) != (test.want == "") || err != nil && !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("%q, %v: %v, want %q", test.lines, test.env, err, test.want)
			}
		}
	}
}

// What is no number, or no truth, is refused with its name and what it may be.
func TestConfigWords(t *testing.T) {
	for _, b := range bounds {
		for _, word := range []string{`"5"`, "5.5", "5e3", "true", "[5]", "99999999999999999999"} {
			if _, path, err := configured(t, b.key+" = "+word, nil); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "lifecycle") {
				t.Errorf("%s = %s: %v", b.key, word, err)
			}
		}
		variable := "JOBPROBE_" + strings.ToUpper(b.key)
		for _, word := range []string{"5s", "5.5", " 5", "0x5", "true", "99999999999999999999"} {
			_, _, err := configured(t, "", map[string]string{variable: word})
			if want := fmt.Sprintf("%s is %q, and must be a number, %d to %d", variable, word, b.low, b.up); err == nil || err.Error() != want {
				t.Errorf("%s=%s: %v, want %s", variable, word, err, want)
			}
		}
	}
	const variable = "JOBPROBE_CANCEL_TASKS_ON_SESSION_END"
	for word, want := range map[string]bool{"": false, "true": true, "false": false} {
		if c, _, err := configured(t, "cancel_tasks_on_session_end = false", map[string]string{variable: word}); err != nil || c.Lifecycle.Cancel != want {
			t.Errorf("%s=%s: %v, %v", variable, word, c.Lifecycle.Cancel, err)
		}
	}
	for _, word := range []string{"yes", "1", "TRUE", " true"} {
		if _, _, err := configured(t, "", map[string]string{variable: word}); err == nil || err.Error() != fmt.Sprintf("%s is %q, and must be true or false", variable, word) {
			t.Errorf("%s=%s: %v", variable, word, err)
		}
	}
	if c := defaults(); !c.Lifecycle.Cancel {
		t.Error("jobs are not stopped by a drain if nothing is said")
	}
}
