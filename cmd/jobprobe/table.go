package main

import (
	"io"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

const (
	ellipsis = "…"
	between  = 2 // columns of space
	// narrow is what a column is never cut below.
	narrow = 8
)

// table prints rows in aligned columns, by the width that characters have on a
// screen. On a terminal a row takes one line: what is too wide is cut, first
// in the columns named, in this order (the last, if none is), then at the
// right. Elsewhere nothing is cut.
func (c *console) table(rows [][]string, cut ...int) error {
	_, err := io.WriteString(c.out, c.screen.layout(rows, cut...))
	return err
}

func (s screen) layout(rows [][]string, cut ...int) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], displaywidth.String(row[i]))
		}
	}
	if len(cut) == 0 {
		cut = []int{len(widths) - 1}
	}
	s.shrink(widths, cut)
	var text strings.Builder
	for _, row := range rows {
		s.line(&text, row, widths)
	}
	return text.String()
}

// shrink takes from columns what a line is too wide by.
func (s screen) shrink(widths, cut []int) {
	if s.width == 0 || len(widths) == 0 {
		return
	}
	excess := between*(len(widths)-1) - s.width
	for _, width := range widths {
		excess += width
	}
	for _, i := range cut {
		less := max(0, min(excess, widths[i]-narrow))
		widths[i] -= less
		excess -= less
	}
}

func (s screen) line(text *strings.Builder, row []string, widths []int) {
	left := s.width
	gap := 0 // space that is due before the next cell with something in it
	for i, cell := range row {
		width := widths[i]
		if s.width > 0 {
			width = min(width, left-gap)
			if width <= 0 {
				break
			}
			cell = displaywidth.TruncateString(cell, width, ellipsis)
		}
		taken := displaywidth.String(cell)
		if cell != "" {
			text.WriteString(strings.Repeat(" ", gap))
			left -= gap + taken
			gap = 0
			s.paint(text, cell)
		}
		gap += widths[i] - taken + between
	}
	text.WriteByte('\n')
}

// paint writes a word in the colour of what it says, where there are colours.
func (s screen) paint(text *strings.Builder, word string) {
	colour := colours[word]
	if !s.colour || colour == "" {
		text.WriteString(word)
		return
	}
	text.WriteString(colour + word + normal)
}
