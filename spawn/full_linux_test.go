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
	mount, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "mode=700,"+limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	store := storeAt(t, filepath.Join(mount, "jobs"))
	cmd := spawner(store.Dir, "sh", "-c", `echo >>"$1"; echo printed`, "sh", ran)
	cmd.Env = append(cmd.Env, claimEnv+"="+key)
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
		t.Fatalf("%s: %v", limit, err)
	}
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT, "nr_inodes=1000,size=1m"); err != nil {
		t.Fatal(err)
	}
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
