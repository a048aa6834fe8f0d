package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// Each error names the file, the key, the value and the range.
func TestConfig(t *testing.T) {
	absolute, err := filepath.Abs("jobs")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text string
		want []string // parts of the error, none for a good file
	}{
		"empty": {"", nil},
		"full": {`[store]
dir = '` + absolute + `'
[notify]
on_terminal = ["notify-send", "{label}"]
[lifecycle]
shutdown_drain_timeout_ms = 45000
process_grace_timeout_ms = 10000
process_kill_timeout_ms = 1
cancel_tasks_on_session_end = false
max_completed_process_diagnostics = 0
`, nil},
		"unknown key":     {"[lifecycle]\nprocess_grace_timeout = 5", []string{"no setting lifecycle.process_grace_timeout"}},
		"unknown table":   {"[store2]\ndir = '/'", []string{"no setting store2"}},
		"wrong type":      {"[lifecycle]\nprocess_grace_timeout_ms = '5s'", []string{"process_grace_timeout_ms"}},
		"no TOML":         {"[lifecycle", []string{"jobprobe.toml"}},
		"too little":      {"[lifecycle]\nprocess_grace_timeout_ms = 0", []string{"lifecycle.process_grace_timeout_ms is 0", "1 to 10000"}},
		"too much":        {"[lifecycle]\nshutdown_drain_timeout_ms = 45001", []string{"shutdown_drain_timeout_ms is 45001", "1 to 45000"}},
		"above the drain": {"[lifecycle]\nshutdown_drain_timeout_ms = 500\nprocess_kill_timeout_ms = 501", []string{"process_kill_timeout_ms is 501", "1 to 500"}},
		"below the kill":  {"[lifecycle]\nshutdown_drain_timeout_ms = 200", []string{"process_grace_timeout_ms is 250", "1 to 200"}},
		"negative":        {"[lifecycle]\nmax_completed_process_diagnostics = -1", []string{"is -1", "0 to 1024"}},
		"no notifier":     {"[notify]\non_terminal = []", []string{"notify.on_terminal"}},
		"relative store":  {"[store]\ndir = 'jobs'", []string{"store.dir", "absolute"}},
	} {
		path := filepath.Join(testproc.TempDir(t), "jobprobe.toml")
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readConfig(path)
		if (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range test.want {
			if !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v does not say %q", name, err, part)
			}
		}
	}
}

// A file that is asked for must be there; the usual one need not be.
func TestConfigMissing(t *testing.T) {
	dir := testproc.TempDir(t)
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, dir)
	}
	if c, err := readConfig(""); err != nil || c.Lifecycle.GraceMS != 250 {
		t.Errorf("usual: %v, %+v", err, c)
	}
	if _, err := readConfig(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that was asked for is missed by nobody")
	}
}
