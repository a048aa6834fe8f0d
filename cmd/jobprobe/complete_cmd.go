package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
	"github.com/jobprobe/jobprobe/spawn"
)

// completeCmd prints what can stand where the cursor is, a line each, or :file or
// :dir for the shell to find. It is for the scripts of "jobprobe completion".
type completeCmd struct {
	Shell  string   `arg:"" enum:"bash,zsh,fish,powershell"`
	Word   string   `help:"What is there of the word already."`
	Before []string `arg:"" optional:"" help:"The words before it."`
}

func (cmd *completeCmd) Run(c *console, obs *reap.Observer) error {
	parser, err := wholeGrammar()
	if err != nil {
		return err
	}
	at := place{app: parser.Model}
	for _, word := range cmd.Before {
		at.pass(word)
	}
	if at.dir != "" {
		obs.Store.Dir = at.dir
	}
	for _, s := range at.suggest(cmd.Word, &obs.Store) {
		if _, err := fmt.Fprintln(c.out, s.text(cmd.Shell)); err != nil {
			return err
		}
	}
	return nil
}

// wholeGrammar is the parser of all commands, for those that tell of it.
func wholeGrammar() (*kong.Kong, error) {
	return kong.New(new(cli), kong.Name("jobprobe"), kong.Description(description),
		kong.Vars{"grace": spawn.DefaultGrace.String(), "version": version()})
}

// place is where in a command line the cursor is.
type place struct {
	app     *kong.Application
	command *kong.Node
	pending *kong.Flag // its value comes next
	dashes  bool       // "--" was there
	args    int        // of the command
	dir     string     // value of --dir
}

// pass takes in a word that stands before the cursor.
func (p *place) pass(word string) {
	name, value, assigned := strings.Cut(word, "=")
	switch {
	case word == "=" && p.pending != nil: // bash has it as a word
	case p.pending != nil:
		p.assign(p.pending, word)
		p.pending = nil
	case p.dashes:
		p.args++
	case word == "--":
		p.dashes = true
	case strings.HasPrefix(word, "-"):
		f := p.flag(name)
		if f != nil && assigned {
			p.assign(f, value)
		} else if f != nil && !f.IsBool() {
			p.pending = f
		}
	case p.command == nil:
		i := slices.IndexFunc(p.app.Children, func(n *kong.Node) bool { return n.Name == word })
		if i >= 0 {
			p.command = p.app.Children[i]
		}
	default:
		p.args++
	}
}

func (p *place) assign(f *kong.Flag, value string) {
	if f.Name == "dir" {
		p.dir = value
	}
}

// flags are those that can be given here.
func (p *place) flags() []*kong.Flag {
	flags := slices.Clone(p.app.Flags)
	if p.command != nil {
		flags = append(slices.Clone(p.command.Flags), flags...)
	}
	return slices.DeleteFunc(flags, func(f *kong.Flag) bool { return f.Hidden })
}

func (p *place) flag(word string) *kong.Flag {
	flags := p.flags()
	i := slices.IndexFunc(flags, func(f *kong.Flag) bool {
		return word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)
	})
	if i < 0 {
		return nil
	}
	return flags[i]
}

// suggestion is a word that can stand at the cursor.
type suggestion struct {
	flag  string // "--flag=", if the word is that flag's value
	value string
	about string
}

// text is the line for a shell: those that take a flag apart want the value alone.
func (s suggestion) text(shell string) string {
	about := printable(s.about)
	switch {
	case strings.HasPrefix(s.value, ":"), shell == "bash":
		return s.value
	case shell == "zsh" && about == "":
		return strings.ReplaceAll(s.value, ":", `\:`)
	case shell == "zsh":
		return strings.ReplaceAll(s.value, ":", `\:`) + ":" + about
	case about == "":
		return s.flag + s.value
	}
	return s.flag + s.value + "\t" + about
}

// suggest lists what can stand where the cursor is and begins with word.
func (p *place) suggest(word string, store *sidecar.Store) (list []suggestion) {
	flag := ""
	switch name, value, assigned := strings.Cut(word, "="); {
	case p.pending != nil:
		list = valuesOf(p.pending.Value, p.pending.PlaceHolder, store)
	case assigned && !p.dashes && strings.HasPrefix(word, "--"):
		f := p.flag(name)
		if f == nil {
			return nil
		}
		flag, word = name+"=", value
		list = valuesOf(f.Value, f.PlaceHolder, store)
	case strings.HasPrefix(word, "-") && !p.dashes:
		for _, f := range p.flags() {
			list = append(list, suggestion{value: "--" + f.Name, about: f.Help})
		}
	case p.command == nil:
		for _, n := range p.app.Children {
			if !n.Hidden {
				list = append(list, suggestion{value: n.Name, about: n.Help})
			}
		}
	case len(p.command.Positional) > 0:
		last := p.command.Positional[len(p.command.Positional)-1]
		switch {
		case p.args < len(p.command.Positional):
			list = valuesOf(p.command.Positional[p.args], "", store)
		case last.IsCumulative():
			list = valuesOf(last, "", store)
		}
	}
	list = slices.DeleteFunc(list, func(s suggestion) bool {
		return !strings.HasPrefix(s.value, word) && !strings.HasPrefix(s.value, ":")
	})
	for i := range list {
		list[i].flag = flag
	}
	return list
}

// valuesOf lists what a flag or an argument can be, as its declaration has it: an
// enumeration of kong's, a "complete" tag of usual values, or else what its
// placeholder or name stands for.
func valuesOf(v *kong.Value, placeholder string, store *sidecar.Store) (list []suggestion) {
	usual := v.Enum
	if usual == "" {
		usual = v.Tag.Get("complete")
	}
	switch {
	case usual != "":
		for value := range strings.SplitSeq(usual, ",") {
			list = append(list, suggestion{value: value})
		}
	case placeholder == "FILE", v.Name == "command":
		list = []suggestion{{value: ":file"}}
	case placeholder == "DIR":
		list = []suggestion{{value: ":dir"}}
	case placeholder == "RUN_ID", v.Name == "run-id":
		list = runIDs(store)
	case v.Name == "code":
		for _, c := range codes {
			list = append(list, suggestion{value: c.Name, about: c.Meaning})
		}
	}
	return list
}

// mostDescribed is how many run ids are described, the newest. Nothing is
// observed for that: the record's word has to do.
const mostDescribed = 100

func runIDs(store *sidecar.Store) (list []suggestion) {
	ids, _ := store.IDs()
	for i, id := range ids {
		s := suggestion{value: id}
		if i < mostDescribed {
			s.about = described(store.Read(id).Record)
		}
		list = append(list, s)
	}
	return list
}

// described is what a record says of its job, in a few words.
func described(rec *sidecar.Record) string {
	if rec == nil {
		return "damaged"
	}
	state, _ := rec.Text("status")
	label, _ := rec.Text("label")
	return strings.TrimSpace(state + " " + label)
}
