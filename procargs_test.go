package jobprobe

import (
	"strings"
	"testing"
)

// procargs is an answer of sysctl kern.procargs2.
func procargs(argc byte, path string, words ...string) []byte {
	return []byte(string([]byte{argc, 0, 0, 0}) + path + "\x00\x00\x00\x00" + strings.Join(words, "\x00") + "\x00")
}

func TestMarkedProcargs(t *testing.T) {
	const mine = "20260101T000000Z-abc"
	for _, tt := range []struct {
		name string
		raw  []byte
		want bool
	}{
		{"ours", procargs(2, "/bin/sleep", "sleep", "60", "HOME=/", "JOBPROBE_RUN_ID="+mine, "A=b"), true},
		{"the peer's", procargs(1, "/bin/sh", "sh", "LIONAGI_MCP_JOB_RUN_ID="+mine), true},
		{"no arguments", procargs(0, "/bin/sh", "JOBPROBE_RUN_ID="+mine), true},
		{"another run", procargs(1, "/bin/sh", "sh", "JOBPROBE_RUN_ID="+mine+"x"), false},
		{"a prefix", procargs(1, "/bin/sh", "sh", "JOBPROBE_RUN_ID="+mine[:8]), false},
		{"another name", procargs(1, "/bin/sh", "sh", "OLD_JOBPROBE_RUN_ID="+mine), false},
		{"as an argument", procargs(2, "/bin/sh", "sh", "JOBPROBE_RUN_ID="+mine, "A=b"), false},
		{"behind the environment", procargs(1, "/bin/sh", "sh", "A=b", "", "JOBPROBE_RUN_ID="+mine), false},
		{"in the path", procargs(1, "JOBPROBE_RUN_ID="+mine, "sh"), false},
		{"environment withheld", procargs(1, "/bin/sh", "sh"), false},
		{"more arguments than words", procargs(200, "/bin/sh", "sh", "JOBPROBE_RUN_ID="+mine), false},
		{"empty", nil, false},
		{"count only", []byte{1, 0, 0, 0}, false},
		{"path only", []byte("\x01\x00\x00\x00/bin/sh"), false},
	} {
		if got := markedProcargs(tt.raw, mine); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	unended := []byte("\x00\x00\x00\x00/bin/sh\x00JOBPROBE_RUN_ID=" + mine)
	if markedProcargs(unended, mine) {
		t.Error("an entry that is cut short counted as whole")
	}
	if markedProcargs(procargs(1, "/bin/sh", "sh", "JOBPROBE_RUN_ID="), "") {
		t.Error("no run id counted as a marker")
	}
}

func TestProcargsEnv(t *testing.T) {
	for _, tt := range []struct {
		name string
		raw  []byte
		want string
		ok   bool
	}{
		{"two", procargs(1, "/bin/sh", "sh", "A=b", "C="), "A=b\x00C=", true},
		{"ended by an empty string", procargs(1, "/bin/sh", "sh", "A=b", "", "x=y"), "A=b", true},
		{"cut short", []byte("\x00\x00\x00\x00/bin/sh\x00A=b\x00C="), "A=b", true},
		{"cut in the first", []byte("\x00\x00\x00\x00/bin/sh\x00A=b"), "", true},
		{"none", procargs(1, "/bin/sh", "sh"), "", true},
		{"no path", []byte{0, 0, 0, 0}, "", false},
		{"too few arguments", procargs(3, "/bin/sh", "sh", "x"), "", false},
		{"nothing", nil, "", false},
	} {
		if env, ok := procargsEnv(tt.raw); string(env) != tt.want || ok != tt.ok {
			t.Errorf("%s: got %q %v, want %q %v", tt.name, env, ok, tt.want, tt.ok)
		}
	}
}
