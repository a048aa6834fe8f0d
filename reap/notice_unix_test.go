//go:build unix

package reap

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// rewrite sets members of the record as no transaction would.
func (b *bell) rewrite(fields ...sidecar.Field) {
	b.t.Helper()
	rec := b.Store.Read(runID).Record
	b.fill(rec, fields)
	if err := os.WriteFile(filepath.Join(b.dir, "job.json"), rec.Append(nil), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// rings is a record's command that leaves a line and runs a script.
func rings(script string, args ...string) sidecar.Field { return tells(ringing(script, args...)...) }

func ringing(script string, args ...string) []string {
	return append([]string{"sh", "-c", `echo "$0" >> CALLS; ` + script}, append([]string{"rung"}, args...)...)
}

// fifo makes a named pipe, by which a notifier and a test wait for each other.
func fifo(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v\n%s", err, out)
	}
	return path
}

// Whatever becomes of a notice stays visible and changes nothing of the end.
func TestPoint8EachDeliveryIsVisible(t *testing.T) {
	here := t.TempDir()
	plain, dir := filepath.Join(here, "plain"), filepath.Join(here, "dir")
	writeFile(t, plain, "no program\n")
	writeFile(t, filepath.Join(dir, "kkernel"), "#!/bin/sh\n")
	noise := filepath.Join(here, "noise")
	writeFile(t, noise, "\x7fnonsense")
	for path, mode := range map[string]os.FileMode{filepath.Join(dir, "kkernel"): 0o700, noise: 0o700} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	kernel := filepath.Join(dir, "kkernel")
	failed := func(exit, class string) string {
		return `{"attempted":true,"ok":false,"exit_code":` + exit + `,"error":null,"failure_class":"` + class + `","command":"sh"}`
	}
	unstarted := func(trouble, command string) string {
		return `{"attempted":true,"ok":false,"exit_code":null,"error":"` + trouble + `","failure_class":"unknown","command":"` + command + `"}`
	}
	for _, tt := range []struct {
		name    string
		command sidecar.Field
		want    string
		state   string
		rung    int
	}{
		{"success", rings("exit 0"), okNotice, "delivered", 1},
		{"refusal", rings("echo Forbidden >&2; exit 1"), failed("1", "refused_by_policy"), "failed", 1},
		{"non-zero", rings("exit 7"), failed("7", "unknown"), "failed", 1},
		{"signal", rings("kill -9 $$"), failed("-9", "unknown"), "failed", 1},
		{"not found", tells("no-such-notifier"), unstarted("FileNotFoundError", "no-such-notifier"), "failed", 0},
		{"no such file", tells("./no-such-notifier"), unstarted("FileNotFoundError", "./no-such-notifier"), "failed", 0},
		{"not executable", tells(plain), unstarted("PermissionError", plain), "failed", 0},
		{"no program", tells(noise), unstarted("OSError", noise), "failed", 0},
		{"a NUL", tells("sh", "a\x00b"), unstarted("OSError", "sh"), "failed", 0},
		{"no word", tells(""), unstarted("OSError", ""), "failed", 0},
		{"unverified", tells(kernel, "exec"),
			`{"attempted":true,"ok":true,"exit_code":0,"error":null,"failure_class":null,"command":"` + kernel + `","delivery_verified":false}`,
			"delivered_unverified", 0},
		{"unusable", set("notify_command", `"[]"`), refusedNotice(faultEmpty, "null"), "failed", 0},
		{"silence", set("notify_command", "null"), noNotice, "none", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBell(t, tt.command)
			first := b.look()
			for range 2 { // nobody tries again
				b.want(tt.want, tt.rung)
				job := b.look()
				if str(job.Outcome) != sidecar.Indeterminate || str(job.ReasonCode) != sidecar.ReasonGone || !job.Terminal ||
					string(job.FinishedAt) != string(first.FinishedAt) {
					t.Errorf("the end changed: %+v", job)
				}
			}
			list, err := b.List(t.Context(), ListOptions{})
			if err != nil || len(list.Jobs) != 1 || list.Jobs[0].NotifyDeliveryState != tt.state {
				t.Errorf("listed as %+v, %v; want %s", list.Jobs, err, tt.state)
			}
		})
	}
}

// A notifier that runs out of time is killed with its group, whatever signals
// it ignores; what it left in the group is gone too.
func TestPoint8TimeoutKillsTheGroup(t *testing.T) {
	alive := fifo(t)
	// Both shells ignore TERM, HUP and INT, and neither would ever end.
	script := `trap "" TERM HUP INT; sh -c 'echo $$ > ` + alive + `; while :; do sleep 1000; done' & while :; do wait; done`
	b := newBell(t, rings(script))
	at := b.Store.Read(runID)
	p := b.notice(runID, at.Record, at.File)
	if _, err := b.Store.Reap(t.Context(), runID, sidecar.Reaping{Finding: jobprobe.PIDAbsent, At: time.Now(), NoticeOwed: true}); err != nil {
		t.Fatal(err)
	}
	p.timeout = time.Hour
	ctx, expire := context.WithCancel(t.Context())
	grandchild := make(chan *jobprobe.Process, 1)
	go func() { // the time is up as soon as both run
		defer expire()
		defer close(grandchild)
		text, _ := os.ReadFile(alive)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Errorf("the grandchild said %q", text)
			return
		}
		id, err := jobprobe.Identify(pid)
		if err != nil {
			t.Error(err)
			return
		}
		held, err := jobprobe.Open(id)
		if err != nil {
			t.Error(err)
			return
		}
		grandchild <- held
	}()
	if _, err := b.tell(ctx, runID, p); err != nil {
		t.Fatal(err)
	}
	b.want(`{"attempted":true,"ok":false,"exit_code":null,"error":"TimeoutExpired","failure_class":"timeout","command":"sh",`+
		`"delivery_verified":false,"unverified_reason":"delivery_timed_out"}`, 1)
	held := <-grandchild
	if held == nil {
		return
	}
	defer held.Close()
	if _, err := held.Wait(t.Context()); err != nil { // for ever, if it lives
		t.Error(err)
	}
}

