package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"github.com/jobprobe/jobprobe"
)

type probeCmd struct {
	PID      string `arg:"" optional:"" name:"pid" help:"Process number, if no identity was kept."`
	Identity string `placeholder:"FILE" help:"File with the identity that was kept; - reads standard input."`
	Evidence bool   `help:"Print the receipt: what was asked and what the system answered."`
}

func (*probeCmd) Help() string {
	return usage("0 alive; 3 process_gone; 4 unknown; 1 no identity to be read.",
		"jobprobe probe --identity me.json",
		"jobprobe probe --identity - --evidence <me.json",
		"jobprobe probe 4711")
}

// verdict is the document of a probe. The pid is a string, as in identities.
type verdict struct {
	PID        string              `json:"pid"`
	Alive      bool                `json:"alive"`
	Conclusion jobprobe.Conclusion `json:"liveness_conclusion"`
	Finding    jobprobe.Finding    `json:"finding"`
	Problem    string              `json:"identity_problem,omitzero"`
	Evidence   *jobprobe.Evidence  `json:"evidence,omitzero"`
}

// maxIdentity bounds an identity file; a real one has about 300 bytes.
const maxIdentity = 64 << 10

func (cmd *probeCmd) Run(c *console) error {
	id, problem, err := cmd.identity(c.in)
	if err != nil {
		return err
	}
	live := jobprobe.Probe(id)
	v := verdict{
		PID: strconv.FormatInt(id.PID, 10), Alive: live.Alive,
		Conclusion: live.Conclusion, Finding: live.Finding,
	}
	if problem != nil {
		v.Problem = problem.Error()
	}
	if cmd.Evidence {
		v.Evidence = &live.Evidence
	}
	if err := cmd.print(c, &v); err != nil {
		return err
	}
	switch live.Conclusion {
	case jobprobe.Alive:
		return nil
	case jobprobe.ProcessGone:
		return status(exitGone)
	case jobprobe.Unknown:
	}
	return status(exitUnknown)
}

// identity returns what to probe. A problem is a field that cannot be used;
// the verdict then shows what is left.
func (cmd *probeCmd) identity(stdin io.Reader) (id jobprobe.Identity, problem *jobprobe.IdentityError, err error) {
	switch {
	case (cmd.PID == "") == (cmd.Identity == ""):
		return id, nil, &failure{exitUsage, errors.New("give either a pid or --identity")}
	case cmd.Identity == "":
		return jobprobe.Identity{PID: number(cmd.PID)}, nil, nil
	}
	if cmd.Identity != "-" {
		f, err := os.Open(cmd.Identity)
		if err != nil {
			return id, nil, err
		}
		defer f.Close()
		stdin = f
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxIdentity+1))
	if err != nil {
		return id, nil, err
	}
	if len(data) > maxIdentity {
		return id, nil, fmt.Errorf("an identity has at most %d bytes", maxIdentity)
	}
	id, err = jobprobe.ParseIdentity(data)
	if problem, ok := errors.AsType[*jobprobe.IdentityError](err); ok {
		return id, problem, nil
	}
	return id, nil, err
}

// number reads a pid; what is no number becomes one that no process has.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	if err != nil {
		return math.MaxInt64
	}
	return n
}

func (cmd *probeCmd) print(c *console, v *verdict) error {
	if c.json {
		return c.document(v)
	}
	if v.Problem != "" {
		fmt.Fprintln(c.err, "jobprobe:", v.Problem)
	}
	if _, err := fmt.Fprintf(c.out, "%s (%s)\n", v.Conclusion, v.Finding); err != nil || v.Evidence == nil {
		return err
	}
	receipt, err := v.Evidence.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s\n", receipt)
	return err
}
