package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// The streams are what go test -json prints (go doc test2json), shortened.
const (
	head      = `{"Time":"2026-08-01T00:00:00Z","Action":"start","Package":"p"}` + "\n"
	passing   = `{"Action":"run","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}` + "\n" + `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}` + "\n"
	packageOK = `{"Action":"output","Package":"p","Output":"PASS\n"}` + "\n" + `{"Action":"pass","Package":"p","Elapsed":0.1}` + "\n"
	noTests   = `{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}` + "\n" + `{"Action":"skip","Package":"q","Elapsed":0}` + "\n"
	failing   = `{"Action":"run","Package":"p","Test":"TestB"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: wanted this\n"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestB","Output":"--- FAIL: TestB (0.00s)\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0}` + "\n"
	packageKO = `{"Action":"output","Package":"p","Output":"FAIL\n"}` + "\n" + `{"Action":"fail","Package":"p","Elapsed":0.1}` + "\n"
	panicking = `{"Action":"run","Package":"p","Test":"TestC"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestC","Output":"panic: index out of range\n"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestC","Output":"\tc_test.go:9 +0x1d\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestC","Elapsed":0}` + "\n"
	exiting   = `{"Action":"run","Package":"p","Test":"TestD"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestD","Output":"=== RUN   TestD\n"}` + "\n" + `{"Action":"output","Package":"p","Output":"exit status 7\n"}` + "\n" + `{"Action":"fail","Package":"p","Elapsed":0.1}` + "\n"
	unbuilt   = `{"ImportPath":"r","Action":"build-output","Output":"# r\n"}` + "\n" + `{"ImportPath":"r","Action":"build-output","Output":"r/r.go:3:1: undefined: x\n"}` + "\n" + `{"ImportPath":"r","Action":"build-fail"}` + "\n" + `{"Action":"start","Package":"r"}` + "\n" + `{"Action":"output","Package":"r","Output":"FAIL\tr [build failed]\n"}` + "\n" + `{"Action":"fail","Package":"r","Elapsed":0,"FailedBuild":"r"}` + "\n"
)

// skipping is the stream of a test that is skipped for a cause; the empty one
// is of t.SkipNow.
func skipping(test, cause string) string {
	said := ""
	if cause != "" {
		said = `{"Action":"output","Package":"p","Test":"` + test + `","Output":"    x_test.go:12: ` + cause + `\n"}` + "\n"
	}
	return `{"Action":"run","Package":"p","Test":"` + test + `"}` + "\n" +
		`{"Action":"output","Package":"p","Test":"` + test + `","Output":"=== RUN   ` + test + `\n"}` + "\n" + said +
		`{"Action":"output","Package":"p","Test":"` + test + `","Output":"--- SKIP: ` + test + ` (0.00s)\n"}` + "\n" +
		`{"Action":"skip","Package":"p","Test":"` + test + `","Elapsed":0}` + "\n"
}

const list = `# why
^TestS: no such kernel$

only the cause
`

