package reap

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// noticeTimeout is how long a notifier may run if nothing else is said.
const noticeTimeout = 30 * time.Second

// Notices says how an Observer tells somebody that a job has ended: it runs a
// command. A record may name one (notify_command), which is run only if the
// record speaks for the caller: job.json belongs to the caller's effective
// user, its directory, which is no symbolic link, to the same user or to root,
// and neither may be written by a group or by everyone. On Windows, owner and
// access list must say the same. A record that does not speak for the caller
// is ended all the same, and its notify_delivery says record_not_trusted.
//
// The command is a list of words and is never given to a shell. In each word
// {run_id}, {status}, {label}, {target}, {sender} and {reason_code} are
// replaced, once: what was put in is not looked at again. The command reads
// the same fields as one JSON object from its standard input. It runs in a
// session of its own, with the caller's environment and, if there is a sender,
// JOBPROBE_NOTIFY_SENDER and LIONAGI_NOTIFY_SENDER. What it prints is sorted
// into a failure_class and then dropped.
//
// There is at most one attempt for each end, by whomever. It is on record
// before it is made, so a program that dies in between leaves "attempted,
// outcome unknown", and nobody tries again.
type Notices struct {
	// Command is for jobs whose record names none. If it is empty too, nobody
	// is told of their end.
	Command []string
	// Dir is the working directory of every notifier. If it is empty, that is
	// the record's submit_cwd where the record speaks for the caller, and else
	// the caller's own.
	Dir string
	// Timeout is how long a notifier may run before its process group is
	// killed; 0 is 30 seconds.
	Timeout time.Duration
	// Off keeps the Observer from running anything. The notice of an end for
	// which the record names a command is left to another observer.
	Off bool
	// Leave is called, if it is set, with each job of which a notice is to be
	// delivered, instead of delivering it: the notice stays pending on record,
	// and the next Observer without Leave that looks at the job delivers it. It
	// may be called by several goroutines at once.
	Leave func(id string)

	fault string // why Command cannot be used
}

// NoticesFromEnv takes the command, a JSON list of strings, from
// JOBPROBE_NOTIFY_COMMAND, and the working directory from JOBPROBE_NOTIFY_CWD;
// from LIONAGI_MCP_NOTIFY_COMMAND and LIONAGI_MCP_NOTIFY_CWD where these are
// empty.
//
// The error says that the command cannot be used. The Notices can: each end
// that would have run the command records why it could not.
func NoticesFromEnv(getenv func(string) string) (Notices, error) {
	either := func(name string) (variable, value string) {
		if variable, value = "JOBPROBE_"+name, getenv("JOBPROBE_"+name); value == "" {
			variable, value = "LIONAGI_MCP_"+name, getenv("LIONAGI_MCP_"+name)
		}
		return variable, value
	}
	var n Notices
	_, n.Dir = either("NOTIFY_CWD")
	variable, text := either("NOTIFY_COMMAND")
	if text == "" {
		return n, nil
	}
	if n.Command, n.fault = parseCommand(text); n.fault != "" {
		return n, fmt.Errorf("%s: %s", variable, n.fault)
	}
	return n, nil
}

// parseCommand reads a JSON list of strings. The fault is a code.
func parseCommand(text string) (argv []string, fault string) {
	list := jsontext.Value(text)
	if !list.IsValid() {
		return nil, faultNotJSON
	}
	var words []any
	if list.Kind() != '[' || json.Unmarshal(list, &words) != nil {
		return nil, faultNotList
	}
	for _, word := range words {
		text, ok := word.(string)
		if !ok {
			return nil, faultNotList
		}
		argv = append(argv, text)
	}
	if len(argv) == 0 {
		return nil, faultEmpty
	}
	return argv, ""
}
