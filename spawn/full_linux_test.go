package spawn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// The disk is full at each step of a start, by inodes and by pages: either the
// spawner succeeds, and its work runs once, or it fails, and the work never
// runs. When there is room again every record that is left comes to its end,
// and the claim can be had.
func TestFullDisk(t *testing.T) {
	if !testproc.InMounts(t) {
		return
	}
	failed, started := map[string]int{}, map[string]int{}
	for _, limit := range []string{"nr_inodes=%d,size=1m", "nr_inodes=1000,size=%d"} {
		for n := range 20 {
			room := n + 1
			if limit != "nr_inodes=%d,size=1m" {
				room = (n + 1) * os.Getpagesize()
			}
			text := fmt.Sprintf(limit, room)
			if fullDisk(t, text) {
				started[limit]++
			} else {
				failed[limit]++
			}
		}
		if failed[limit] < 2 || started[limit] < 2 {
			t.Errorf("%s: %d starts failed, %d did not", limit, failed[limit], started[limit])
		}
	}
	t.Logf("count: failed %v, started %v", failed, started)
}

// fullDisk starts a job on a small file system, and says whether it started.
func fullDisk(t *testing.T, limit string) bool {
	t.Helper()
	mount, ran := small(t, limit), filepath.Join(t.TempDir(), "ran")
	store := storeAt(t, filepath.Join(mount, "jobs"))
	cmd := spawner(store.Dir, "sh", "-c", `echo >>"$1"; echo printed`, "sh", ran)
	cmd.Env = append(cmd.Env, claimEnv+"="+key)
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
		t.Fatalf("%s: %v", limit, err)
	}
	enlarge(t, mount)
	var c crashes
	c.settled(t, point{limit, 0}, store, ran)
	if runs, _ := os.ReadFile(ran); (err == nil) != (len(runs) == 1) {
		t.Errorf("%s: the spawner said %v, and the work ran %d times", limit, err, len(runs))
	}
	for path := range tree(t, mount) {
		if filepath.Ext(path) == ".tmp" {
			t.Errorf("%s: left %s", limit, path)
		}
	}
	if err != nil && c.reaped+c.ended > 0 {
		t.Errorf("%s: %+v", limit, c)
	}
	h, claimErr := claimed(t, store, key, "true")
	if claimErr != nil {
		t.Errorf("%s: the claim cannot be had: %v", limit, claimErr)
		return err == nil
	}
	finished(t, store, h.RunID)
	return err == nil
}

// small mounts a small file system, and enlarge makes it large enough.
func small(t *testing.T, limit string) (mount string) {
	t.Helper()
	mount = t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "mode=700,"+limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	return mount
}

func enlarge(t *testing.T, mount string) {
	t.Helper()
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT, "nr_inodes=1000,size=1m"); err != nil {
		t.Fatal(err)
	}
}

// A job that could not start, of which the full disk could not be told, is told
// of when there is room again, although its caller lives on: its claim must not
// be held by what never ran.
func TestFullDiskFreesTheClaim(t *testing.T) {
	if !testproc.InMounts(t) {
		return
	}
	refused := 0
	for inodes := range 16 {
		mount := small(t, fmt.Sprintf("nr_inodes=%d,size=1m", inodes+1))
		store := storeAt(t, filepath.Join(mount, "jobs"))
		_, err := claimed(t, store, key, "true")
		if failed, ok := errors.AsType[*FailedError](err); ok && failed.Err != nil {
			refused++
		}
		enlarge(t, mount)
		until(t, "the claim can be had", func() bool {
			_, err := claimed(t, store, key, "true")
			return err == nil
		})
	}
	if refused == 0 {
		t.Error("no failure was ever refused")
	}
}
