package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/spawn"
)

// followPause is the time between two looks at a growing log.
const followPause = 50 * time.Millisecond

// follower copies what a job prints. Its place is one in all that was printed,
// of which a bounded log may lack a part.
type follower struct {
	out    io.Writer
	obs    *reap.Observer
	id     string
	logMax int64
	at     int64
	began  time.Time
}

func newFollower(out io.Writer, obs *reap.Observer, id string) *follower {
	f := &follower{out: out, obs: obs, id: id, began: time.Now()}
	if rec := obs.Store.Read(id).Record; rec != nil {
		f.logMax, _ = rec.Int("log_max")
	}
	return f
}

// open returns the console; nil is one that is not there, or that is no file
// and so none of the job's.
func (f *follower) open() (*os.File, spawn.Gap, error) {
	console, err := f.obs.OpenConsole(f.id)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, reap.ErrNotRegular) {
		return nil, spawn.Gap{}, nil
	}
	if err != nil {
		return nil, spawn.Gap{}, err
	}
	return console, spawn.FindGap(console, f.logMax), nil
}

// skipTo goes to where the last n lines begin; an n of 0 is all of them.
func (f *follower) skipTo(n int) error {
	console, gap, err := f.open()
	if n == 0 || console == nil {
		return err
	}
	defer console.Close()
	at, err := tailOffset(console, n)
	if err == nil && at > gap.Head {
		at = max(at-gap.Mark, gap.Head) + gap.Dropped
	}
	f.at = at
	return err
}

// tailOffset finds where the last n lines of a file begin, reading it from its
// end a piece at a time. The newline that ends the file begins no line.
func tailOffset(file io.ReadSeeker, n int) (int64, error) {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	var piece [64 << 10]byte
	for at := end; at > 0; {
		part := piece[:min(int64(len(piece)), at)]
		at -= int64(len(part))
		if _, err := file.Seek(at, io.SeekStart); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(file, part); err != nil {
			return 0, err
		}
		for i := bytes.LastIndexByte(part, '\n'); i >= 0; i = bytes.LastIndexByte(part[:i], '\n') {
			if at+int64(i) == end-1 {
				continue
			}
			if n--; n == 0 {
				return at + int64(i) + 1, nil
			}
		}
	}
	return 0, nil
}

// copy copies what there is, and says what is lacking.
func (f *follower) copy() error {
	console, gap, err := f.open()
	if console == nil {
		return err
	}
	defer console.Close()
	copyTo := func(from, to int64) error {
		n, err := io.Copy(f.out, io.NewSectionReader(console, from, to-from))
		f.at += n
		return err
	}
	if f.at < gap.Head {
		if err := copyTo(f.at, gap.Head); err != nil {
			return err
		}
	}
	if lacking := gap.Head + gap.Dropped - f.at; gap.Dropped > 0 && lacking > 0 {
		if _, err := fmt.Fprintf(f.out, "\n[jobprobe: %d bytes dropped]\n", lacking); err != nil {
			return err
		}
		f.at += lacking
	}
	return copyTo(f.at-gap.Dropped+gap.Mark, 1<<62)
}

// follow copies until the job has ended, and returns how it ended as a status:
// the command's own exit code, 128 and the signal's number as shells do, or
// what wait would say. The error may be the context's.
func (f *follower) follow(ctx context.Context) error {
	for {
		job, err := f.obs.Status(context.WithoutCancel(ctx), f.id)
		if err != nil {
			return err
		}
		if err := f.copy(); err != nil {
			return err
		}
		switch {
		case job.Terminal:
			return endStatus(&job)
		case job.PossiblyOrphaned, !job.Known:
			return status(exitUnknown)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followPause):
		}
	}
}
