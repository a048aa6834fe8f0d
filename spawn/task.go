package spawn

import (
	"encoding/base64"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/jobprobe/jobprobe"
)

// task is what the supervisor is told on its standard input.
type task struct {
	Dir   string
	RunID string
	Argv  []string
	Cwd   string
	Env   []string
	// Stdin is the file that the command reads, empty for none.
	Stdin string
	// Timeout is how long the command may run, 0 for ever; Grace is the time
	// between SIGTERM and SIGKILL when it is stopped. In nanoseconds.
	Timeout int64
	Grace   int64
	// LogMax bounds the console log, 0 if nothing does.
	LogMax int64
	// Notifier tells of the end if neither record nor environment names one.
	Notifier []string
	// HideArgv keeps the command out of what is recorded.
	HideArgv bool
}

// Words and paths are bytes, which JSON cannot carry: a task's text is in
// base64.

func (t *task) writeTo(w io.Writer) error {
	return json.MarshalWrite(w, t, json.WithMarshalers(json.MarshalToFunc(encodeText)))
}

// readTask reads no further than the task.
func readTask(r io.Reader) (t task, err error) {
	err = json.UnmarshalDecode(jsontext.NewDecoder(r), &t, json.RejectUnknownMembers(true),
		json.WithUnmarshalers(json.UnmarshalFromFunc(decodeText)))
	return t, err
}

func encodeText(enc *jsontext.Encoder, text string) error {
	return enc.WriteToken(jsontext.String(base64.StdEncoding.EncodeToString([]byte(text))))
}

func decodeText(dec *jsontext.Decoder, text *string) error {
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(token.String())
	*text = string(data)
	return err
}

// reason is what may be told of an error.
func (t *task) reason(err error) string {
	if t.HideArgv {
		err = bare(err)
	}
	return err.Error()
}

// bare is the innermost error: what the system said, without what it was about.
func bare(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// report is what the supervisor answers on its standard output, once, when the
// command runs or cannot run.
type report struct {
	Identity   jobprobe.Identity `json:"identity,omitzero"`
	Supervisor jobprobe.Identity `json:"supervisor,omitzero"`
	Error      string            `json:"error,omitzero"`
	// Refused is why the record does not tell of the failure yet. The
	// supervisor goes on trying.
	Refused string `json:"refused,omitzero"`
}
