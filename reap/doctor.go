package reap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/enum"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Health is what a check of this machine and store came to.
type Health uint8

const (
	// Unchecked is the zero value: it was not looked at, or cannot be told.
	Unchecked Health = iota
	// Healthy: nothing is wrong.
	Healthy
	// Doubtful: it works, with a limit that the detail names.
	Doubtful
	// Broken: jobs cannot be relied on until this is put right.
	Broken
)

var healthNames = [...]string{"unchecked", "ok", "warning", "failed"}

// String returns the word used in replies, for example "warning".
func (h Health) String() string { return enum.Name(healthNames[:], uint8(h), "Health") }

// MarshalText returns the word of [Health.String]. It fails for a value
// outside the enumeration.
func (h Health) MarshalText() ([]byte, error) { return enum.Text(healthNames[:], uint8(h), "health") }

// Check is one thing that a diagnosis looked at.
type Check struct {
	Name   string `json:"check"`
	Health Health `json:"state"`
	Detail string `json:"detail"`
}

// Diagnose looks at what every answer rests on: the store and its file system,
// its lock, a whole transaction in a directory that is removed again, how well
// this system identifies processes, the clock, and the records themselves. No
// job is observed and no record is changed. A store that does not exist yet is
// no fault.
func (o Observer) Diagnose(ctx context.Context) []Check {
	checks := []Check{o.checkStore()}
	if checks[0].Health != Broken {
		checks = append(checks, checkFileSystem(existing(o.Store.Dir)), o.checkTransaction(ctx), o.checkAdmission())
	}
	clock, records := o.checkRecords()
	return append(checks, checkIdentity(), clock, records)
}

// checkAdmission says whether jobs may be started.
func (o Observer) checkAdmission() Check {
	switch draining, err := o.Draining(); {
	case draining:
		return Check{"admission", Doubtful, "closed by a drain; \"jobprobe drain --reopen\" admits jobs again"}
	case err != nil:
		return Check{"admission", Broken, err.Error()}
	}
	return Check{"admission", Healthy, admissionOpen}
}

// existing is a path, or the nearest directory above it that exists.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

func (o Observer) checkStore() Check {
	c := Check{Name: "store", Health: Healthy, Detail: o.Store.Dir}
	info, err := os.Stat(o.Store.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Detail += " does not exist yet; the first job makes it"
	case err != nil:
		c.Health, c.Detail = Broken, err.Error()
	case !info.IsDir():
		c.Health, c.Detail = Broken, c.Detail+" is not a directory"
	default:
		var limit string
		if c.Health, limit = checkMode(info); limit != "" {
			c.Detail += " " + limit
		}
	}
	return c
}

// checkTransaction makes a job's record and changes it, in a directory of its
// own inside the store.
func (o Observer) checkTransaction(ctx context.Context) Check {
	c := Check{Name: "transaction"}
	trial, err := os.MkdirTemp(existing(o.Store.Dir), ".doctor-")
	if err != nil {
		return Check{c.Name, Broken, err.Error()}
	}
	defer os.RemoveAll(trial)
	store := sidecar.Store{Dir: trial, LockWait: o.Store.LockWait}
	id := sidecar.NewRunID(time.Now())
	err = store.Create(id, sidecar.NewRecord(sidecar.Field{Name: "run_id", Value: sidecar.Text(id)}))
	if err != nil {
		return Check{c.Name, Broken, "a record cannot be made: " + err.Error()}
	}
	made, err := store.Update(ctx, id, func(r *sidecar.Record) error {
		r.Set("label", sidecar.Text("changed"))
		return nil
	})
	switch {
	case err != nil:
		return Check{c.Name, Broken, "a record cannot be changed: " + err.Error()}
	case made.Result != sidecar.Written:
		return Check{c.Name, Doubtful, "a changed record is " + made.Result.String() + ": a loss of power may undo it"}
	}
	return Check{c.Name, Healthy, "a record was made, locked, changed and synced"}
}

func checkIdentity() Check {
	c := Check{Name: "identity", Health: Doubtful}
	id, err := jobprobe.Identify(os.Getpid())
	if err != nil {
		return Check{c.Name, Broken, err.Error()}
	}
	live := jobprobe.Probe(id)
	switch {
	case live.Finding != jobprobe.IdentityConfirmed:
		c.Health, c.Detail = Broken, "this very process is found "+live.Finding.String()
	case runtime.GOOS == "linux" && (id.Boot == "" || id.BootSrc == ""):
		c.Detail = "no boot id can be trusted here, so a reboot cannot be told from a foreign host"
	case runtime.GOOS == "linux" && id.Uniq == 0:
		c.Detail = "the kernel has no unique process numbers (Linux 6.9), so two processes with one pid in one clock tick look the same"
	default:
		c.Health, c.Detail = Healthy, "this process is confirmed by "+cmp.Or(id.UniqKind, id.StartUnit)
	}
	return c
}

// born is a time that no working clock shows any more.
var born = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// checkRecords reads every record once. It counts those that cannot be changed
// and those beside which a crashed writer left something, and compares the clock
// with the ends on record: no verdict rests on the clock, times in records do.
func (o Observer) checkRecords() (clock, records Check) {
	now := o.time()
	clock = Check{"clock", Healthy, sidecar.FormatTime(now)}
	ids, err := o.Store.IDs()
	if err != nil {
		return clock, Check{"records", Broken, err.Error()}
	}
	records = Check{"records", Healthy, fmt.Sprintf("%d jobs", len(ids))}
	refused := map[sidecar.Refusal]int{}
	left, damaged := 0, 0
	if now.Before(born) {
		clock.Health = Doubtful
		clock.Detail += " is before this program was written"
	}
	for _, id := range ids {
		l := look{id: id, reading: o.Store.Read(id)}
		if e, ok := errors.AsType[*sidecar.RefusedError](l.reading.Rewritable(id)); ok {
			refused[e.Reason]++
		}
		text := textOf(l.fields(), "finished_at")
		if at, ok := sidecar.ParseTime(text); ok && at.Sub(now) > time.Minute {
			clock.Health = Doubtful
			clock.Detail = sidecar.FormatTime(now) + " is before the end of " + id + ", " + text
		}
		if sidecar.HistoryOf(l.fields()).Damaged > 0 {
			damaged++
		}
		temps, _ := filepath.Glob(filepath.Join(o.Store.Dir, id, ".job.json.*.tmp"))
		left += len(temps)
	}
	for _, reason := range slices.Sorted(maps.Keys(refused)) {
		records.Health = Doubtful
		records.Detail += fmt.Sprintf(", %d %s", refused[reason], reason)
	}
	if damaged > 0 {
		records.Health = Doubtful
		records.Detail += fmt.Sprintf(", %d with a history that cannot be read whole", damaged)
	}
	if left > 0 {
		records.Health = Doubtful
		records.Detail += fmt.Sprintf(", %d files of crashed writers, which the next change of their job removes", left)
	}
	return clock, records
}
