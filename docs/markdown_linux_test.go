package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a piece of code in a document.
type block struct {
	file   string
	line   int // of its first line of code, from 1
	indent string
	lang   string
	code   []string
	skip   string // why it is not run; empty if it is
}

func (b *block) at() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

// notRun marks the block after it as one that a test cannot run.
var notRun = regexp.MustCompile(`^<!-- not run: (.+) -->$`)

// blocks reads the fenced and the indented blocks of a document. An indented
// one is of the shell.
func blocks(file, text string) (list []*block, err error) {
	skip := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		b := &block{file: file, line: i + 1, skip: skip}
		switch mark := notRun.FindStringSubmatch(line); {
		case mark != nil:
			skip = mark[1]
			continue
		case strings.TrimSpace(line) == "":
			continue
		case strings.HasPrefix(line, "```"):
			end := slices.Index(lines[i+1:], "```")
			if end < 0 {
				return nil, fmt.Errorf("%s: the block has no end", b.at())
			}
			b.line++
			b.lang, b.code = line[3:], lines[i+1:i+1+end]
			i += end + 1
		case strings.HasPrefix(line, "    ") && (i == 0 || strings.TrimSpace(lines[i-1]) == ""):
			b.lang, b.indent = "sh", "    "
			for ; i < len(lines) && strings.HasPrefix(lines[i], b.indent); i++ {
				b.code = append(b.code, lines[i][len(b.indent):])
			}
			i--
		default:
			if skip != "" {
				return nil, fmt.Errorf("%s: the mark before it is not followed by a block", b.at())
			}
			continue
		}
		if b.lang == "sh" && strings.HasPrefix(b.code[0], "$ ") {
			b.lang = "console"
		}
		skip = ""
		list = append(list, b)
	}
	return list, nil
}

// documents are README.md and all below docs, by their paths from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../README.md", "*.md", "*/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Join("docs", path)] = string(text)
		}
	}
	return all
}

// understood are the languages that a test runs, compiles or reads.
var understood = []string{"console", "sh", "go", "python", "toml"}

// Every block is understood, and the ones that are not run say why.
func TestBlocks(t *testing.T) {
	count := 0
	for file, text := range documents(t) {
		list, err := blocks(file, text)
		if err != nil {
			t.Error(err)
		}
		for _, b := range list {
			if !slices.Contains(understood, b.lang) {
				t.Errorf("%s: nothing here understands a block of %q", b.at(), b.lang)
			}
			if b.skip != "" {
				t.Logf("count: not run: %s (%s)", b.at(), b.skip)
			}
			count++
		}
	}
	t.Logf("count: %d blocks", count)
}

// What is no block, or an open one, is told.
func TestBlocksOfMarkdown(t *testing.T) {
	got, err := blocks("f", "a\n\n    $ echo 1\n    1\n\n<!-- not run: why -->\n\n```toml\na = 1\n```\nb\n    no block\n")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, b := range got {
		seen = append(seen, fmt.Sprintf("%s %s %q %s", b.at(), b.lang, b.code, b.skip))
	}
	want := []string{`f:3 console ["$ echo 1" "1"] `, `f:9 toml ["a = 1"] why`}
	if !slices.Equal(seen, want) {
		t.Errorf("got  %q\nwant %q", seen, want)
	}
	for _, bad := range []string{"```go\npackage p\n", "<!-- not run: why -->\ntext\n"} {
		if _, err := blocks("f", bad); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)\)`)

// Every file that a document names by a link is there.
func TestLinks(t *testing.T) {
	count := 0
	for file, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			count++
		}
	}
	if count == 0 {
		t.Error("no links were found")
	}
	t.Logf("count: %d links", count)
}
