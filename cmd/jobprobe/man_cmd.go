package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// manCmd prints jobprobe(1), for whoever packages the program.
type manCmd struct{}

func (*manCmd) Run(c *console) error {
	parser, err := wholeGrammar()
	if err != nil {
		return err
	}
	page := manual(parser.Model)
	if c.json {
		return c.document(struct {
			Page string `json:"page"`
		}{page})
	}
	_, err = io.WriteString(c.out, page)
	return err
}

// manPage is a manual page in man(7)'s macros.
type manPage struct{ strings.Builder }

// roff quotes what troff would take for its own.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

func (p *manPage) macro(name string, words ...string) {
	p.WriteString("." + name)
	for _, word := range words {
		p.WriteString(` "` + strings.ReplaceAll(roff.Replace(word), `"`, `\(dq`) + `"`)
	}
	p.WriteByte('\n')
}

// text prints a line that no dot at its beginning makes a request.
func (p *manPage) text(line string) {
	line = roff.Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	p.WriteString(line + "\n")
}

// item prints a term and what is said of it.
func (p *manPage) item(term, about string) {
	p.macro("TP")
	p.macro("B", term)
	p.text(about)
}

func (p *manPage) examples(lines []string) {
	p.WriteString(".PP\n.RS 4\n.EX\n")
	for _, line := range lines {
		p.text(line)
	}
	p.WriteString(".EE\n.RE\n")
}

func (p *manPage) flags(flags []*kong.Flag) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		term := "--" + f.Name
		if !f.IsBool() {
			term += "=" + f.FormatPlaceHolder()
		}
		if f.Short != 0 {
			term = "-" + string(f.Short) + ", " + term
		}
		p.item(term, f.Help)
	}
}

// manual is jobprobe(1), as the grammar has it.
func manual(app *kong.Application) string {
	var p manPage
	p.macro("TH", "JOBPROBE", "1", built(), "jobprobe "+version(), "User Commands")
	p.macro("SH", "NAME")
	p.text("jobprobe - tell whether a background process is really gone, and how it ended")
	p.macro("SH", "SYNOPSIS")
	p.macro("B", "jobprobe")
	p.text("COMMAND [flags] [arguments]")
	p.macro("SH", "DESCRIPTION")
	for i, paragraph := range strings.Split(app.Help, "\n\n") {
		if i > 0 {
			p.macro("PP")
		}
		p.text(paragraph)
	}
	p.macro("SH", "OPTIONS")
	p.flags(app.Flags)
	p.macro("SH", "COMMANDS")
	for _, command := range app.Children {
		if !command.Hidden {
			p.command(command)
		}
	}
	p.macro("SH", "EXIT STATUS")
	for _, s := range exitMeanings {
		p.item(fmt.Sprint(s.code), s.meaning)
	}
	p.macro("SH", "ENVIRONMENT")
	p.environment(app)
	p.macro("SH", "FILES")
	for _, file := range [][2]string{
		{"$XDG_STATE_HOME/jobprobe/jobs/RUN_ID/", "A job: its record job.json, the record's lock job.lock, and console.log, what it has printed. On Windows %LocalAppData%\\jobprobe\\jobs."},
		{"$XDG_CONFIG_HOME/jobprobe/jobprobe.toml", "The configuration, where there is one."},
	} {
		p.item(file[0], file[1])
	}
	p.macro("SH", "EXAMPLES")
	p.text("Start a job, wait for it, and see what it has printed:")
	p.examples([]string{"id=$(jobprobe run -- make -j8)", "jobprobe wait $id", "jobprobe output $id"})
	p.macro("SH", "SEE ALSO")
	p.text("\"jobprobe COMMAND --help\" has the same of one command; \"jobprobe explain\" has the words of answers.")
	return p.String()
}

func (p *manPage) command(command *kong.Node) {
	exits, examples := usageOf(command.Detail)
	p.macro("SS", strings.TrimPrefix(command.Summary(), "jobprobe "))
	p.text(command.Help)
	for _, arg := range command.Positional {
		p.item(arg.Summary(), arg.Help)
	}
	p.flags(command.Flags)
	p.macro("PP")
	p.text("Exit status: " + exits)
	p.examples(examples)
}

// environment lists the variables of the flags, and those that have no flag.
func (p *manPage) environment(app *kong.Application) {
	flags := slices.Clone(app.Flags)
	for _, command := range app.Children {
		flags = append(flags, command.Flags...)
	}
	for _, f := range flags {
		for _, name := range f.Envs {
			p.item(name, "The value of --"+f.Name+" where that is not given.")
		}
	}
	p.item("JOBPROBE_NOTIFY_COMMAND", "Command to run when a job has ended that names none, as a JSON list of words.")
	p.item("NO_COLOR, TERM=dumb", "No colours.")
}

// built is the day of the sources, so that the page is the same at every build; empty
// where the build recorded none.
func built() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			day, _, _ := strings.Cut(s.Value, "T")
			return day
		}
	}
	return ""
}
