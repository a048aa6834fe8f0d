package reap

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jobprobe/jobprobe/sidecar"
)

// ConsoleName is the file, in a job's directory, that its output goes to.
const ConsoleName = "console.log"

// maxConsole bounds what Output returns of a console, in bytes.
const maxConsole = 16 << 20

// Output is what a job has printed and made.
type Output struct {
	RunID       string  `json:"run_id"`
	Known       bool    `json:"known"`
	RecordState string  `json:"record_state"`
	Status      string  `json:"status"`
	Terminal    bool    `json:"terminal"`
	Outcome     *string `json:"outcome"`
	ReasonCode  *string `json:"reason_code"`
	// Console is the end of console.log, nil if there is none. Bytes that are
	// not UTF-8 are replaced.
	Console *string `json:"console"`
	// ConsoleCut is how many bytes of console.log come before Console, which
	// holds no more than 16 MiB.
	ConsoleCut int64 `json:"console_cut"`
	// Artifacts are the paths of the regular files that the run left in its
	// artifacts directory, sorted.
	Artifacts []string `json:"artifacts"`
	// ArtifactsState is "ok" or "unreadable". A missing directory is ok.
	ArtifactsState string `json:"artifacts_state"`
	RunDir         string `json:"run_dir"`
}

// Unusable is the answer for a job whose record cannot be used.
type Unusable struct {
	RunID       string `json:"run_id"`
	Known       bool   `json:"known"`
	RecordState string `json:"record_state"`
	Error       string `json:"error"`
}

// Output observes a job and returns the last tail bytes of its console
// (0 or less is all of it, up to 16 MiB) and its artifacts. Only the
// console.log in the job's own directory is read, whatever path the record
// names. For a record that is not usable the second result says why.
func (o Observer) Output(ctx context.Context, id string, tail int64) (*Output, *Unusable, error) {
	l, err := o.observe(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	state := l.reading.State
	if state != sidecar.OK {
		text := unusable(state)
		if state == sidecar.Absent {
			text = "no job has this run id"
		}
		return nil, &Unusable{RunID: id, RecordState: state.String(), Error: text}, nil
	}
	f := derive(&l)
	out := &Output{
		RunID: id, Known: true, RecordState: state.String(),
		Status: f.status, Terminal: f.terminal,
		Outcome: orNull(f.outcome), ReasonCode: orNull(f.reason),
		ArtifactsState: "ok",
		RunDir:         filepath.Join(o.RunsDir, id),
	}
	if text, cut, ok := o.console(id, tail); ok {
		out.Console, out.ConsoleCut = &text, cut
	}
	if out.Artifacts, err = o.artifacts(id); err != nil {
		out.ArtifactsState = "unreadable"
	}
	return out, nil, nil
}

func (o Observer) recordPath(id string) string {
	return filepath.Join(o.Store.Dir, id, "job.json")
}

// OpenConsole opens a job's console log for reading. The id must be valid. The
// error is fs.ErrNotExist if there is none, and ErrNotRegular if something else
// is in its place: a link is not followed, and a FIFO is not waited for.
func (o Observer) OpenConsole(id string) (*os.File, error) {
	return openRegular(filepath.Join(o.Store.Dir, id, ConsoleName))
}

// manyDescriptors are more than are ever needed.
const manyDescriptors = 1 << 16

// openRegular opens a plain file for reading; see OpenConsole for the errors.
func openRegular(path string) (*os.File, error) {
	f, err := openNoFollow(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	return f, nil
}

// ErrNotRegular says that what should be a plain file is something else.
var ErrNotRegular = errors.New("not a regular file")

// console is the end of a console log, and how many bytes come before it.
func (o Observer) console(id string, tail int64) (text string, cut int64, ok bool) {
	f, err := o.OpenConsole(id)
	if err != nil {
		return "", 0, false
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", 0, false
	}
	if tail <= 0 || tail > maxConsole {
		tail = maxConsole
	}
	data := make([]byte, min(tail, end))
	n, err := f.ReadAt(data, end-int64(len(data)))
	if err != nil && err != io.EOF {
		return "", 0, false
	}
	return strings.ToValidUTF8(string(data[:n]), "\uFFFD"), end - int64(len(data)), true
}
