package sidecar_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe/sidecar"
)

// wantRefused checks an error's reason.
func wantRefused(t testing.TB, err error, want sidecar.Refusal) {
	t.Helper()
	var refused *sidecar.RefusedError
	if !errors.As(err, &refused) || refused.Reason != want || refused.RunID != runID {
		t.Errorf("error %v, want refusal %v", err, want)
	}
}

func TestReadStates(t *testing.T) {
	s := sidecar.Store{Dir: tempDir(t)}
	for text, want := range map[string]sidecar.State{
		`{"run_id": "x"}`: sidecar.OK, "": sidecar.Unreadable, "[]": sidecar.WrongShape,
		"null": sidecar.WrongShape, `{"pid_create_time": NaN}`: sidecar.Unreadable,
		"{}" + strings.Repeat(" ", 16<<20-2): sidecar.OK,
		"{}" + strings.Repeat(" ", 16<<20-1): sidecar.Unreadable,
	} {
		plant(t, s, runID, text)
		got := s.Read(runID)
		if got.State != want || (got.State == sidecar.OK) != (got.Err == nil) || (got.Record == nil) != (got.Err != nil) {
			t.Errorf("%.40q: %v, %v, %v", text, got.State, got.Record, got.Err)
		}
		if got.File.Size != int64(len(text)) || unixModes && got.File.Mode != 0o600 || got.File.ModTime.IsZero() {
			t.Errorf("%.40q: file %+v", text, got.File)
		}
	}
}

