//go:build unix

package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/sidecar"
)

var (
	_ = register("add", asNobody(helpAdd))
	_ = register("look", asNobody(helpLook))
	_ = register("hold", helpHold)
	_ = register("attach", helpAttach)
	_ = register("end", helpEnd)
)

// nobodyEnv makes a helper give up root's rights first. It is the helper that
// does so, because another user may not be able to execute the test binary.
const nobodyEnv = "SIDECAR_TEST_NOBODY"

func asNobody(run func([]string) error) func([]string) error {
	return func(args []string) error {
		if os.Getenv(nobodyEnv) == "" {
			return run(args)
		}
		err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
		if err != nil {
			return err
		}
		return run(args)
	}
}

// helpAdd DIR KEY N adds one member to the record.
func helpAdd(args []string) error {
	n, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	s := sidecar.Store{Dir: args[0], LockWait: time.Minute}
	got, err := s.Update(context.Background(), runID, set(args[1], sidecar.Int(n)))
	if err == nil && got.Result != sidecar.Written {
		err = errors.New(got.Result.String())
	}
	return err
}

// helpLook DIR prints what reading, listing and changing come to.
func helpLook(args []string) error {
	s := sidecar.Store{Dir: args[0]}
	listed := "listed"
	if _, err := s.IDs(); errors.Is(err, fs.ErrPermission) {
		listed = "denied"
	}
	_, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1)))
	var refused *sidecar.RefusedError
	if !errors.As(err, &refused) {
		return fmt.Errorf("not refused: %w", err)
	}
	fmt.Println(s.Read(runID).State, listed, refused.Reason)
	return nil
}

// helpHold PATH holds flock(2) on a file, as the peer does.
func helpHold(args []string) error {
	fd, err := unix.Open(args[0], unix.O_RDWR|unix.O_CREAT, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		return err
	}
	return ready()
}

// helpAttach DIR attaches this process, and prints whether it won.
func helpAttach(args []string) error {
	s := sidecar.Store{Dir: args[0], LockWait: time.Minute}
	got, err := s.Attach(context.Background(), runID, sidecar.Attachment{PID: int64(os.Getpid())})
	if err != nil && !errors.Is(err, sidecar.ErrNotPreparing) {
		return err
	}
	fmt.Println(got.Won)
	return nil
}

// helpEnd DIR NAME ends the run, and prints whether it won.
func helpEnd(args []string) error {
	got, err := ends[args[1]](sidecar.Store{Dir: args[0], LockWait: time.Minute}, early)
	if err == nil {
		fmt.Println(got.Won)
	}
	return err
}

// TestOneEndInTheWorld lets processes end the same run in every way at once.
// The record tells the winner's end, and nobody else thinks to have won.
func TestOneEndInTheWorld(t *testing.T) {
	s := newStore(t, record(runID))
	var wg sync.WaitGroup
	winners := make(chan string, 2*len(ends))
	for name := range ends {
		if name == "spawn" {
			continue // of a run that has not started
		}
		for range 2 {
			cmd := helper(t, "end", s.Dir, name)
			wg.Go(func() {
				out, err := cmd.Output()
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if string(out) == "true\n" {
					winners <- name
				}
			})
		}
	}
	wg.Wait()
	close(winners)
	winner := <-winners
	if second, ok := <-winners; winner == "" || ok {
		t.Fatalf("winners %q and %q", winner, second)
	}
	alone := newStore(t, record(runID))
	want, err := ends[winner](alone, early)
	if err != nil {
		t.Fatal(err)
	}
	r := s.Read(runID).Record
	for _, name := range []string{
		"status", "finished_at", "outcome", "reason_code", "terminal_source", "finished_at_precision", "exit_code",
	} {
		got, _ := r.Raw(name)
		if alone, _ := want.Record.Raw(name); string(got) != string(alone) {
			t.Errorf("%s won, but %s is %s, want %s", winner, name, got, alone)
		}
	}
}

