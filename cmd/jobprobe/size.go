package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// size is a number of bytes, given as such or with a unit of 1024: k, M, G.
type size int64

// Decode takes the next argument.
func (s *size) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("size")
	if err != nil {
		return err
	}
	*s, err = parseSize(token.String())
	return err
}

func parseSize(text string) (size, error) {
	digits, unit := text, int64(1)
	if i := strings.IndexAny(text, "kKMG"); i >= 0 && i == len(text)-1 {
		digits = text[:i]
		unit = map[byte]int64{'k': 1 << 10, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}[text[i]]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size, as 65536, 64k, 10M or 1G are", text)
	}
	return size(n * unit), nil
}