func TestReadAbsent(t *testing.T) {
	s := sidecar.Store{Dir: tempDir(t)}
	if got := s.Read(runID); got.State != sidecar.Absent || !errors.Is(got.Err, fs.ErrNotExist) {
		t.Errorf("no directory: %v, %v", got.State, got.Err)
	}
	if err := os.Mkdir(filepath.Join(s.Dir, runID), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := s.Read(runID); got.State != sidecar.Absent {
		t.Errorf("empty directory: %v, %v", got.State, got.Err)
	}
	_, err := s.Update(ctx, runID, set("a", sidecar.Int(1)))
	wantRefused(t, err, sidecar.RecordAbsent)
	wantFiles(t, s) // no lock was made in what is no job
}

func TestStoreInCurrentDirectory(t *testing.T) {
	t.Chdir(tempDir(t))
	var s sidecar.Store
	if err := s.Create(runID, record(runID)); err != nil {
		t.Fatal(err)
	}
	if ids, err := s.IDs(); len(ids) != 1 || err != nil || s.Read(runID).State != sidecar.OK {
		t.Errorf("%v, %v, %v", ids, err, s.Read(runID).Err)
	}
	if _, err := os.Stat(filepath.Join(runID, "job.json")); err != nil {
		t.Error(err)
	}
}

func TestInvalidRunIDTouchesNothing(t *testing.T) {
	outer := tempDir(t)
	s := sidecar.Store{Dir: filepath.Join(outer, "jobs")}
	plant(t, sidecar.Store{Dir: outer}, "x", `{"run_id": "../x"}`)
	for _, id := range []string{"../x", "", ".", "..", outer + "/x", "a/b"} {
		if got := s.Read(id); got.State != sidecar.Unread || !errors.Is(got.Err, sidecar.ErrRunID) {
			t.Errorf("Read(%q): %v, %v", id, got.State, got.Err)
		}
		if _, err := s.Update(ctx, id, set("a", sidecar.Int(1))); !errors.Is(err, sidecar.ErrRunID) {
			t.Errorf("Update(%q): %v", id, err)
		}
		if err := s.Create(id, record(id)); !errors.Is(err, sidecar.ErrRunID) {
			t.Errorf("Create(%q): %v", id, err)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(outer, "x")); len(entries) != 1 {
		t.Errorf("files beside a foreign record: %v", entries)
	}
}

func TestUpdate(t *testing.T) {
	s := sidecar.Store{Dir: tempDir(t)}
	path := plant(t, s, runID, `{"x": 1.50, "run_id":"`+runID+`", "s": "\u0041", "z": [ ]}`)
	got, err := s.Update(ctx, runID, func(r *sidecar.Record) error {
		r.Set("z", sidecar.Value("[]"))
		r.Set("s", sidecar.Text("A"))
		return nil
	})
	if err != nil || got.Result != sidecar.Unchanged {
		t.Errorf("a change of nothing: %v, %v", got.Result, err)
	}
	before, _ := os.ReadFile(path)
	if !strings.Contains(string(before), `"x": 1.50, `) {
		t.Errorf("the layout was rewritten: %s", before)
	}
	got, err = s.Update(ctx, runID, set("new", sidecar.Text("é")))
	if err != nil || got.Result != sidecar.Written {
		t.Fatal(got.Result, err)
	}
	want := "{\n  \"x\": 1.50,\n  \"run_id\": \"" + runID + "\",\n  \"s\": \"A\",\n  \"z\": [],\n  \"new\": \"\\u00e9\"\n}"
	wantBytes(t, s, want)
	if string(got.Record.Append(nil)) != want {
		t.Errorf("returned record: %s", got.Record.Append(nil))
	}
	wantFiles(t, s, "job.json", "job.lock")
}

func TestUpdateRefusals(t *testing.T) {
	for text, want := range map[string]sidecar.Refusal{
		`{"run_id": "` + runID + `"`: sidecar.RecordUnreadable, "[]": sidecar.RecordWrongShape,
		"{}": sidecar.NamesAnotherRun, `{"run_id": "other"}`: sidecar.NamesAnotherRun,
		`{"run_id": null}`: sidecar.NamesAnotherRun,
		`{"run_id": "` + runID + `", "contract_version": 99}`: sidecar.TooNew,
	} {
		untouchable(t, text, want)
	}
}

// untouchable makes every kind of change of a record that none may change. Each
// is refused for the same reason, and not a byte is written.
func untouchable(t *testing.T, text string, want sidecar.Refusal) {
	t.Helper()
	s := sidecar.Store{Dir: tempDir(t)}
	plant(t, s, runID, text)
	for _, name := range opNames {
		got, err := opAt(name, early).run(s)
		wantRefused(t, err, want)
		if got.Result != sidecar.NotDone || got.Won {
			t.Errorf("%s of %q: %+v", name, text, got)
		}
	}
	wantBytes(t, s, text)
	wantFiles(t, s, "job.json", "job.lock")
}

func TestUpdateChangeFails(t *testing.T) {
	s := newStore(t, record(runID))
	before := string(record(runID).Append(nil))
	errChange := errors.New("no")
	for name, tc := range map[string]struct {
		change func(*sidecar.Record) error
		want   error
	}{
		"error":  {func(r *sidecar.Record) error { r.Set("a", sidecar.Int(1)); return errChange }, errChange},
		"run_id": {set("run_id", sidecar.Text("other")), sidecar.ErrLatched},
		"huge":   {set("a", sidecar.Text(strings.Repeat("x", 16<<20))), sidecar.ErrTooLarge},
	} {
		got, err := s.Update(ctx, runID, tc.change)
		if !errors.Is(err, tc.want) || got.Result != sidecar.NotDone {
			t.Errorf("%s: %v, %v", name, got.Result, err)
		}
	}
	var damaged *sidecar.DamagedError
	if _, err := s.Update(ctx, runID, set("a", sidecar.Value(`1, "run_id": 2`))); !errors.As(err, &damaged) {
		t.Errorf("injected members: %v", err)
	}
	wantBytes(t, s, before)
	wantFiles(t, s, "job.json", "job.lock")
}

// A line of a value 8,000 levels deep takes 16 KB of indentation, so this
// record of 400 KB would take 3 GB.
func TestUpdateBoundsIndentation(t *testing.T) {
	deep := strings.Repeat("[", 8000) + strings.Repeat("1,", 200000) + "1" + strings.Repeat("]", 8000)
	text := `{"run_id": "` + runID + `", "deep": ` + deep + `}`
	s := sidecar.Store{Dir: tempDir(t)}
	plant(t, s, runID, text)
	if _, err := s.Update(ctx, runID, set("a", sidecar.Int(1))); !errors.Is(err, sidecar.ErrTooLarge) {
		t.Errorf("error %.200v", err)
	}
	wantBytes(t, s, text)
}

func TestUpdateKeepsTheEnd(t *testing.T) {
	ended := record(runID, sidecar.Field{Name: "status", Value: sidecar.Text("completed")},
		sidecar.Field{Name: "finished_at", Value: sidecar.Text("")})
	s := newStore(t, ended)
	for _, name := range []string{"finished_at", "status", "outcome", "reason_code", "terminal_source", "finished_at_precision"} {
		_, err := s.Update(ctx, runID, set(name, sidecar.Text("other")))
		if !errors.Is(err, sidecar.ErrLatched) {
			t.Errorf("%s of an ended run: %v", name, err)
		}
	}
	wantBytes(t, s, string(ended.Append(nil)))
	if _, err := s.Update(ctx, runID, set("notify_delivery", sidecar.Null())); err != nil {
		t.Errorf("a member that says nothing of the end: %v", err)
	}
}

func TestPanicFreesTheLock(t *testing.T) {
	s := newStore(t, record(runID))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		s.Update(ctx, runID, func(*sidecar.Record) error { panic("change") })
	}()
	s.LockWait = time.Minute
	if got, err := s.Update(ctx, runID, set("a", sidecar.Int(1))); err != nil || got.Result != sidecar.Written {
		t.Error(got.Result, err)
	}
}

func TestSweepsLeftovers(t *testing.T) {
	s := newStore(t, record(runID))
	left := []string{".job.json.1.deadbeef.tmp", ".job.json.4194304.00000000.tmp"}
	kept := []string{
		".job.json.1.deadbee.tmp", ".job.json.1.FEEDFACE.tmp", ".job.json..deadbeef.tmp", "job.json.1.deadbeef.tmp",
		".job.json.1.deadbeef.tmp.x", ".job.json.x.deadbeef.tmp", ".job.json.tmp", "console.log",
	}
	for _, name := range append(left, kept...) {
		if err := os.WriteFile(filepath.Join(s.Dir, runID, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Update(ctx, runID, set("a", sidecar.Int(1))); err != nil || got.Result != sidecar.Written {
		t.Fatal(got.Result, err)
	}
	for _, name := range left {
		if _, err := os.Lstat(filepath.Join(s.Dir, runID, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range kept {
		if _, err := os.Lstat(filepath.Join(s.Dir, runID, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCaseF14Goroutines lets goroutines add one member each.
func TestCaseF14Goroutines(t *testing.T) {
	s := newStore(t, record(runID))
	s.LockWait = time.Minute
	var wg sync.WaitGroup
	const writers = 16
	for i := range writers {
		wg.Go(func() {
			change := set(fmt.Sprintf("key-%d", i), sidecar.Int(int64(i)))
			got, err := s.Update(ctx, runID, change)
			var refused *sidecar.RefusedError
			for errors.As(err, &refused) && refused.Reason == sidecar.RecordBusy { // on Windows, by a reader
				got, err = s.Update(ctx, runID, change)
			}
			if err != nil || got.Result != sidecar.Written {
				t.Errorf("writer %d: %v, %v", i, got.Result, err)
			}
			if got := s.Read(runID); got.State != sidecar.OK {
				t.Errorf("reader %d: %v, %v", i, got.State, got.Err)
			}
		})
	}
	wg.Wait()
	wantKeys(t, s, writers)
}

func wantKeys(t *testing.T, s sidecar.Store, writers int) {
	t.Helper()
	r := s.Read(runID)
	if r.State != sidecar.OK {
		t.Fatal(r.State, r.Err)
	}
	for i := range writers {
		if n, ok := r.Record.Int(fmt.Sprintf("key-%d", i)); n != int64(i) || !ok {
			t.Errorf("key-%d is lost", i)
		}
	}
	wantFiles(t, s, "job.json", "job.lock")
}

// TestReadersSeeWholeRecords reads while a writer replaces the record: every
// reading is one of the records that were published, none is torn or missing.
func TestReadersSeeWholeRecords(t *testing.T) {
	replacesOpen(t)
	s := newStore(t, record(runID))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			last := int64(0)
			for {
				got := s.Read(runID)
				if got.State != sidecar.OK {
					t.Errorf("%v: %v", got.State, got.Err)
					return
				}
				n, _ := got.Record.Int("n")
				pad, _ := got.Record.Text("pad")
				if n < last || len(pad) != int(n)*97%5000 {
					t.Errorf("n %d after %d with %d bytes", n, last, len(pad))
					return
				}
				last = n
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := 1; n <= 100; n++ {
		_, err := s.Update(ctx, runID, func(r *sidecar.Record) error {
			r.Set("n", sidecar.Int(int64(n)))
			r.Set("pad", sidecar.Text(strings.Repeat("x", n*97%5000)))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
}
