package docs

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// shown is one command of a document, and what the document shows of it.
type shown struct {
	*block
	line    int // in the block, after the last line of the command
	command string
	output  []string
	exact   bool // the output is shown; if not, the command must succeed
}

// commands splits a block of the shell. After a prompt, a line that begins with
// "> " goes on with the command, and any other is its output; a block without
// prompts is one command.
func commands(b *block) (list []*shown, err error) {
	if b.lang == "sh" {
		return []*shown{{block: b, command: strings.Join(b.code, "\n")}}, nil
	}
	for i, line := range b.code {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			list = append(list, &shown{block: b, line: i + 1, command: command, exact: true})
			continue
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("%s: output before the first command", b.at())
		}
		last := list[len(list)-1]
		if more, ok := strings.CutPrefix(line, "> "); ok && len(last.output) == 0 {
			last.command += "\n" + more
			last.line = i + 1
		} else {
			last.output = append(last.output, line)
		}
	}
	return list, nil
}

// needs names what a whole document cannot be run without.
var needs = regexp.MustCompile(`(?m)^<!-- needs: (.+) -->$`)

// missing is the first thing that a document needs and this machine lacks.
func missing(text string) string {
	all := []string{"bash"}
	if mark := needs.FindStringSubmatch(text); mark != nil {
		all = append(all, strings.Fields(mark[1])...)
	}
	for _, need := range all {
		if need == "root" && os.Geteuid() != 0 {
			return need
		}
		if _, err := exec.LookPath(need); need != "root" && err != nil {
			return need
		}
	}
	return ""
}

// commandsIn are the commands of a document that are run.
func commandsIn(t *testing.T, file, text string) (all []*shown) {
	t.Helper()
	list, err := blocks(file, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		if b.skip != "" || b.lang != "sh" && b.lang != "console" {
			continue
		}
		some, err := commands(b)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

// TestCommands runs the commands of each document in one shell, in the order in
// which a reader meets them, and compares what is shown with what is printed.
func TestCommands(t *testing.T) {
	for file, text := range documents(t) {
		all := commandsIn(t, file, text)
		if len(all) == 0 {
			continue
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			if lacks := missing(text); lacks != "" {
				t.Skipf("the document needs what is not here: %s", lacks)
			}
			differ := compare(all, newHome(t).session(t, all))
			for _, d := range differ {
				t.Errorf("%s: $ %s\nprinted\n%s\nand not, as shown,\n%s", d.at(), d.command, d.got, d.want)
			}
			if os.Getenv("JOBPROBE_UPDATE_DOCS") != "" {
				update(t, file, text, differ)
			}
			t.Logf("count: %d commands", len(all))
		})
	}
}

// answer is what a command printed, to both of its streams, and its status.
type answer struct {
	text   string
	status string
}

// separator ends what a command printed; its exit status follows.
const separator = "\x1e"

// session runs the commands in one shell. The shell's last status is the
// previous command's, as a reader's is.
func (h home) session(t *testing.T, all []*shown) []answer {
	t.Helper()
	var script strings.Builder
	for _, s := range all {
		fmt.Fprintf(&script, "%s\n__status=$?; printf '%s%%s%s' $__status; (exit $__status)\n", s.command, separator, separator)
	}
	// A file, which what is left running in the background may keep open.
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := h.command("bash", "-c", script.String())
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the last command's status, which is in the text
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(bytes.ReplaceAll(text, []byte(h), []byte("/home/you"))), separator)
	if len(parts) != 2*len(all)+1 {
		t.Fatalf("the shell ran %d of %d commands, and then: %s", len(parts)/2, len(all), parts[len(parts)-1])
	}
	answers := make([]answer, len(all))
	for i := range answers {
		answers[i] = answer{parts[2*i], parts[2*i+1]}
	}
	return answers
}

