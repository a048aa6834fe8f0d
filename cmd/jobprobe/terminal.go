package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// screen is what is known of the terminal that a stream leads to; the zero
// screen is none, or one that can do nothing but print lines.
type screen struct {
	width  int  // columns, 0 where nothing need fit
	height int  // rows
	steers bool // it takes escape sequences
	colour bool
}

// screenOf looks at a stream. TERM=dumb is a terminal that is only as wide as it
// is, and NO_COLOR (https://no-color.org) leaves everything but the colours.
func screenOf(stream io.Writer) screen {
	file, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return screen{}
	}
	var s screen
	if width, height, err := term.GetSize(int(file.Fd())); err == nil {
		s.width, s.height = width, height
	}
	s.steers = os.Getenv("TERM") != "dumb" && takesEscapes(file)
	s.colour = s.steers && os.Getenv("NO_COLOR") == ""
	return s
}

// What a terminal is told.
const (
	eraseLine  = "\r\x1b[K"             // the line that the cursor is on
	home       = "\x1b[H"               // to the upper left
	eraseRight = "\x1b[K"               // what is right of the cursor
	eraseBelow = "\x1b[J"               // what is right of it and below
	otherPage  = "\x1b[?1049h\x1b[?25l" // an empty page without a cursor, apart from what scrolls
	firstPage  = "\x1b[?25h\x1b[?1049l" // back to what was there
	normal     = "\x1b[m"
)

// Colours of states: those of a terminal's own palette that are legible on
// light and on dark.
const (
	good   = "\x1b[32m"
	bad    = "\x1b[31m"
	doubt  = "\x1b[33m"
	moving = "\x1b[36m"
)

// colours are those of the words of answers which say how something stands.
var colours = map[string]string{
	"completed": good, "succeeded": good, "ok": good, "free": good,
	"failed": bad, "damaged": bad, "unreadable": bad, "wrong_shape": bad, "too_new": bad, "unusable": bad, "not recorded": bad,
	"exited": doubt, "indeterminate": doubt, "unknown": doubt, "warning": doubt, "timed_out": doubt, "unresolved": doubt,
	"cancelled": doubt, "killed": doubt, "remaining": doubt,
	"running": moving, "ending": moving, "held": moving,
}
