//go:build unix

package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
	"github.com/jobprobe/jobprobe/spawn"
)

func TestMain(m *testing.M) {
	spawn.Init() // scripts start supervisors from this binary
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // or each process of a race build ends a second later
	}
	testscript.Main(m, map[string]func(){"jobprobe": main})
}

// TestScript runs one script a command. Scripts have these commands besides
// the usual ones:
//
//	code N COMMAND...     run it; its exit status must be exactly N
//	let NAME [REGEXP]     set a variable to what was printed, or to what the
//	                      first group of the expression matches in it
//	doc [PATH=TEXT]...    what was printed is one JSON document that names
//	                      contract version 1; a member has this JSON text
//	signal NAME PID...    send a signal
//	gone PID...           wait until these processes are no more
//	until REGEXP FILE     wait until a file matches
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("JOBPROBE_DIR", filepath.Join(env.WorkDir, "jobs"))
			env.Defer(func() { endJobs(env.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": codeCmd, "let": letCmd, "doc": docCmd, "signal": signalCmd, "gone": goneCmd, "until": untilCmd,
		},
	})
}

// endJobs kills what the records below a directory still name.
func endJobs(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "job.json" {
			return nil
		}
		job := filepath.Dir(path)
		rec := sidecar.Store{Dir: filepath.Dir(job)}.Read(filepath.Base(job)).Record
		if rec == nil {
			return nil
		}
		for _, name := range []string{"supervisor", "process_identity"} {
			raw, _ := rec.Raw(name)
			id, err := jobprobe.ParseIdentity(raw)
			if err != nil {
				continue
			}
			if p, err := jobprobe.Open(id); err == nil {
				_ = p.Signal(syscall.SIGKILL)
				_, _ = p.Wait(context.Background()) // it writes no more
				p.Close()
			}
		}
		return nil
	})
}

func codeCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND...")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = strconv.Itoa(exit.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

func letCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: let NAME [REGEXP]")
	}
	value := strings.TrimSpace(ts.ReadFile("stdout"))
	if len(args) == 2 {
		m := regexp.MustCompile(args[1]).FindStringSubmatch(value)
		if len(m) < 2 {
			ts.Fatalf("%s does not match %s", args[1], value)
		}
		value = m[1]
	}
	if value == "" {
		ts.Fatalf("nothing was printed")
	}
	ts.Setenv(args[0], value)
}

func docCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! doc")
	}
	text := ts.ReadFile("stdout")
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("not one line: %q", text)
	}
	for _, want := range append([]string{"contract_version=1"}, args...) {
		path, want, _ := strings.Cut(want, "=")
		if got := member(ts, jsontext.Value(text), path); got != want {
			ts.Fatalf("%s is %s, want %s", path, got, want)
		}
	}
}

// member returns the text of a member, "absent" if there is none. The path is
// of names and indices, joined by dots; a last "len" is the length of an array.
func member(ts *testscript.TestScript, v jsontext.Value, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]jsontext.Value
		var array []jsontext.Value
		err := json.Unmarshal(v, &object)
		if v.Kind() == '[' {
			err = json.Unmarshal(v, &array)
		}
		ts.Check(err)
		if v.Kind() == '[' {
			if name == "len" {
				return strconv.Itoa(len(array))
			}
			i, err := strconv.Atoi(name)
			ts.Check(err)
			if i >= len(array) {
				return "absent"
			}
			v = array[i]
			continue
		}
		var ok bool
		if v, ok = object[name]; !ok {
			return "absent"
		}
	}
	return string(v)
}

func signalCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: signal NAME PID...")
	}
	for _, text := range args[1:] {
		pid, err := strconv.Atoi(text)
		if err != nil || pid <= 1 {
			ts.Fatalf("pid %q: %v", text, err)
		}
		ts.Check(syscall.Kill(pid, syscall.Signal(signalNumber(args[0]))))
	}
}

func goneCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! gone")
	}
	for _, text := range args {
		pid, err := strconv.Atoi(text)
		ts.Check(err)
		id, err := jobprobe.Identify(pid)
		if err != nil {
			continue
		}
		p, err := jobprobe.Open(id)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, err = p.Wait(ctx)
		cancel()
		p.Close()
		ts.Check(err)
	}
}

func untilCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until REGEXP FILE")
	}
	re := regexp.MustCompile(args[0])
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		data, err := os.ReadFile(ts.MkAbs(args[1]))
		if err == nil && re.Match(data) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waited in vain for %s in %s: %v\n%s", args[0], args[1], err, data)
		}
	}
}
