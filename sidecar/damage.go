package sidecar

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// DamagedError says why bytes are no record.
type DamagedError struct {
	// State is Unreadable for what is no JSON text, and WrongShape for a JSON
	// text that is no object.
	State State
	// Offset is the number of bytes before what is damaged: a character, a
	// string with bad UTF-8 or a bad escape in it, the second of two equal
	// keys. Of a text that breaks off it is the length.
	Offset int64
	// Reason is one phrase; it quotes at most a character, an escape sequence
	// or the beginning of a key.
	Reason string
}

func (e *DamagedError) Error() string {
	return "record damaged at byte " + strconv.FormatInt(e.Offset, 10) + ": " + e.Reason
}

// errShape is the error of a valid text that is no object.
var errShape = errors.New("not a JSON object")

// damage turns a parser's error into the package's. Not every one has an offset:
// a text that breaks off has none, and is damaged at its end.
func damage(data []byte, err error) *DamagedError {
	e := &DamagedError{State: Unreadable, Offset: int64(len(data)), Reason: err.Error()}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case err == errShape:
		e.State, e.Offset = WrongShape, 0
	case err == io.EOF:
		e.Reason = "empty"
	case ok:
		e.Offset, e.Reason = syntax.ByteOffset, syntax.Err.Error()
	}
	if ok && syntax.Err == jsontext.ErrDuplicateName {
		e.Reason += fmt.Sprintf(" %.40q", syntax.JSONPointer.LastToken())
	}
	return e
}

// maxDepth is how many levels a record may have, itself included.
const maxDepth = 9000

var errDeep = errors.New("nested more than 9,000 levels deep")

// tooDeep returns the offset of the first bracket beyond maxDepth, -1 if there
// is none.
func tooDeep(data []byte) int64 {
	if len(data) <= maxDepth {
		return -1
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i += stringLen(data[i:]) - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return int64(i)
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// invalidUTF8 returns the offset of the first byte that is part of no UTF-8
// sequence, -1 if there is none.
func invalidUTF8(data []byte) int64 {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return int64(i)
		}
		i += n
	}
	return -1
}
