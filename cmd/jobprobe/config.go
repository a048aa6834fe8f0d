package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// config is the configuration file. The environment overrides it, and flags
// override both.
type config struct {
	Store struct {
		Dir string `toml:"dir"`
	} `toml:"store"`
	Notify struct {
		// OnTerminal is the notifier of jobs that name none, as a list of words.
		OnTerminal []string `toml:"on_terminal"`
	} `toml:"notify"`
	Lifecycle struct {
		DrainMS  int  `toml:"shutdown_drain_timeout_ms"`
		GraceMS  int  `toml:"process_grace_timeout_ms"`
		KillMS   int  `toml:"process_kill_timeout_ms"`
		Cancel   bool `toml:"cancel_tasks_on_session_end"`
		Finished int  `toml:"max_completed_process_diagnostics"`
	} `toml:"lifecycle"`
}

// defaults is the configuration of an empty file.
func defaults() config {
	var c config
	c.Lifecycle.DrainMS = 5000
	c.Lifecycle.GraceMS = 250
	c.Lifecycle.KillMS = 1000
	c.Lifecycle.Cancel = true
	c.Lifecycle.Finished = 64
	return c
}

// configPath is where the file is looked for if none is named: below the
// user's configuration directory. Empty if there is no such directory.
func configPath() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "jobprobe", "jobprobe.toml")
}

// unconfigured are the commands that answer although the configuration cannot be
// used: nothing in it is about them, or, of a run's own report of its end, all
// that would be lost matters more.
var unconfigured = []string{"probe", "identify", "explain", "version", "hook", "complete", "completion", "man"}

// storeless are the commands that look at no store.
var storeless = []string{"probe", "identify", "explain", "version", "complete", "completion", "man"}

// readConfig reads the named file, or the usual one, which need not exist.
// A key that is not known, and a value out of its range, is an error: a
// setting that has no effect is worse than none.
func readConfig(named string) (config, error) {
	c := defaults()
	path := named
	if path == "" {
		path = configPath()
	}
	if path != "" {
		err := c.readFile(path)
		if err != nil && (named != "" || !errors.Is(err, fs.ErrNotExist)) {
			return c, err
		}
		if path += ": "; err != nil {
			path = ""
		}
	}
	return c, c.readEnv(os.Getenv, path)
}

func (c *config) readFile(path string) error {
	meta, err := toml.DecodeFile(path, c)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return fmt.Errorf("%s: there is no setting %s", path, unknown[0])
	}
	// Which settings bound others is not known before the environment is read.
	for _, s := range c.settings(int(maxDrain / time.Millisecond)) {
		if err := s.check(s.key); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if words := c.Notify.OnTerminal; words != nil && (len(words) == 0 || strings.TrimSpace(words[0]) == "") {
		return fmt.Errorf("%s: notify.on_terminal names no program", path)
	}
	if dir := c.Store.Dir; dir != "" && !filepath.IsAbs(dir) {
		return fmt.Errorf("%s: store.dir is %q, and must be an absolute path", path, dir)
	}
	return nil
}

// readEnv overrides the [lifecycle] settings by variables of their names: that
// of lifecycle.process_kill_timeout_ms is JOBPROBE_PROCESS_KILL_TIMEOUT_MS. Then
// it checks them all: an error names the variable, or the key after the file that
// may have set it.
func (c *config) readEnv(getenv func(string) string, file string) error {
	var from [4]string
	for i, s := range c.settings(int(maxDrain / time.Millisecond)) {
		name := envOf(s.key)
		text := getenv(name)
		if from[i] = name; text == "" {
			from[i] = file + s.key
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s is %q, and must be a number, %d to %d", name, text, s.low, s.up)
		}
		*s.value = n
	}
	for i, s := range c.settings(c.Lifecycle.DrainMS) {
		if err := s.check(from[i]); err != nil {
			return err
		}
	}
	name := envOf("lifecycle.cancel_tasks_on_session_end")
	switch text := getenv(name); text {
	case "":
	case "true", "false":
		c.Lifecycle.Cancel = text == "true"
	default:
		return fmt.Errorf("%s is %q, and must be true or false", name, text)
	}
	return nil
}

func envOf(key string) string {
	return "JOBPROBE_" + strings.ToUpper(strings.TrimPrefix(key, "lifecycle."))
}

// maxDrain is the longest budget of a drain: less than a service manager
// commonly waits before it kills.
const maxDrain = 45 * time.Second

// setting is a number of the file with its range.
type setting struct {
	key     string
	value   *int
	low, up int
}

// settings are the numbers. What one job is given is no more than drain, which
// is what all are given.
func (c *config) settings(drain int) [4]setting {
	l := &c.Lifecycle
	return [...]setting{
		{"lifecycle.shutdown_drain_timeout_ms", &l.DrainMS, 1, int(maxDrain / time.Millisecond)},
		{"lifecycle.process_grace_timeout_ms", &l.GraceMS, 1, min(10000, drain)},
		{"lifecycle.process_kill_timeout_ms", &l.KillMS, 1, min(10000, drain)},
		{"lifecycle.max_completed_process_diagnostics", &l.Finished, 0, 1024},
	}
}

func (s *setting) check(name string) error {
	if *s.value < s.low || *s.value > s.up {
		return fmt.Errorf("%s is %d, and must be %d to %d", name, *s.value, s.low, s.up)
	}
	return nil
}

func (c *config) grace() time.Duration {
	return time.Duration(c.Lifecycle.GraceMS) * time.Millisecond
}

func (c *config) drainWindow() time.Duration {
	return time.Duration(c.Lifecycle.DrainMS) * time.Millisecond
}

func (c *config) killWindow() time.Duration {
	return time.Duration(c.Lifecycle.KillMS) * time.Millisecond
}
