package jobprobe

import (
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sources returns the package's own files, those for other systems included.
func sources(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			own = append(own, file)
		}
	}
	if len(own) < 10 {
		t.Fatalf("only %d files in sight", len(own))
	}
	return own
}

// No probe runs another program: where that is forbidden or the program is
// missing or slow, its silence would read as an absence.
func TestCaseE1(t *testing.T) {
	for _, file := range sources(t) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			switch path, _ := strconv.Unquote(imp.Path.Value); path {
			case "os/exec", "C", "plugin":
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}

// Signals refused, yet the process table shows the process.
func TestCaseE2(t *testing.T) {
	l := macLook{raw: running4711().raw(), kill: killEPERM}
	if got := l.find(new(Evidence)); got != IdentityConfirmed || got.Conclusion() != Alive {
		t.Errorf("got %v", got)
	}
}

// Every system has exactly one probe, so that none goes on without one.
func TestCaseE3(t *testing.T) {
	for goos, want := range map[string]string{
		"linux": "probe_linux.go", "android": "probe_linux.go",
		"darwin": "probe_darwin.go", "ios": "probe_darwin.go",
		"windows": "probe_windows.go",
		"freebsd": "probe_other.go", "openbsd": "probe_other.go", "netbsd": "probe_other.go",
		"dragonfly": "probe_other.go", "solaris": "probe_other.go", "aix": "probe_other.go",
	} {
		ctx := build.Default
		ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = goos, "amd64", false
		var got []string
		for _, file := range sources(t) {
			if !strings.HasPrefix(file, "probe_") {
				continue
			}
			if ok, err := ctx.MatchFile(".", file); err != nil {
				t.Fatal(err)
			} else if ok {
				got = append(got, file)
			}
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s is probed by %q, want %s", goos, got, want)
		}
	}
	// What an unsupported system answers is no conclusion, whatever it saw.
	if got := UnsupportedPlatform.Conclusion(); got != Unknown {
		t.Errorf("unsupported_platform concludes %v", got)
	}
}

// The sandbox refuses the process table, and kill(2) of another user's
// process: held or not, it proves nothing.
func TestCaseE6(t *testing.T) {
	for _, kill := range []uint32{killOK, killEPERM} {
		l := macLook{errno: killEPERM, kill: kill}
		if got := l.find(new(Evidence)); got != AccessDenied || got.Conclusion() != Unknown {
			t.Errorf("kill errno %d: got %v", kill, got)
		}
	}
}

// EINVAL from the process table, while kill(2) finds somebody.
func TestCaseE7(t *testing.T) {
	l := macLook{errno: 22, kill: killOK}
	if got := l.find(new(Evidence)); got != IdentityUnreadable || got.Conclusion() != Unknown {
		t.Errorf("got %v", got)
	}
}

// One process has one identity, however often it is read (also B11).
func TestCaseE8(t *testing.T) {
	first, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if again, err := Identify(os.Getpid()); err != nil || again != first {
			t.Fatalf("reading %d: got %+v, %v; want %+v", i, again, err, first)
		}
	}
}

// A start time is the value stored at fork, whatever the clocks say now: the
// bytes are read, and no clock is.
func TestCaseB21(t *testing.T) {
	p := running4711()
	p.sec = 1 // the clock was not set yet when it started
	k, ok := parseKinfo(p.raw())
	if !ok || k.start != 1_000_000+macUsec {
		t.Fatalf("got %+v %v", k, ok)
	}
	id := Identity{PID: macPID, Start: k.start}
	seen, _ := macLook{raw: p.raw()}.observe()
	if got := classify(&id, relation{start: true}, &seen, new(Evidence)); got != IdentityConfirmed {
		t.Errorf("got %v", got)
	}
}
