package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// shelf is a directory with a program called jobprobe, a store with jobs, and files
// to complete, and the environment of a shell in it.
func shelf(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// testscript.Main runs the program that it is called as.
	if err := os.Symlink(self, filepath.Join(dir, "jobprobe")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "a-dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "JOBPROBE_DIR="+shop(t).Dir, "HOME="+dir, "TERM=dumb", "PS1=$ ")
	return dir, env
}

const first, second = "20260102T000000-bbbbbb", "20260101T000000-aaaaaa"

// completions are what the shells are asked for, and what must be among the answers
// ("-" before what must not), in whatever way a shell shows them.
var completions = []struct {
	line string
	want []string
}{
	{"jobprobe sta", []string{"status", "-list"}},
	{"jobprobe com", []string{"completion", "-complete"}},
	{"jobprobe --dir /nowhere st", []string{"status"}},
	{"jobprobe wait --an", []string{"--any", "-wait"}},
	{"jobprobe wait --max", []string{"--max-wait"}},
	{"jobprobe completion ", []string{"bash", "zsh", "fish", "powershell"}},
	{"jobprobe kill --signal K", []string{"KILL", "-TERM"}},
	{"jobprobe kill --signal=K", []string{"KILL", "-TERM"}},
	{"jobprobe kill --signal TERM 2026", []string{first, second}},
	{"jobprobe wait " + first + " 20260101", []string{second, "-" + first}},
	{"jobprobe --dir /nowhere wait 2026", []string{"-" + first}},
	{"jobprobe run --stdin a", []string{"a file"}},
	{"jobprobe run --cwd a", []string{"a-dir", "-a file"}},
	{"jobprobe run -- a", []string{"a file", "-alive"}},
	{"jobprobe explain pid_re", []string{"pid_recycled", "-pid_absent"}},
	{"jobprobe list --status r", []string{"running"}},
	{"jobprobe list --status running ", []string{"-" + first}},
}

// answers checks what a shell makes of every line.
func answers(t *testing.T, complete func(line string) []string) {
	t.Helper()
	for _, test := range completions {
		got := complete(test.line)
		for _, want := range test.want {
			unwanted, no := strings.CutPrefix(want, "-")
			if strings.HasPrefix(unwanted, "-") { // --flag
				unwanted, no = want, false
			}
			if slices.Contains(got, unwanted) == no {
				t.Errorf("%q: %q, want %q", test.line, got, test.want)
			}
		}
	}
	t.Logf("count: %d completions", len(completions))
}

func TestCompletionBash(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	dir, env := shelf(t)
	answers(t, func(line string) []string {
		// As bash splits it: = is a word of its own.
		words := strings.Fields(strings.ReplaceAll(line, "=", " = "))
		if strings.HasSuffix(line, " ") {
			words = append(words, "")
		}
		cmd := exec.Command("bash", "-c", `source <(jobprobe completion bash)
			COMP_WORDS=("$@"); COMP_CWORD=$(($#-1))
			_jobprobe jobprobe "${COMP_WORDS[COMP_CWORD]}" ""
			printf '%s\n' "${COMPREPLY[@]}"`, "bash")
		cmd.Args = append(cmd.Args, words...)
		cmd.Dir, cmd.Env, cmd.Stderr = dir, env, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	})
}

func TestCompletionFish(t *testing.T) {
	if _, err := exec.LookPath("fish"); err != nil {
		t.Skip("fish is not installed")
	}
	dir, env := shelf(t)
	answers(t, func(line string) []string {
		cmd := exec.Command("fish", "--no-config", "-c", `jobprobe completion fish | source; complete -C "$argv[1]"`, line)
		cmd.Dir, cmd.Env, cmd.Stderr = dir, env, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		for text := range strings.Lines(string(out)) {
			value, _, _ := strings.Cut(strings.TrimSpace(text), "\t")
			value = value[strings.Index(value, "=")+1:] // fish wants the flag too
			values = append(values, strings.TrimSuffix(value, "/"))
		}
		return values
	})
}

// zsh completes at a terminal only. There it is made to print the words that it
// would insert.
func TestCompletionZsh(t *testing.T) {
	if _, err := exec.LookPath("zsh"); err != nil {
		t.Skip("zsh is not installed")
	}
	dir, env := shelf(t)
	cmd := exec.Command("zsh", "-f", "-i")
	cmd.Dir, cmd.Env = dir, env
	s := &seat{Cmd: cmd, read: make(chan struct{})}
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 1000})
	if err != nil {
		t.Fatal(err)
	}
	go s.listen(tty)
	say := func(text string) {
		if _, err := tty.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	say(`PROMPT='$ '; unsetopt zle_bracketed_paste beep; autoload -Uz compinit; compinit -u -D; source <(jobprobe completion zsh)
compadd() { builtin compadd -A __hits -D __more "$@"; print -rl -- "<"${^__hits}">" >>$HOME/hits; builtin compadd "$@" }
try() { zle expand-or-complete; BUFFER=; : >$HOME/done }; zle -N try; bindkey '^I' try
echo "ready"1
`)
	s.until(t, `ready1`)
	hits := filepath.Join(dir, "hits")
	hit := regexp.MustCompile(`(?m)^<(.*)>$`)
	got := make([][]string, len(completions))
	for i, test := range completions {
		_ = os.Remove(hits)
		done := filepath.Join(dir, "done")
		say(test.line + "\t")
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if os.Remove(done) == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%q: %q", test.line, s.seen())
			}
		}
		data, _ := os.ReadFile(hits)
		var words []string
		for _, m := range hit.FindAllStringSubmatch(string(data), -1) {
			words = append(words, strings.ReplaceAll(m[1], `\ `, " "))
		}
		got[i] = words
	}
	say("exit\n")
	_ = cmd.Wait()
	<-s.read
	next := 0
	answers(t, func(string) []string { next++; return got[next-1] })
}

