package main

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// A command line means the same whether kong is shown one command or all.
func TestOneCommandIsLikeAll(t *testing.T) {
	parts := 0
	for _, line := range []string{
		"", "run", "run -- true", "run --json true", "--json run true", "--dir x run --label run -- list", "--dir run list",
		"--dir=run list --limit 3", "--dir list run -- status", "list run", "status list run", "status", "wait a b --max-wait 3s",
		"kill --signal 9 --grace 1s id", "kill --grace nonsense id", "hook --run-id a --status completed", "hook", "lis", "run -x",
		"probe 1 --evidence", "identify 7", "output -f -n 3 id", "claims", "version", "doctor", "explain gone", "sweep --dry-run",
		"close id --attest word", "runs", "Run -- true", "run --stdin", "-- run", "--config c list",
	} {
		args := strings.Fields(line)
		options := []kong.Option{
			kong.Name("jobprobe"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}),
			kong.Vars{"grace": "", "version": ""},
		}
		var one, all cli
		got, gotErr := one.parse(args, options...)
		want, wantErr := read(&all, args, options)
		switch {
		case (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error():
			t.Errorf("%q: %v, of all %v", line, gotErr, wantErr)
		case gotErr != nil:
		case got.Command() != want.Command():
			t.Errorf("%q: %s, of all %s", line, got.Command(), want.Command())
		default:
			if len(got.Model.Children) == 1 {
				parts++
			}
			for _, f := range reflect.VisibleFields(reflect.TypeFor[cli]()) {
				a, b := reflect.ValueOf(one).FieldByName(f.Name).Interface(), reflect.ValueOf(all).FieldByName(f.Name).Interface()
				if name := commandOf(f); (name == "" || name == got.Selected().Name) && !reflect.DeepEqual(a, b) {
					t.Errorf("%q: %s is %+v, of all %+v", line, f.Name, a, b)
				}
			}
		}
	}
	if parts < 10 {
		t.Errorf("only %d command lines were read by one command", parts)
	}
}

// Every command can be shown alone.
func TestEveryCommandAlone(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[cli]()) {
		command := commandOf(f)
		if command == "" {
			continue
		}
		parser, err := kong.New(reflect.New(only(command)).Interface(), kong.Vars{"grace": "", "version": ""})
		if err != nil || len(parser.Model.Children) != 1 || parser.Model.Children[0].Name != command {
			t.Errorf("%s: %v", command, err)
		}
	}
}
