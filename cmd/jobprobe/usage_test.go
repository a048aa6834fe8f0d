package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// taken is the grammar of all commands, which says nothing and exits nowhere.
func taken(t *testing.T, args []string) error {
	t.Helper()
	_, err := read(new(cli), args, []kong.Option{kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}), kong.Vars{"grace": "", "version": ""}})
	return err
}

// shellWord is a word of an example: in quotes, or up to a space.
var shellWord = regexp.MustCompile(`'[^']*'|[^\s']+`)

// Every command says its exit statuses and has an example, which it would take.
func TestEveryCommandHasExamples(t *testing.T) {
	parser, err := wholeGrammar()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, command := range parser.Model.Children {
		if command.Hidden {
			continue
		}
		exits, examples := usageOf(command.Detail)
		if exits == "" || len(examples) == 0 {
			t.Errorf("%s: exit statuses %q, examples %q: its Help must return usage(...)", command.Name, exits, examples)
		}
		for _, line := range examples {
			before, rest, found := strings.Cut(line, "jobprobe "+command.Name)
			if !found {
				t.Errorf("%s: the example %q is another command's", command.Name, line)
			}
			if strings.Contains(before, "(") {
				rest = strings.TrimSuffix(rest, ")")
			}
			args := []string{command.Name}
			for _, word := range shellWord.FindAllString(rest, -1) {
				if strings.HasPrefix(word, ">") || strings.HasPrefix(word, "<") {
					break
				}
				args = append(args, strings.Trim(word, "'"))
			}
			if err := taken(t, args); err != nil {
				t.Errorf("%s: the example %q: %v", command.Name, line, err)
			}
			count++
		}
	}
	t.Logf("count: %d examples", count)
}
