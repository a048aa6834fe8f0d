package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// parse reads a command line. kong looks at every flag of every command before
// it reads the first word, which would be a fifth of the time that a start
// takes: so it is first shown only the command that seems to be named. What is
// wrong with that, and what asks for help, is for all of them.
func (c *cli) parse(args []string, options ...kong.Option) (*kong.Context, error) {
	if command := named(args); command != "" {
		part := reflect.New(only(command))
		if kctx, err := read(part.Interface(), args, options); err == nil {
			for _, f := range reflect.VisibleFields(part.Elem().Type()) {
				reflect.ValueOf(c).Elem().FieldByName(f.Name).Set(part.Elem().FieldByName(f.Name))
			}
			return kctx, nil
		}
	}
	return read(c, args, options)
}

func read(grammar any, args []string, options []kong.Option) (*kong.Context, error) {
	parser, err := kong.New(grammar, options...)
	if err != nil {
		return nil, err
	}
	return parser.Parse(args)
}

// named is the first word that is a command, if no flag asks for an answer of
// kong's own.
func named(args []string) (command string) {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	for _, arg := range args {
		switch {
		case strings.HasPrefix(arg, "-h"), strings.HasPrefix(arg, "--help"), strings.HasPrefix(arg, "--version"):
			return ""
		case command == "" && isCommand(arg):
			command = arg
		}
	}
	return command
}

func isCommand(word string) bool {
	return slices.ContainsFunc(reflect.VisibleFields(reflect.TypeFor[cli]()), func(f reflect.StructField) bool {
		return commandOf(f) == word
	})
}

// commandOf is the command that a field of cli is, empty for a flag.
func commandOf(f reflect.StructField) string {
	if _, is := f.Tag.Lookup("cmd"); !is {
		return ""
	}
	return strings.ToLower(f.Name)
}

// only is cli with its flags and one command.
func only(command string) reflect.Type {
	fields := slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[cli]()), func(f reflect.StructField) bool {
		name := commandOf(f)
		return name != "" && name != command
	})
	return reflect.StructOf(fields)
}
