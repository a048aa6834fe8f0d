package sidecar

import (
	"bytes"
	"math"
	"strconv"
)

// Null returns the JSON null.
func Null() Value { return Value("null") }

// Bool returns a JSON bool.
func Bool(b bool) Value { return strconv.AppendBool(nil, b) }

// Int returns a JSON number without fraction or exponent.
func Int(n int64) Value { return strconv.AppendInt(nil, n, 10) }

// Float returns the shortest JSON number that reads back as f, spelled as
// Python's repr does: 1700000000.0, 1e+16, 1e-05. JSON has no number for NaN
// and the infinities: they are null.
func Float(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Null()
	}
	// repr switches to an exponent below 1e-4 and from 1e16 on.
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.AppendFloat(nil, f, 'e', -1, 64)
	}
	text := strconv.AppendFloat(nil, f, 'f', -1, 64)
	if bytes.IndexByte(text, '.') < 0 {
		text = append(text, ".0"...)
	}
	return text
}

// Text returns a JSON string. Bytes that are not UTF-8 become U+FFFD.
func Text(s string) Value {
	v := append(make(Value, 0, len(s)+2), '"')
	for _, r := range s {
		v = appendRune(v, r)
	}
	return append(v, '"')
}

// Texts returns a JSON array of strings. A nil slice is the empty array.
func Texts(list []string) Value {
	values := make([]Value, len(list))
	for i, s := range list {
		values[i] = Text(s)
	}
	return array(values)
}

func array(list []Value) Value {
	v := Value("[")
	for i, item := range list {
		if i > 0 {
			v = append(v, ',')
		}
		v = append(v, item...)
	}
	return append(v, ']')
}

// Object returns a JSON object of the given fields; see [NewRecord].
func Object(fields ...Field) Value { return NewRecord(fields...).raw() }

// textOrNull is for fields that the peer writes as null when empty.
func textOrNull(s string) Value {
	if s == "" {
		return Null()
	}
	return Text(s)
}
