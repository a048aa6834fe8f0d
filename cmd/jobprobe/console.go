package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe/sidecar"
)

// console is where answers go: one document or text to out, trouble to err.
type console struct {
	out, err io.Writer
	in       io.Reader
	json     bool
	screen   screen // that out leads to
	began    time.Time
	command  string // the command's name and a space; empty if none is known
}

// document prints a struct as one JSON object that names its contract.
func (c *console) document(v any) error {
	data, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return err
	}
	head := `{"contract_version":1`
	if !bytes.Equal(data, []byte("{}")) {
		head += ","
	}
	_, err = fmt.Fprintf(c.out, "%s%s\n", head, data[1:])
	return err
}

// facts prints name and value pairs, leaving out what is not known. Nothing is
// cut: who asks for one thing wants all of it.
func (c *console) facts(pairs ...string) error {
	var rows [][]string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			rows = append(rows, []string{pairs[i] + ":", pairs[i+1]})
		}
	}
	_, err := io.WriteString(c.out, screen{colour: c.screen.colour}.layout(rows))
	return err
}

// unsynced says of a record that was written if a loss of power may undo that.
func (c *console) unsynced(id string, r sidecar.Result) {
	if r == sidecar.WrittenUnsynced {
		fmt.Fprintf(c.err, "jobprobe: the record of %s is published, its durability is not confirmed\n", id)
	}
}

// reason is a job's reason code, or else why its end is not on record.
func reason(code, refused *string) string {
	if code == nil && refused != nil {
		return "not recorded: " + *refused
	}
	return deref(code)
}

// printable replaces what could steer a terminal: records are written by
// whoever may write them.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// plain is a recorded value as text: a string without its quotes, null as
// nothing.
func plain(v jsontext.Value) string {
	if v == nil || v.Kind() == 'n' {
		return ""
	}
	if v.Kind() == '"' {
		text, _ := sidecar.NewRecord(sidecar.Field{Name: "v", Value: v}).Text("v")
		return text
	}
	v = v.Clone()
	if v.Compact() != nil {
		return ""
	}
	return string(v)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// age is how long ago a recorded time was, empty if none was recorded.
func age(v jsontext.Value, now time.Time) string {
	t, ok := sidecar.ParseTime(plain(v))
	if !ok {
		return ""
	}
	return brief(now.Sub(t))
}

// brief is a time in one unit. The clock of a record may be ahead of ours.
func brief(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// since says how long ago a job has ended, or for how long it has been what it
// is: "3m ago", "running 2h".
func since(status string, submitted, finished jsontext.Value, now time.Time) string {
	if ended := age(finished, now); ended != "" {
		return ended + " ago"
	}
	switch started := age(submitted, now); {
	case started == "":
		return ""
	case status == "running":
		return "running " + started
	default:
		return started + " ago"
	}
}
