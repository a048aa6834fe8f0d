package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// configError says that the configuration file cannot be used.
type configError struct{ error }

func (e *configError) Unwrap() error { return e.error }

// advice is what to do about an error whose problem is called reason, empty if
// there is nothing, or the error says it itself.
func (c *console) advice(err error, reason string) string {
	_, config := errors.AsType[*configError](err)
	_, file := errors.AsType[*fs.PathError](err)
	switch {
	case c.command == "run " && strings.Contains(err.Error(), "unknown flag"):
		return "The command to start comes last, behind \"--\"."
	case strings.Contains(err.Error(), `"jobprobe `), errors.Is(err, jobprobe.ErrUnusablePID):
		return ""
	case config && strings.Contains(err.Error(), "JOBPROBE_"):
		return "Correct or unset that variable; README has every setting."
	case config:
		return "Correct it there, or name another file with --config; README has every setting."
	case errors.Is(err, sidecar.ErrRunID):
		return "A run id is one word, as \"jobprobe list\" shows them."
	case errors.Is(err, reap.ErrStillAlive):
		return "\"jobprobe kill\" stops a job that is alive."
	case reason == "refused" && file && c.command != "probe ":
		return "\"jobprobe doctor\" checks the store."
	}
	return strings.Replace(next(reason, anError, aRefusal, aReason), "COMMAND ", c.command, 1)
}

// next is what to do about a word of an answer, of the first of these kinds that
// has it.
func next(word string, kinds ...string) string {
	for _, kind := range kinds {
		i := slices.IndexFunc(codes, func(e code) bool { return e.Name == word && e.Kind == kind })
		if i >= 0 {
			return codes[i].Next
		}
	}
	return ""
}

// advise says what to do next, if anything, behind a complaint.
func (c *console) advise(text string) {
	if text != "" {
		fmt.Fprintln(c.err, text)
	}
}
