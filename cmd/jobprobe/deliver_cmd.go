package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/spawn"
)

// leavers are the commands that somebody waits for: what they owe is delivered
// by another process, so that a notifier which takes long does not hold them up.
var leavers = []string{"status", "list", "wait", "lifecycle", "drain"}

// errands are the jobs whose notices this command leaves to another process.
type errands struct {
	mu  sync.Mutex
	ids []string
}

func (e *errands) add(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.ids, id) {
		e.ids = append(e.ids, id)
	}
}

// handOver starts the process that delivers. If it cannot be started, or is
// lost, the notices stay pending for whoever looks next.
func (e *errands) handOver(c *cli, obs *reap.Observer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ids) == 0 {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(obs.Store.Dir)
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Args = []string{"jobprobe", "--dir", dir}
	if c.Config != "" {
		cmd.Args = append(cmd.Args, "--config", c.Config)
	}
	cmd.Args = append(append(cmd.Args, "deliver"), e.ids...)
	started, err := spawn.StartDetached(*cmd)
	if err != nil {
		return err
	}
	return started.Process.Release()
}

// deliverCmd looks at jobs whose notices are pending; the program waits for the
// deliveries before it ends. It is for this program's own use.
type deliverCmd struct {
	RunIDs []string `arg:"" name:"run-id"`
}

func (cmd *deliverCmd) Run(ctx context.Context, obs *reap.Observer) error {
	for _, id := range cmd.RunIDs {
		if _, err := obs.Status(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