// What cannot be run here has at least the form of what it must do.
func TestCompletionPowerShell(t *testing.T) {
	out, err := inText(t, t.TempDir(), "completion", "powershell").Output()
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	for _, part := range []string{
		"Register-ArgumentCompleter -Native -CommandName jobprobe", "param($word, $line, $cursor)",
		`complete powershell "--word=$word" -- @before`, "[System.Management.Automation.CompletionResult]::new(",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s", part)
		}
	}
	for _, pair := range []string{"{}", "()", "[]"} {
		if opened, closed := strings.Count(text, pair[:1]), strings.Count(text, pair[1:]); opened != closed {
			t.Errorf("%d %q and %d %q", opened, pair[:1], closed, pair[1:])
		}
	}
	lines, err := program(t, shop(t).Dir, "complete", "powershell", "--word=--sig", "--", "kill").Output()
	if err != nil || !regexp.MustCompile("^--signal\tSignal to send").Match(lines) {
		t.Errorf("%v: %q", err, lines)
	}
}

// A manual page that troff has nothing against, with every command and flag.
func TestManualPage(t *testing.T) {
	out, err := inText(t, t.TempDir(), "man").Output()
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	parser, err := wholeGrammar()
	if err != nil {
		t.Fatal(err)
	}
	unquoted := strings.ReplaceAll(text, `\-`, "-")
	count := 0
	for _, command := range parser.Model.Children {
		if shown := strings.Contains(unquoted, `.SS "`+command.Name); shown == command.Hidden {
			t.Errorf("%s: shown %v, hidden %v", command.Name, shown, command.Hidden)
		}
		for _, f := range command.Flags {
			if count++; !command.Hidden && !strings.Contains(unquoted, "--"+f.Name) {
				t.Errorf("%s: no --%s", command.Name, f.Name)
			}
		}
	}
	for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"} {
		if !strings.Contains(text, `.SH "`+section+`"`) {
			t.Errorf("no section %s", section)
		}
	}
	request := regexp.MustCompile(`(?m)^[.'](TH|SH|SS|TP|PP|B|RS|RE|EX|EE)\b`)
	for line := range strings.Lines(text) {
		if (line[0] == '.' || line[0] == '\'') && !request.MatchString(line) {
			t.Errorf("no request: %q", line)
		}
	}
	t.Logf("count: %d flags in the manual", count)
	for _, tool := range [][]string{{"groff", "-man", "-ww", "-z"}, {"mandoc", "-T", "lint", "-W", "warning"}} {
		t.Run(tool[0], func(t *testing.T) {
			if _, err := exec.LookPath(tool[0]); err != nil {
				t.Skip(tool[0] + " is not installed")
			}
			cmd := exec.Command(tool[0], tool[1:]...)
			// A test binary has no day.
			cmd.Stdin = strings.NewReader(strings.Replace(text, `"1" ""`, `"1" "2026-01-02"`, 1))
			if said, err := cmd.CombinedOutput(); err != nil || len(said) > 0 {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
}
