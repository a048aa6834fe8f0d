package reap

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/jobprobe/jobprobe/sidecar"
)

// maxRunFile bounds what is read of a file that a run itself wrote.
const maxRunFile = 1 << 20

// RunsDir returns the directory of what runs wrote that belongs to a jobs
// directory: H/runs for H/mcp/jobs, the layout of a peer's home, and
// otherwise "runs" beside it.
func RunsDir(jobs string) string {
	parent := filepath.Dir(filepath.Clean(jobs))
	if filepath.Base(jobs) == "jobs" && filepath.Base(parent) == "mcp" {
		parent = filepath.Dir(parent)
	}
	return filepath.Join(parent, "runs")
}

// runObject reads a JSON object that a run wrote about itself, nil if there
// is none that can be used. Nothing is decided by its absence.
func (o Observer) runObject(id, name string) *sidecar.Record {
	if o.RunsDir == "" || !sidecar.ValidRunID(id) {
		return nil
	}
	return readObject(filepath.Join(o.RunsDir, id, name), maxRunFile)
}

// readObject reads a regular file of at most limit bytes that holds a JSON
// object, nil if there is none.
func readObject(path string, limit int64) *sidecar.Record {
	f, err := openRegular(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil || int64(len(data)) > limit {
		return nil
	}
	rec, err := sidecar.Parse(data)
	if err != nil {
		return nil
	}
	return rec
}

// goneReason tells a silent run from one that recorded a notification which
// did not get through.
func (o Observer) goneReason(id string) string {
	if rec := o.runObject(id, "notify_outcome.json"); rec != nil && literal(rec, "ok", "false") {
		return ReasonGoneUndelivered
	}
	return sidecar.ReasonGone
}

// artifacts lists the regular files below a run's artifacts directory, in
// order. A missing directory holds none.
func (o Observer) artifacts(id string) (paths []string, err error) {
	paths = []string{}
	root := filepath.Join(o.RunsDir, id, "artifacts")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if path == root && os.IsNotExist(err) {
				return filepath.SkipAll
			}
			return err
		}
		if d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return nil
	})
	slices.Sort(paths)
	return paths, err
}
