package reap

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
	"github.com/jobprobe/jobprobe/sidecar"
)

// preyStages are the parts of the tests that run in processes of their own,
// beside the stages "idle" and "dead-leader" of testproc.
var preyStages = map[string]func(*testproc.Stage){
	"kill-recycle":  killRecycleStage,
	"kill-hidden":   killHiddenStage,
	"kill-denied":   killDeniedStage,
	"kill-own":      killOwnStage,
	"kill-own-from": killOwnFromStage,
	"kill-nohandle": killNoHandleStage,
	"kill-blind":    killBlindStage,
	"recycled":      recycledStage,

	"few-descriptors": fewDescriptorsStage,
	"outsider":        outsiderStage,
}

// A test binary started as one of these stages plays it here, before anything
// else of the package runs.
func init() {
	name := os.Getenv("JOBPROBE_TESTPROC")
	if _, ours := preyStages[name]; ours || name == "idle" || name == "dead-leader" {
		testproc.Main(nil, preyStages)
	}
}

// killStage plays one of preyStages and returns what it said.
func killStage(t testproc.T, attr *syscall.SysProcAttr, name string, args ...string) []string {
	t.Helper()
	// What the stage leaves when it has dropped its rights is removed here.
	dir, err := os.MkdirTemp("", "jobprobe-kill")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command("/proc/self/exe", args...)
	// The race detector would wait a second at each exit.
	cmd.Env = append(os.Environ(), "JOBPROBE_TESTPROC="+name, "GORACE=atexit_sleep_ms=0", "TMPDIR="+dir)
	cmd.SysProcAttr = attr
	return testproc.Run(t, cmd)
}

// prey is a shell script in a group of its own. It lives at most as long as
// the test, because its standard input closes then.
type prey struct {
	t    testproc.T
	pid  int
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	dead bool
}

// Scripts say what they are ready for, and then wait for their input's end.
const (
	scriptIdle = `echo ready; exec cat >/dev/null`
	// A leader and one member.
	scriptPair = `exec 3<&0; cat <&3 >/dev/null & echo $!; echo ready; exec cat >/dev/null`
	// A leader that is gone when it is ready, and one member.
	scriptOrphan = `exec 3<&0; cat <&3 >/dev/null & echo $!`
	// SIGTERM ends neither.
	scriptDeaf = `trap "" TERM; exec 3<&0; cat <&3 >/dev/null & echo $!; echo ready; cat <&3 >/dev/null`
)

// session starts a script as the leader of a session; marks are the values of
// its markers, none for no marker.
func session(t testproc.T, script string, marks ...string) *prey {
	t.Helper()
	return hunt(t, &syscall.SysProcAttr{Setsid: true}, script, marks...)
}

func hunt(t testproc.T, attr *syscall.SysProcAttr, script string, marks ...string) *prey {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); !strings.HasSuffix(name, "RUN_ID") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	for _, mark := range marks {
		cmd.Env = append(cmd.Env, "JOBPROBE_RUN_ID="+mark, "LIONAGI_MCP_JOB_RUN_ID="+mark)
	}
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	if err == nil {
		var out io.Reader
		if out, err = cmd.StdoutPipe(); err == nil {
			err = cmd.Start()
			p := &prey{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}
			if err == nil {
				p.pid = cmd.Process.Pid
				t.Cleanup(p.end)
				return p
			}
		}
	}
	t.Fatalf("start %q: %v", script, err)
	return nil
}

// ready returns once the script says so.
func (p *prey) ready() *prey {
	p.t.Helper()
	if got := p.line(); got != "ready" {
		p.t.Fatalf("the script says %q, not ready", got)
	}
	return p
}

func (p *prey) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the script says nothing: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// member returns the number that the script says.
func (p *prey) member() int {
	p.t.Helper()
	pid, err := strconv.Atoi(p.line())
	if err != nil {
		p.t.Fatalf("%v", err)
	}
	return pid
}

// reap kills the leader alone and collects it, so that its number is free.
func (p *prey) reap() {
	if !p.dead {
		p.dead = true
		p.cmd.Process.Kill()
		p.cmd.Process.Wait()
	}
}

// collect waits for a leader that ends by itself.
func (p *prey) collect() *prey {
	p.dead = true
	p.cmd.Process.Wait()
	return p
}

// end lets every member go, and the leader.
func (p *prey) end() {
	p.in.Close()
	p.reap()
}

