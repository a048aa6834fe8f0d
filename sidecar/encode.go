package sidecar

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Append appends the record as the peer writes it (Python's json.dumps with
// indent=2): members in order on lines of their own, two spaces a level, ": "
// after a key, ASCII only, no newline at the end. Numbers keep their text;
// only layout and the spelling of strings are normalised.
func (r *Record) Append(dst []byte) []byte {
	if len(r.members) == 0 {
		return append(dst, "{}"...)
	}
	open := byte('{')
	for _, m := range r.members {
		dst = append(dst, open)
		dst = appendLine(dst, 1)
		dst = appendString(dst, m.key)
		dst = append(dst, ": "...)
		dst = appendValue(dst, m.value, 1)
		open = ','
	}
	return append(appendLine(dst, 0), '}')
}

// appendValue lays out one valid JSON value anew, its closing bracket at the
// given depth. It keeps no stack, so nesting costs nothing; what it makes of
// an invalid text is invalid too.
func appendValue(dst []byte, v Value, depth int) []byte {
	for i := 0; i < len(v); i++ {
		switch c := v[i]; c {
		case ' ', '\t', '\n', '\r':
		case '"':
			n := stringLen(v[i:])
			dst = appendString(dst, v[i:i+n])
			i += n - 1
		case '{', '[':
			dst = append(dst, c)
			rest := bytes.TrimLeft(v[i+1:], " \t\n\r")
			if len(rest) > 0 && rest[0] == c+2 { // the matching bracket, in ASCII
				dst = append(dst, rest[0])
				i = len(v) - len(rest)
				continue
			}
			depth++
			dst = appendLine(dst, depth)
		case '}', ']':
			depth--
			dst = append(appendLine(dst, depth), c)
		case ',':
			dst = appendLine(append(dst, c), depth)
		case ':':
			dst = append(dst, ": "...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func appendLine(dst []byte, depth int) []byte {
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, "  "...)
	}
	return dst
}

// stringLen returns the length of the JSON string at the start of v.
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

// appendString spells a quoted JSON string in ASCII. It works on UTF-16 code
// units, so that a lone surrogate stays what it is.
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

// appendRune spells one rune inside a string.
func appendRune(dst []byte, r rune) []byte {
	if r <= 0xffff {
		return appendUnit(dst, uint16(r))
	}
	high, low := utf16.EncodeRune(r)
	return appendUnit(appendUnit(dst, uint16(high)), uint16(low))
}

// appendUnit spells one UTF-16 code unit inside a string.
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

// hexUnit reads four hexadecimal digits.
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
