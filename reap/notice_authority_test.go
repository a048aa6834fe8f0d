//go:build unix

package reap

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// distrusted is the delivery of a record that does not speak for the caller.
var distrusted = refusedNotice(faultDistrust, "null")

// A command of a record runs only if nobody but the caller can have written
// it. The end is recorded in any case, and the delivery says why.
func TestNoticeAuthority(t *testing.T) {
	const nobody = 65534
	chmod := func(mode os.FileMode, names ...string) func(*bell) error {
		return func(b *bell) error { return os.Chmod(filepath.Join(append([]string{b.dir}, names...)...), mode) }
	}
	chown := func(uid int, names ...string) func(*bell) error {
		return func(b *bell) error { return os.Lchown(filepath.Join(append([]string{b.dir}, names...)...), uid, -1) }
	}
	for _, tt := range []struct {
		name    string
		root    bool // only root can bring it about
		arrange func(*bell) error
		want    string
		rung    int
	}{
		{"ours", false, chmod(0o600, "job.json"), okNotice, 1},
		{"readable by all", false, chmod(0o644, "job.json"), okNotice, 1},
		{"directory open to all", false, chmod(0o755), okNotice, 1},
		{"file writable by the group", false, chmod(0o620, "job.json"), distrusted, 0},
		{"file writable by all", false, chmod(0o602, "job.json"), distrusted, 0},
		{"directory writable by the group", false, chmod(0o770), distrusted, 0},
		{"directory writable by all", false, chmod(0o1777), distrusted, 0},
		{"linked directory", false, func(b *bell) error {
			elsewhere := filepath.Join(testproc.TempDir(b.t), "job")
			if err := os.Rename(b.dir, elsewhere); err != nil {
				return err
			}
			return os.Symlink(elsewhere, b.dir)
		}, distrusted, 0},
		{"file of somebody else", true, chown(nobody, "job.json"), distrusted, 0},
		{"directory of somebody else", true, chown(nobody), distrusted, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			b := newBell(t, rings("exit 0"))
			if err := tt.arrange(b); err != nil {
				t.Fatal(err)
			}
			job := b.look()
			if str(job.Outcome) != sidecar.Indeterminate || string(job.TerminalSource) != `"mcp_orphan_reaper"` {
				t.Errorf("not ended: %+v", job)
			}
			b.want(tt.want, tt.rung)
		})
	}
}

// The configured command is the caller's own: it runs for any record, but not
// in a directory that a record of somebody else names.
func TestNoticeAuthorityOfTheConfigured(t *testing.T) {
	theirs, mine := testproc.TempDir(t), testproc.TempDir(t)
	for dir, word := range map[string]string{theirs: "theirs", mine: "mine"} {
		writeFile(t, filepath.Join(dir, "notify"), "#!/bin/sh\necho "+word+" >> \"$1\"\n")
		if err := os.Chmod(filepath.Join(dir, "notify"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(mine)
	for mode, want := range map[os.FileMode]string{0o600: "theirs\n", 0o660: "mine\n"} {
		b := newBell(t, set("submit_cwd", string(sidecar.Text(theirs))))
		b.Notices.Command = []string{"./notify", b.calls}
		if err := os.Chmod(filepath.Join(b.dir, "job.json"), mode); err != nil {
			t.Fatal(err)
		}
		b.look()
		if got, err := os.ReadFile(b.calls); string(got) != want || err != nil {
			t.Errorf("mode %o: %q ran, want %q; %v", mode, got, want, err)
		}
	}
}

// A notice that is pending is left to those who may deliver it.
func TestNoticePendingIsLeftToOthers(t *testing.T) {
	ended := []sidecar.Field{
		set("finished_at", `"2026-08-01T00:00:00+00:00"`), set("status", `"exited"`), set("notify_delivery", pendingNotice),
	}
	owner := func(b *bell) { b.Notices = Notices{} }
	for _, tt := range []struct {
		name     string
		fields   []sidecar.Field
		stranger func(*bell)
	}{
		{"not trusted", []sidecar.Field{rings("exit 0")}, func(b *bell) { chmodRecord(b, 0o660) }},
		{"off", []sidecar.Field{rings("exit 0")}, func(b *bell) { b.Notices.Off = true }},
		{"nothing configured", nil, owner},
		{"faulty configuration", nil, func(b *bell) { b.Notices.fault = faultNotJSON }},
		{"no such directory", []sidecar.Field{rings("exit 0")}, func(b *bell) { b.Notices.Dir = "/no/such" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBell(t, append(ended, tt.fields...)...)
			tt.stranger(b)
			b.look()
			b.want(pendingNotice, 0)
			owner(b)
			chmodRecord(b, 0o600)
			if tt.fields == nil {
				b.Notices.Command = []string{"sh", "-c", "echo rung >> " + b.calls}
			}
			b.look()
			b.want(okNotice, 1)
		})
	}
	t.Run("faulty record", func(t *testing.T) { // faulty for everybody
		b := newBell(t, append(ended, set("notify_command", `"[]"`))...)
		b.look()
		b.want(refusedNotice(faultEmpty, "null"), 0)
	})
}

func chmodRecord(b *bell, mode os.FileMode) {
	b.t.Helper()
	if err := os.Chmod(filepath.Join(b.dir, "job.json"), mode); err != nil {
		b.t.Fatal(err)
	}
}
