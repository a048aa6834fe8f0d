package sidecar

import (
	"bytes"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// Append appends the record as the peer writes it (Python's json.dumps with
// indent=2): members in order on lines of their own, two spaces a level, ": "
// after a key, ASCII only, no newline at the end. Numbers keep their text;
// only layout and the spelling of strings are normalised.
func (r *Record) Append(dst []byte) []byte {
	w := writer{dst: dst, limit: math.MaxInt}
	w.record(r)
	return w.dst
}

// raw returns the record's JSON text as its members spell it.
func (r *Record) raw() []byte {
	size := 2
	for _, m := range r.members {
		size += len(m.key) + len(m.value) + 2
	}
	text := append(make([]byte, 0, size), '{')
	for i, m := range r.members {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, m.key...), ':'), m.value...)
	}
	return append(text, '}')
}

// writer lays out JSON text anew. It keeps no stack, so nesting costs it
// nothing; but each line of a deeply nested value is indented, so a small
// record can become one that no memory holds.
type writer struct {
	dst     []byte
	depth   int
	compact bool // leave out all white space
	limit   int  // stop somewhere after this length of dst
}

func (w *writer) record(r *Record) {
	if len(r.members) == 0 {
		w.dst = append(w.dst, "{}"...)
		return
	}
	open := byte('{')
	w.depth++
	for _, m := range r.members {
		w.dst = append(w.dst, open)
		w.line()
		w.value(m.key)
		w.colon()
		w.value(m.value)
		open = ','
	}
	w.depth--
	w.line()
	w.dst = append(w.dst, '}')
}

// value writes one JSON value. The value must be valid: punctuation is passed
// on as it comes, which is all that valid text needs. Space outside strings has
// no meaning (RFC 8259, section 2) and is replaced; empty containers stay on
// their line, as Python has them.
func (w *writer) value(v Value) {
	for i := 0; i < len(v) && len(w.dst) <= w.limit; i++ {
		switch c := v[i]; c {
		case ' ', '\t', '\n', '\r':
		case '"':
			n := stringLen(v[i:])
			w.dst = appendString(w.dst, v[i:i+n])
			i += n - 1
		case '{', '[':
			w.dst = append(w.dst, c)
			rest := bytes.TrimLeft(v[i+1:], " \t\n\r")
			if len(rest) > 0 && rest[0] == c+2 { // the matching bracket, in ASCII
				w.dst = append(w.dst, rest[0])
				i = len(v) - len(rest)
				continue
			}
			w.depth++
			w.line()
		case '}', ']':
			w.depth--
			w.line()
			w.dst = append(w.dst, c)
		case ',':
			w.dst = append(w.dst, c)
			w.line()
		case ':':
			w.colon()
		default:
			w.dst = append(w.dst, c)
		}
	}
}

// line begins a new line at the present depth.
func (w *writer) line() {
	if w.compact {
		return
	}
	w.dst = append(w.dst, '\n')
	for range w.depth {
		w.dst = append(w.dst, "  "...)
	}
}

func (w *writer) colon() {
	w.dst = append(w.dst, ':')
	if !w.compact {
		w.dst = append(w.dst, ' ')
	}
}

// stringLen returns the length in bytes of the JSON string at the start of v,
// with its quotes.
func stringLen(v []byte) int {
	for i := 1; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(v)
}

// appendString spells a quoted JSON string in ASCII. Escapes are read and
// written as the UTF-16 code units they stand for (RFC 8259, section 7), so a
// lone surrogate stays what it is, and a pair stays a pair.
func appendString(dst []byte, quoted []byte) []byte {
	for i := 0; i < len(quoted); {
		c := quoted[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(quoted[i:])
			dst = appendRune(dst, r)
			i += n
		case c == '\\' && i+5 < len(quoted) && quoted[i+1] == 'u':
			dst = appendUnit(dst, hexUnit(quoted[i+2:i+6]))
			i += 6
		case c == '\\' && i+1 < len(quoted):
			if quoted[i+1] != '/' { // the one escape that is never needed
				dst = append(dst, c)
			}
			dst = append(dst, quoted[i+1])
			i += 2
		case c < ' ' || c == 0x7f:
			dst = appendUnit(dst, uint16(c))
			i++
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// appendRune spells one rune inside a string; beyond the basic plane it takes a
// surrogate pair.
func appendRune(dst []byte, r rune) []byte {
	if r <= 0xffff {
		return appendUnit(dst, uint16(r))
	}
	high, low := utf16.EncodeRune(r)
	return appendUnit(appendUnit(dst, uint16(high)), uint16(low))
}

// appendUnit spells one UTF-16 code unit inside a string: printable ASCII as
// itself, the five controls that have a short escape by it, all else, DEL
// included, as \uXXXX in lower case (Python's ensure_ascii).
func appendUnit(dst []byte, u uint16) []byte {
	const digits = "0123456789abcdef"
	switch {
	case u == '"' || u == '\\':
		return append(dst, '\\', byte(u))
	case u >= ' ' && u < 0x7f:
		return append(dst, byte(u))
	case u == '\b':
		return append(dst, `\b`...)
	case u == '\f':
		return append(dst, `\f`...)
	case u == '\n':
		return append(dst, `\n`...)
	case u == '\r':
		return append(dst, `\r`...)
	case u == '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}

// hexUnit reads four hexadecimal digits of either case.
func hexUnit(hex []byte) (u uint16) {
	for _, c := range hex {
		u <<= 4
		switch {
		case c <= '9':
			u |= uint16(c - '0')
		case c <= 'F':
			u |= uint16(c - 'A' + 10)
		default:
			u |= uint16(c - 'a' + 10)
		}
	}
	return u
}