// asMain names, in the environment, that this process is the program itself.
const asMain = "SKIPCHECK_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// check runs the program over a stream, and returns what it said and how it
// ended.
func check(t *testing.T, skips, stream string, flags ...string) (out string, code int) {
	t.Helper()
	path := filepath.Join(testproc.TempDir(t), "skips")
	if err := os.WriteFile(path, []byte(skips), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append(flags, path)...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	cmd.Stdin = strings.NewReader(stream)
	text, err := cmd.CombinedOutput()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func TestStreams(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		code   int
		say    []string // what must be said
	}{
		"all pass":       {head + passing + packageOK + noTests, 0, []string{"1 passed, 0 failed, 0 skipped", "ok\tp", "no tests\tq"}},
		"listed skip":    {head + passing + skipping("TestS", "no such kernel") + packageOK, 0, []string{"1 passed, 0 failed, 1 skipped", "skip TestS: no such kernel"}},
		"listed cause":   {head + passing + skipping("TestX/sub", "for only the cause here") + packageOK, 0, []string{"1 skipped"}},
		"other test":     {head + passing + skipping("TestSS", "no such kernel") + packageOK, 1, []string{"NOT LISTED skip TestSS: no such kernel", "1 skips are not on the list"}},
		"other cause":    {head + passing + skipping("TestS", "no such kernels") + packageOK, 1, []string{"NOT LISTED skip TestS: no such kernels"}},
		"no cause":       {head + passing + skipping("TestS", "") + packageOK, 1, []string{"NOT LISTED skip TestS:"}},
		"comment cause":  {head + passing + skipping("TestS", "# why") + packageOK, 1, []string{"NOT LISTED"}},
		"only skips":     {head + skipping("TestS", "no such kernel") + packageOK, 1, []string{"0 passed, 0 failed, 1 skipped"}},
		"failure":        {head + passing + failing + packageKO, 1, []string{"b_test.go:7: wanted this", "FAIL\tp"}},
		"panic":          {head + passing + panicking + packageKO, 1, []string{"panic: index out of range", "c_test.go:9"}},
		"exit":           {head + passing + exiting, 1, []string{"exit status 7", "FAIL\tp"}},
		"build failure":  {unbuilt + head + passing + packageOK, 1, []string{"undefined: x", "FAIL\tr"}},
		"no tests":       {noTests, 1, []string{"0 passed"}},
		"nothing at all": {"", 1, []string{"0 passed"}},
		"not JSON":       {"--- FAIL: TestA\n", 2, []string{"not the output of go test -json"}},
		"cut short":      {head + passing + `{"Action":"fa`, 2, []string{"not the output of go test -json"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := check(t, list, c.stream, "-strict")
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			for _, text := range c.say {
				if !strings.Contains(out, text) {
					t.Errorf("%q is not said", text)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// What passed is silent but for its counts.
func TestCounts(t *testing.T) {
	log := func(text string) string {
		return `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: ` + text + `\n"}` + "\n"
	}
	out, code := check(t, list, head+log("count: 7 of 9")+log("a count: 8")+log("quiet")+passing+packageOK)
	if code != 0 || !strings.HasPrefix(out, "count TestA: 7 of 9\nok\tp") {
		t.Errorf("exit status %d\n%s", code, out)
	}
}

// Without -strict an unlisted skip is said, and no failure.
func TestNotStrict(t *testing.T) {
	out, code := check(t, list, head+passing+skipping("TestS", "no such kernels")+packageOK)
	if code != 0 || !strings.Contains(out, "NOT LISTED skip TestS: no such kernels") {
		t.Errorf("exit status %d\n%s", code, out)
	}
}

// Two packages that do not build are told of once each.
func TestTwoBuildFailures(t *testing.T) {
	other := strings.NewReplacer(`"r"`, `"s"`, "# r", "# s", "r/r.go", "s/s.go", `\tr `, `\ts `, "undefined: x", "undefined: y").Replace(unbuilt)
	out, code := check(t, list, unbuilt+other+head+passing+packageOK)
	if code != 1 || strings.Count(out, "undefined: x") != 1 || strings.Count(out, "undefined: y") != 1 {
		t.Errorf("exit status %d\n%s", code, out)
	}
	if !strings.Contains(out, "1 passed, 2 failed, 0 skipped") {
		t.Errorf("two packages failed:\n%s", out)
	}
}

// A list that cannot be used is no empty list.
func TestLists(t *testing.T) {
	if out, code := check(t, "TestA: (", head+passing+packageOK); code != 2 {
		t.Errorf("a bad expression: exit status %d\n%s", code, out)
	}
	if out, code := check(t, "", head+passing+packageOK); code != 0 {
		t.Errorf("an empty list: exit status %d\n%s", code, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"no-such-list"}, {os.DevNull, "no-such-list"}} {
		cmd := exec.Command(self, args...)
		cmd.Env = append(os.Environ(), asMain+"=1")
		cmd.Stdin = strings.NewReader(head + passing + packageOK)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no-such-list") {
			t.Errorf("lists %q: %v\n%s", args, err, out)
		}
	}
}