// TestCaseF30SixteenProcesses lets processes add one member each, while others
// end the run in every way.
func TestCaseF30SixteenProcesses(t *testing.T) {
	s := newStore(t, record(runID))
	const writers = 16
	var wg sync.WaitGroup
	for i := range writers {
		cmd := helper(t, "add", s.Dir, fmt.Sprintf("key-%d", i), strconv.Itoa(i))
		wg.Go(func() {
			if out, err := cmd.Output(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for name := range ends {
		if name == "spawn" {
			continue // of a run that has not started
		}
		cmd := helper(t, "end", s.Dir, name)
		wg.Go(func() {
			if out, err := cmd.Output(); err != nil {
				t.Errorf("%s: %v: %s", name, err, out)
			}
		})
	}
	wg.Wait()
	wantKeys(t, s, writers)
}

// TestAttachHasOneWinner lets processes start the same run.
func TestAttachHasOneWinner(t *testing.T) {
	s := newStore(t, record(runID, sidecar.Field{Name: "spawn_state", Value: sidecar.Text("preparing")}))
	var wg sync.WaitGroup
	answers := make(chan string, 8)
	for range cap(answers) {
		cmd := helper(t, "attach", s.Dir)
		wg.Go(func() {
			out, err := cmd.Output()
			if err != nil {
				t.Error(err)
			}
			answers <- string(out)
		})
	}
	wg.Wait()
	close(answers)
	won := 0
	for a := range answers {
		if a == "true\n" {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d winners", won)
	}
}

// TestHeldLock asks for a lock that a peer holds and, being stopped, will not
// give back.
func TestHeldLock(t *testing.T) {
	s := newStore(t, record(runID))
	lock := filepath.Join(s.Dir, runID, "job.lock")
	cmd := helper(t, "hold", lock)
	stop := start(t, cmd)
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	before := string(record(runID).Append(nil))
	s.LockWait = 20 * time.Millisecond
	got, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1)))
	wantRefused(t, err, sidecar.LockUnavailable)
	if got.Result != sidecar.NotDone {
		t.Error(got.Result)
	}
	s.LockWait = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Update(ctx, runID, set("a", sidecar.Int(1)))
	wantRefused(t, err, sidecar.LockUnavailable)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the context's reason is lost: %v", err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.Update(cancelled, runID, set("a", sidecar.Int(1)))
	wantRefused(t, err, sidecar.LockUnavailable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the context's reason is lost: %v", err)
	}
	wantBytes(t, s, before)
	if got := s.Read(runID); got.State != sidecar.OK {
		t.Errorf("reading needs no lock: %v, %v", got.State, got.Err)
	}
	if err := cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Update(context.Background(), runID, set("a", sidecar.Int(1)))
		done <- err
	}()
	stop()
	if err := <-done; err != nil {
		t.Errorf("after the holder is gone: %v", err)
	}
}

// TestCaseF17LockExcludesPeer takes the lock as the peer does while a change runs.
func TestCaseF17LockExcludesPeer(t *testing.T) {
	s := newStore(t, record(runID))
	lock := filepath.Join(s.Dir, runID, "job.lock")
	_, err := s.Update(context.Background(), runID, func(*sidecar.Record) error {
		// Opening and closing the file must not drop the lock, as it
		// would drop one of fcntl(2).
		for range 2 {
			fd, err := unix.Open(lock, unix.O_RDWR, 0)
			if err != nil {
				return err
			}
			if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
				t.Errorf("flock beside a change: %v", err)
			}
			unix.Close(fd)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	fd, err := unix.Open(lock, unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("flock after a change: %v", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o777 != 0o600 || st.Size != 0 {
		t.Errorf("lock file: mode %o, size %d, %v", st.Mode&0o777, st.Size, err)
	}
}

// TestCaseF25RemovedDirectory takes the job away at each step between reading
// and renaming. Nothing is staged elsewhere, wherever TMPDIR is.
func TestCaseF25RemovedDirectory(t *testing.T) {
	for name, take := range map[string]func(s sidecar.Store) error{
		"removed": func(s sidecar.Store) error { return os.RemoveAll(filepath.Join(s.Dir, runID)) },
		"moved": func(s sidecar.Store) error {
			return os.Rename(filepath.Join(s.Dir, runID), filepath.Join(s.Dir, "trash"))
		},
		"replaced": func(s sidecar.Store) error {
			if err := os.Rename(filepath.Join(s.Dir, runID), filepath.Join(s.Dir, "trash")); err != nil {
				return err
			}
			return os.Mkdir(filepath.Join(s.Dir, runID), 0o700)
		},
	} {
		for _, point := range []string{"locked", "read", "changed", "swept", "created"} {
			t.Run(name+" when "+point, func(t *testing.T) {
				s := newStore(t, record(runID))
				t.Setenv("TMPDIR", "/nowhere")
				got, err := s.WithSteps(func(at string) {
					if at == point {
						if err := take(s); err != nil {
							t.Error(err)
						}
					}
				}).Update(context.Background(), runID, set("a", sidecar.Int(1)))
				wantRefused(t, err, sidecar.RecordAbsent)
				if got.Result != sidecar.NotDone {
					t.Error(got.Result)
				}
				if got := s.Read(runID); got.State != sidecar.Absent {
					t.Errorf("resurrected: %v", got.State)
				}
				if _, err := os.Lstat(filepath.Join(s.Dir, "trash")); err == nil {
					wantNoTemp(t, filepath.Join(s.Dir, "trash"), name)
				}
			})
		}
	}
}

// TestReplacedLock removes the lock file under a waiter. Who locks a file that
// is no longer at the path excludes nobody, and must look again.
func TestReplacedLock(t *testing.T) {
	s := newStore(t, record(runID))
	s.LockWait = time.Minute
	lock := filepath.Join(s.Dir, runID, "job.lock")
	_, err := s.Update(context.Background(), runID, func(r *sidecar.Record) error {
		r.Set("a", sidecar.Int(1))
		if err := os.Remove(lock); err != nil {
			return err
		}
		// Now another writer gets a lock file of its own.
		got, err := s.Update(context.Background(), runID, set("b", sidecar.Int(2)))
		if err != nil || got.Result != sidecar.Written {
			t.Errorf("beside a removed lock: %v, %v", got.Result, err)
		}
		return nil
	})
	wantRefused(t, err, sidecar.LockUnavailable)
	if r := s.Read(runID).Record; !r.Null("a") || r.Null("b") {
		t.Errorf("record %s", r.Append(nil))
	}
}