// vary are the parts of an output that differ from run to run and from machine
// to machine. Everything else must be as it is shown.
var vary = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)`), "<time>"},
	{regexp.MustCompile(`\b\d+[smhd]\b`), "<duration>"},
	{regexp.MustCompile(`(\b(?:pid|pgid|group|process group)"?:? *"?)\d+`), "$1<pid>"},
	{regexp.MustCompile(`,"uniq":"\d+","uniq_kind":"pidfs"`), ""}, // Linux 6.9 and later
	{regexp.MustCompile(`"(start|boot|pid_ns|time_ns|host|pid_create_time)": *("[^"]*"|[\d.]+)`), `"$1":<stamp>`},
	{regexp.MustCompile(`"(version|go|platform)":"[^"]*"`), `"$1":<build>`},
	{regexp.MustCompile(`"(commit|dirty)":("[^"]*"|null|true|false)`), `"$1":<build>`},
	// Whether an exited process was collected yet is its parent's affair.
	{regexp.MustCompile(`\b(pid_absent|disappeared_during_probe)\b`), "<gone>"},
	{regexp.MustCompile(` {2,}`), "  "}, // columns are as wide as their cells
}

var runID = regexp.MustCompile(`\b\d{8}T\d{6}-[0-9a-f]{6}\b`)

// steady is a text without what varies; runs are numbered as they are met.
func steady(text string, runs map[string]int) string {
	text = runID.ReplaceAllStringFunc(text, func(id string) string {
		if runs[id] == 0 {
			runs[id] = len(runs) + 1
		}
		return fmt.Sprintf("<run %d>", runs[id])
	})
	for _, v := range vary {
		text = v.what.ReplaceAllString(text, v.by)
	}
	return strings.TrimRight(text, "\n")
}

// difference is a command that did not do what the document says.
type difference struct {
	*shown
	printed   string
	got, want string // what does not vary of the outputs
}

// compare returns the commands that did not print what is shown, and those that
// are shown without an output and failed.
func compare(all []*shown, printed []answer) (differ []difference) {
	shownRuns, printedRuns := map[string]int{}, map[string]int{}
	for i, s := range all {
		d := difference{s, printed[i].text, printed[i].text, "exit status 0"}
		if s.exact {
			d.want = steady(strings.Join(s.output, "\n"), shownRuns)
			d.got = steady(printed[i].text, printedRuns)
		}
		if s.exact && d.got != d.want || !s.exact && printed[i].status != "0" {
			differ = append(differ, d)
		}
	}
	// A run keeps the id by which the document shows it elsewhere.
	known := map[int]string{}
	for id, n := range shownRuns {
		known[n] = id
	}
	for i := range differ {
		differ[i].printed = runID.ReplaceAllStringFunc(differ[i].printed, func(id string) string {
			return cmp.Or(known[printedRuns[id]], id)
		})
	}
	return differ
}

// update shows in a document what its commands have printed.
func update(t *testing.T, file, text string, differ []difference) {
	t.Helper()
	lines := strings.Split(text, "\n")
	for _, d := range slices.Backward(differ) {
		if !d.exact {
			continue
		}
		var output []string
		if got := strings.TrimRight(d.printed, "\n"); got != "" {
			for line := range strings.SplitSeq(got, "\n") {
				output = append(output, d.indent+line)
			}
		}
		from := d.block.line - 1 + d.line
		lines = slices.Replace(lines, from, from+len(d.output), output...)
	}
	if err := os.WriteFile(filepath.Join("..", file), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Of these commands the one that prints something else is told, the one that
// fails where nothing is shown, and no other; runs are told apart.
func TestCommandsTell(t *testing.T) {
	b := &block{file: "f", line: 1, lang: "console", code: []string{
		"$ echo 20260101T000000-aaaaaa", "20270101T000000-bbbbbb",
		"$ cat <<E", "> hi", "> E", "hi",
		"$ false", "$ echo $?", "1",
		"$ echo one", "two",
		"$ echo 20260101T000000-cccccc", "20270101T000000-bbbbbb",
	}}
	all, err := commands(b)
	if err != nil {
		t.Fatal(err)
	}
	failing, err := commands(&block{lang: "sh", code: []string{"echo a", "false"}})
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, failing...)
	var told []string
	for _, d := range compare(all, newHome(t).session(t, all)) {
		told = append(told, d.command)
	}
	want := []string{"echo one", "echo 20260101T000000-cccccc", "echo a\nfalse"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, not %q", told, want)
	}
}