// The same by the clock alone, through an observer.
func TestPoint8Timeout(t *testing.T) {
	b := newBell(t, tells("sleep", "1000"))
	b.Notices.Timeout = time.Millisecond
	b.look()
	if got := b.on(runID, "notify_delivery"); !strings.Contains(got, `"error":"TimeoutExpired"`) {
		t.Error(got)
	}
	if job := b.look(); str(job.Outcome) != sidecar.Indeterminate {
		t.Errorf("outcome %s", str(job.Outcome))
	}
}

// A notifier that succeeds and leaves a child holding its pipes has succeeded
// (peer fault 11). The child is not waited for and not killed.
func TestPeerFault11BackgroundChild(t *testing.T) {
	gate, done := fifo(t), fifo(t)
	b := newBell(t, rings(`(read x < "$1"; echo "$x" > "$2") & exit 0`, gate, done))
	b.look() // returns, although the child still waits at the gate
	b.want(okNotice, 1)
	go os.WriteFile(gate, []byte("on\n"), 0)
	if text, err := os.ReadFile(done); string(text) != "on\n" {
		t.Errorf("the child said %q, %v", text, err)
	}
}

// Output is read while the notifier runs and kept only in part.
func TestPeerFault11OutputIsBounded(t *testing.T) {
	b := newBell(t, rings(`echo Forbidden; head -c 300000000 /dev/zero; head -c 1000000 /dev/zero >&2; exit 4`))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.look()
	runtime.ReadMemStats(&after)
	b.want(`{"attempted":true,"ok":false,"exit_code":4,"error":null,"failure_class":"refused_by_policy","command":"sh"}`, 1)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("301 MB of output took %d MB of memory", n>>20)
	}
}

// Placeholders are replaced once: what was put in is not looked at again
// (peer fault 12). Every one is known, and every other brace is left alone.
func TestPeerFault12PlaceholdersAreReplacedOnce(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	b := newBell(t,
		set("label", `"{target}{run_id}"`), set("notify_target", `"{sender}; $(touch x) 'q' ünï"`), set("notify_sender", `"me"`),
		tells("sh", "-c", `printf '%s\n' "$@" > "$0"; cat >> "$0"; echo >> "$0"; echo "$JOBPROBE_NOTIFY_SENDER $LIONAGI_NOTIFY_SENDER" >> "$0"`,
			told, "{run_id}|{status}|{label}|{target}|{sender}|{reason_code}", "{payload}{invocation_id}{}{{label}}", ""))
	t.Setenv("JOBPROBE_NOTIFY_SENDER", "somebody else")
	b.look()
	b.want(okNotice, 0)
	got, err := os.ReadFile(told)
	want := runID + `|exited|{target}{run_id}|{sender}; $(touch x) 'q' ünï|me|process_gone_without_outcome
{payload}{invocation_id}{}{{target}{run_id}}

{"run_id":"` + runID + `","status":"exited","label":"{target}{run_id}","target":"{sender}; $(touch x) 'q' ünï","sender":"me","reason_code":"process_gone_without_outcome"}
me me
`
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// Without a sender and a target there are none, not those of the caller.
func TestNoticeWithoutSender(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	b := newBell(t, set("notify_target", "null"), set("label", "null"),
		tells("sh", "-c", `cat > "$0"; echo "$1|${JOBPROBE_NOTIFY_SENDER-none}|${LIONAGI_NOTIFY_SENDER-none}|$KEPT" >> "$0"; ps -o pid=,pgid=,sid= -p $$ | tr -s ' ' >> "$0"; pwd >> "$0"`, told, "{target}"))
	b.Notices.Dir = filepath.Dir(told)
	for _, name := range []string{"JOBPROBE_NOTIFY_SENDER", "LIONAGI_NOTIFY_SENDER"} {
		t.Setenv(name, "somebody else")
	}
	t.Setenv("KEPT", "kept")
	b.look()
	data, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	want := `{"run_id":"` + runID + `","status":"exited","label":"run","target":null,"sender":null,"reason_code":"process_gone_without_outcome"}|none|none|kept`
	if lines[0] != want {
		t.Errorf("told\n%s, want\n%s", lines[0], want)
	}
	var pid, group, session int
	if _, err := fmt.Sscan(lines[1], &pid, &group, &session); err != nil || pid != group || pid != session {
		t.Errorf("pid, group and session are %q, want one number", lines[1])
	}
	if lines[2] != b.Notices.Dir {
		t.Errorf("the notifier ran in %s", lines[2])
	}
}
