package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// unconfigured are the commands that answer although the usual file cannot be
// used: nothing in it is about them, or, of a run's own report of its end, all
// that would be lost matters more.
var unconfigured = []string{"probe", "identify", "explain", "version", "hook"}

// readConfig reads the named file, or the usual one, which need not exist.
// A key that is not known, and a value out of its range, is an error: a
// setting that has no effect is worse than none.
func readConfig(named string) (config, error) {
	c := defaults()
	path := named
	if path == "" {
		path = configPath()
	}
	if path == "" {
		return c, nil
	}
	meta, err := toml.DecodeFile(path, &c)
	if named == "" && errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return c, fmt.Errorf("%s: there is no setting %s", path, unknown[0])
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// check enforces the ranges.
func (c *config) check() error {
	l := &c.Lifecycle
	for _, setting := range []struct {
		key            string
		value, low, up int
	}{
		{"lifecycle.shutdown_drain_timeout_ms", l.DrainMS, 1, 45000},
		{"lifecycle.process_grace_timeout_ms", l.GraceMS, 1, min(10000, l.DrainMS)},
		{"lifecycle.process_kill_timeout_ms", l.KillMS, 1, min(10000, l.DrainMS)},
		{"lifecycle.max_completed_process_diagnostics", l.Finished, 0, 1024},
	} {
		if setting.value < setting.low || setting.value > setting.up {
			return fmt.Errorf("%s is %d, and must be %d to %d", setting.key, setting.value, setting.low, setting.up)
		}
	}
	if words := c.Notify.OnTerminal; words != nil && (len(words) == 0 || strings.TrimSpace(words[0]) == "") {
		return errors.New("notify.on_terminal names no program")
	}
	if dir := c.Store.Dir; dir != "" && !filepath.IsAbs(dir) {
		return fmt.Errorf("store.dir is %q, and must be an absolute path", dir)
	}
	return nil
}

func (c *config) grace() time.Duration {
	return time.Duration(c.Lifecycle.GraceMS) * time.Millisecond
}

func (c *config) killWindow() time.Duration {
	return time.Duration(c.Lifecycle.KillMS) * time.Millisecond
}
