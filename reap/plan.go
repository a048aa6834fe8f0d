package reap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jobprobe/jobprobe/sidecar"
)

// Codes of notify_delivery for a notice that cannot be attempted.
const (
	faultNotJSON  = "delivery_command_is_not_valid_json"
	faultNotList  = "delivery_command_is_not_a_list_of_strings"
	faultEmpty    = "delivery_command_is_empty"
	faultSender   = "delivery_command_needs_a_sender_and_none_was_given"
	faultNoDir    = "delivery_cwd_unavailable_at_submit"
	faultNotDir   = "delivery_cwd_is_not_a_directory"
	faultDistrust = "record_not_trusted"
)

// plan is what is to be done about the notice of one end. It is made before
// the end is written, from the record that was read then, because the file's
// owner and mode at that reading are what makes its command one of ours.
type plan struct {
	argv    []string // the command, before anything is replaced in it
	dir     string   // its working directory, empty for the caller's
	timeout time.Duration
	label   string
	target  string
	sender  string

	faults []string // why it cannot be attempted
	// own says that the faults lie with this caller: a notice that is pending
	// may be in better hands elsewhere.
	own bool
}

// owed says whether somebody is to be told, or is to find on record why
// nobody could be.
func (p *plan) owed() bool { return len(p.argv) > 0 || len(p.faults) > 0 }

// notice says what is to be done about the end of a job, from its record as it
// was read before that end. Every writer of ends asks here.
func (o Observer) notice(id string, rec *sidecar.Record, file sidecar.FileInfo) plan {
	return o.noticeOf(id, rec, file, Report{})
}

// noticeOf is notice for a report that may name command, target and sender
// itself. The record is nil if there is none.
func (o Observer) noticeOf(id string, rec *sidecar.Record, file sidecar.FileInfo, r Report) plan {
	if rec == nil {
		rec = sidecar.NewRecord()
	}
	p := plan{
		timeout: o.Notices.Timeout,
		label:   firstText(textOf(rec, "label"), textOf(rec, "kind"), "run"),
		target:  firstText(r.Target, textOf(rec, "notify_target")),
		sender:  firstText(r.Sender, textOf(rec, "notify_sender")),
	}
	if p.timeout <= 0 {
		p.timeout = noticeTimeout
	}
	ours := trusted(filepath.Dir(o.recordPath(id)), file)
	p.command(&o.Notices, rec, r.Command, ours)
	if !p.owed() || slices.Contains(p.faults, faultDistrust) {
		return p
	}
	p.enter(o.Notices.Dir, rec, ours)
	if p.sender == "" && slices.ContainsFunc(p.argv, func(word string) bool { return strings.Contains(word, "{sender}") }) {
		p.faults = append(p.faults, faultSender)
	}
	return p
}

// command chooses the command: the given one, the record's, the configured.
// An empty text in the record is none; what is no text is a fault, not none.
// With notices off, only the record's own counts: it is owed to whoever finds
// it, while a command of this caller dies with this caller.
func (p *plan) command(n *Notices, rec *sidecar.Record, given string, ours bool) {
	own, isText := rec.Text("notify_command")
	named := own != "" || !isText && !rec.Null("notify_command")
	fault := ""
	p.own = !named
	switch {
	case given != "" && !n.Off:
		p.own = true
		p.argv, fault = parseCommand(given)
	case named && !ours:
		p.own, fault = true, faultDistrust
	case named && !isText:
		fault = faultNotList
	case named:
		p.argv, fault = parseCommand(own)
	case !n.Off:
		p.argv, fault = n.Command, n.fault
	}
	if fault != "" {
		p.faults = append(p.faults, fault)
	}
}

// enter chooses the working directory: the configured one, then the one that
// a record of ours names. A relative program is looked up there, so a record
// of somebody else does not choose. A record of ours whose submit_cwd is null
// says that there was a directory and that nobody could tell which.
func (p *plan) enter(configured string, rec *sidecar.Record, ours bool) {
	p.dir = configured
	if configured == "" {
		if _, named := rec.Raw("submit_cwd"); !named || !ours {
			return
		}
		if rec.Null("submit_cwd") {
			p.faults = append(p.faults, faultNoDir)
			return
		}
		p.dir = textOf(rec, "submit_cwd")
	}
	if info, err := os.Stat(p.dir); err != nil || !info.IsDir() {
		p.faults = append(p.faults, faultNotDir)
		p.own = p.own || configured != ""
	}
}

// program is the command's first word as the record may tell it.
func (p *plan) program() sidecar.Value {
	if len(p.argv) == 0 {
		return sidecar.Null()
	}
	return sidecar.Text(p.argv[0])
}

// refusal is the notify_delivery of a notice that cannot be attempted. It is
// final, as a failure is.
func (p *plan) refusal() sidecar.Value {
	return sidecar.Object(
		sidecar.Field{Name: "attempted", Value: sidecar.Bool(false)},
		sidecar.Field{Name: "ok", Value: sidecar.Bool(false)},
		sidecar.Field{Name: "exit_code", Value: sidecar.Null()},
		sidecar.Field{Name: "error", Value: sidecar.Text(strings.Join(p.faults, ", "))},
		sidecar.Field{Name: "command", Value: p.program()},
	)
}

// textOf returns a field that is a string, and "" for any other.
func textOf(rec *sidecar.Record, name string) string {
	text, _ := rec.Text(name)
	return text
}

func firstText(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
