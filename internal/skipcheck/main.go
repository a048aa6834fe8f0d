// Skipcheck reads the output of go test -json, prints what failed, what was
// skipped and why, and fails if a test failed or none ran. With -strict it
// also fails if a test was skipped for a cause that no list of known skips
// holds. Each line of a list is a regular expression for "TestName: cause";
// blank lines and lines that begin with # say why.
//
// A test shows a number that is its result with t.Logf("count: ..."): such
// lines of tests that passed are printed after the test's name.
//
//	go test -json ./... | skipcheck [-strict] LIST...
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action     string
	ImportPath string // of a build, where Package is empty
	Package    string
	Test       string
	Output     string
	Elapsed    float64
}

// tally counts the tests and keeps what each has printed.
type tally struct {
	passed, failed, skipped int
	unlisted                int
	output                  map[string]*strings.Builder
	known                   []*regexp.Regexp
}

func main() {
	var known []*regexp.Regexp
	strict := len(os.Args) > 1 && os.Args[1] == "-strict"
	lists := os.Args[1:]
	if strict {
		lists = lists[1:]
	}
	for _, path := range lists {
		list, err := readList(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, "skipcheck:", err)
			os.Exit(2)
		}
		known = append(known, list...)
	}
	t := tally{known: known, output: map[string]*strings.Builder{}}
	if err := t.read(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "skipcheck:", err)
		os.Exit(2)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped)
	if t.unlisted > 0 {
		fmt.Printf("%d skips are not on the list\n", t.unlisted)
	}
	if t.failed > 0 || strict && t.unlisted > 0 || t.passed == 0 {
		os.Exit(1)
	}
}

func readList(path string) ([]*regexp.Regexp, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []*regexp.Regexp
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		re, err := regexp.Compile(line)
		if err != nil {
			return nil, err
		}
		list = append(list, re)
	}
	return list, nil
}

func (t *tally) read(in io.Reader, out io.Writer) error {
	dec := jsontext.NewDecoder(bufio.NewReaderSize(in, 1<<16))
	for {
		var e event
		err := json.UnmarshalDecode(dec, &e)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not the output of go test -json: %w", err)
		}
		t.event(&e, out)
	}
}

func (t *tally) event(e *event, out io.Writer) {
	key := e.Package + e.ImportPath + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if t.output[key] == nil {
			t.output[key] = new(strings.Builder)
		}
		t.output[key].WriteString(e.Output)
	case "build-fail": // the packages that need it fail too, and count
		fmt.Fprint(out, t.text(key))
		delete(t.output, key)
	case "pass", "fail", "skip":
		t.end(e, key, out)
		delete(t.output, key)
	}
}

// end counts a test, or prints the line of a package.
func (t *tally) end(e *event, key string, out io.Writer) {
	if e.Test == "" {
		if e.Action == "fail" {
			t.failed++
			fmt.Fprint(out, t.text(key))
		}
		fmt.Fprintf(out, "%s\t%s\t%.1fs\n", map[string]string{"pass": "ok", "fail": "FAIL", "skip": "no tests"}[e.Action], e.Package, e.Elapsed)
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
		for line := range strings.Lines(t.text(key)) {
			if count, ok := strings.CutPrefix(said(line), "count: "); ok {
				fmt.Fprintf(out, "count %s: %s\n", e.Test, count)
			}
		}
	case "fail":
		t.failed++
		fmt.Fprint(out, t.text(key))
	case "skip":
		t.skipped++
		cause := e.Test + ": " + skipCause(t.text(key))
		listed := false
		for _, re := range t.known {
			listed = listed || re.MatchString(cause)
		}
		if !listed {
			t.unlisted++
			fmt.Fprint(out, "NOT LISTED ")
		}
		fmt.Fprintf(out, "skip %s\n", cause)
	}
}

func (t *tally) text(key string) string {
	if b := t.output[key]; b != nil {
		return b.String()
	}
	return ""
}

// skipCause is what the test said: its output without the frame of go test.
func skipCause(output string) string {
	var cause []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		cause = append(cause, said(line))
	}
	return strings.Join(cause, " ")
}

// said is a line without the place in the source where it was logged.
func said(line string) string {
	line = strings.TrimSpace(line)
	if _, text, ok := strings.Cut(line, ".go:"); ok {
		_, line, _ = strings.Cut(text, ": ")
	}
	return line
}