// pack is a store with one record, and the processes around it.
type pack struct {
	Observer
	t testproc.T
}

func newPack(t testproc.T) *pack {
	dir, err := os.MkdirTemp("", "jobprobe-kill")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &pack{New(filepath.Join(dir, "jobs")), t}
}

func (k *pack) path() string { return filepath.Join(k.Store.Dir, runID, "job.json") }

// write puts the bytes of a record in place.
func (k *pack) write(data []byte) []byte {
	k.t.Helper()
	err := os.MkdirAll(filepath.Dir(k.path()), 0o700)
	if err == nil {
		err = os.WriteFile(k.path(), data, 0o600)
	}
	if err != nil {
		k.t.Fatalf("%v", err)
	}
	return data
}

func (k *pack) read() []byte {
	k.t.Helper()
	data, err := os.ReadFile(k.path())
	if err != nil {
		k.t.Fatalf("%v", err)
	}
	return data
}

// record writes a record of a started run; later fields replace earlier ones.
func (k *pack) record(fields ...sidecar.Field) []byte {
	k.t.Helper()
	rec := sidecar.NewRecord(
		set("run_id", `"`+runID+`"`), set("kind", `"command"`),
		set("submitted_at", `"`+sidecar.FormatTime(time.Now())+`"`), set("finished_at", "null"),
		set("status", `"running"`), set("spawn_state", `"started"`),
	)
	for _, f := range fields {
		rec.Set(f.Name, f.Value)
	}
	return k.write(rec.Append(nil))
}

// stamped are the fields of a record of ours for a process that leads its
// group.
func stamped(t testproc.T, id jobprobe.Identity) []sidecar.Field {
	t.Helper()
	text, err := id.MarshalJSON()
	if err != nil {
		t.Fatalf("%v", err)
	}
	n := fmt.Sprint(id.PID)
	created, _ := id.CreateTime()
	return []sidecar.Field{
		set("pid", n), {Name: "pid_create_time", Value: sidecar.Float(created)}, set("pgid", n),
		set("process_identity", string(text)),
	}
}

// plainly are the fields of the peer's record of the same.
func plainly(t testproc.T, id jobprobe.Identity) []sidecar.Field { return stamped(t, id)[:3] }

func whoIs(t testproc.T, pid int) jobprobe.Identity {
	t.Helper()
	id, err := jobprobe.Identify(pid)
	if err != nil {
		t.Fatalf("identify %d: %v", pid, err)
	}
	return id
}

// kill must not fail.
func (k *pack) kill(opt KillOptions) KillReply {
	k.t.Helper()
	reply, err := k.Kill(context.Background(), runID, opt)
	if err != nil {
		k.t.Fatalf("kill: %v", err)
	}
	return reply
}

// refuses kills and wants the reason code, an untouched record, and every one
// of these processes alive afterwards.
func (k *pack) refuses(code string, alive ...jobprobe.Identity) KillReply {
	k.t.Helper()
	before, _ := os.ReadFile(k.path())
	reply := k.kill(KillOptions{})
	if reply.ReasonCode != code || reply.Killed || reply.Recorded || reply.Signal != nil {
		k.t.Fatalf("got %+v, want a refusal with code %s", reply, code)
	}
	if n := len(reply.Reason); n == 0 || n >= 400 || strings.ContainsAny(reply.Reason, "{}") {
		k.t.Fatalf("the reason is %q", reply.Reason)
	}
	if after, _ := os.ReadFile(k.path()); !bytes.Equal(before, after) {
		k.t.Fatalf("a refused kill changed the record:\n%s", after)
	}
	mustLive(k.t, alive...)
	return reply
}

func mustLive(t testproc.T, ids ...jobprobe.Identity) {
	t.Helper()
	for _, id := range ids {
		if live := jobprobe.Probe(id); live.Finding != jobprobe.IdentityConfirmed {
			t.Fatalf("process %d did not survive: %s", id.PID, live.Finding)
		}
	}
}

func mustBeGone(t testproc.T, ids ...jobprobe.Identity) {
	t.Helper()
	for _, id := range ids {
		if live := jobprobe.Probe(id); live.Conclusion != jobprobe.ProcessGone {
			t.Fatalf("process %d is still there: %s", id.PID, live.Finding)
		}
	}
}

// at lets f happen once, at a step of the next kill.
func (k *pack) at(when step, f func()) {
	k.step = func(now step) {
		if now == when && f != nil {
			f()
			f = nil
		}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
