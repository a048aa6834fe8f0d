package sidecar

import (
	"bytes"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Value is the text of one JSON value, as it was read or as a constructor of
// this package made it. Its bytes must not be changed.
type Value = jsontext.Value

// Field is one member of an object.
type Field struct {
	Name  string
	Value Value
}

// Record is the document of one job: a JSON object that keeps the order of its
// members, every key, and the text of every number. The zero value is the
// empty object. A Record is not safe for concurrent change.
type Record struct {
	members []member
}

// member holds one key and its value as JSON text. The key keeps its quotes
// and escapes, because not every JSON string (a lone surrogate) is a Go string.
type member struct {
	key, value Value
}

// NewRecord returns a record of the given fields, in their order. A name that
// occurs again replaces the earlier value in its place.
func NewRecord(fields ...Field) *Record {
	r := &Record{members: make([]member, 0, len(fields))}
	for _, f := range fields {
		r.Set(f.Name, f.Value)
	}
	return r
}

// is reports whether the member's key spells name.
func (m *member) is(name string) bool {
	inner := m.key[1 : len(m.key)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == name
	}
	return unquote(m.key) == name
}

func (r *Record) find(name string) *member {
	for i := range r.members {
		if r.members[i].is(name) {
			return &r.members[i]
		}
	}
	return nil
}

// Raw returns the text of the named member, and whether there is one.
func (r *Record) Raw(name string) (Value, bool) {
	m := r.find(name)
	if m == nil {
		return nil, false
	}
	return m.value, true
}

// Text returns the named member if it is a JSON string. Lone surrogates, which
// no Go string can hold, read as U+FFFD; the record keeps them.
func (r *Record) Text(name string) (string, bool) {
	m := r.find(name)
	if m == nil || m.value.Kind() != '"' {
		return "", false
	}
	return unquote(m.value), true
}

// Int returns the named member if it is an integer literal within 64 bits:
// digits with an optional sign, no fraction and no exponent.
func (r *Record) Int(name string) (int64, bool) {
	m := r.find(name)
	if m == nil || m.value.Kind() != '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(m.value), 10, 64)
	return n, err == nil
}

// Number returns the named member if it is a JSON number that a finite float64
// can hold. A numeric string, a bool and 1e999 are not.
func (r *Record) Number(name string) (float64, bool) {
	m := r.find(name)
	if m == nil || m.value.Kind() != '0' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(m.value), 64)
	return f, err == nil
}

// Object returns the named member if it is a JSON object. The result is a copy
// in its own right: to change the member, Set it to the changed object's text.
func (r *Record) Object(name string) (*Record, bool) {
	m := r.find(name)
	if m == nil || m.value.Kind() != '{' {
		return nil, false
	}
	sub, err := Parse(m.value)
	return sub, err == nil
}

// Null reports whether the named member is absent or null.
func (r *Record) Null(name string) bool {
	m := r.find(name)
	return m == nil || m.value.Kind() == 'n'
}

// Ended reports whether an end is recorded: finished_at is present and not
// null. Any other value counts, even "" and 0, as it does for the peer.
func (r *Record) Ended() bool { return !r.Null("finished_at") }

// RunID returns the record's own run_id, or "" if it has none that is a string.
func (r *Record) RunID() string {
	id, _ := r.Text("run_id")
	return id
}

// Set gives the named member a value: in its place if there is one, else at
// the end. A nil value is null. A value equal to the present one changes
// nothing, not even its spelling.
func (r *Record) Set(name string, v Value) {
	if v == nil {
		v = Null()
	}
	m := r.find(name)
	if m == nil {
		r.members = append(r.members, member{key: Text(name), value: v})
		return
	}
	if !sameValue(m.value, v) {
		m.value = v
	}
}

// All yields the members in order.
func (r *Record) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for i := range r.members {
			if !yield(unquote(r.members[i].key), r.members[i].value) {
				return
			}
		}
	}
}

// Names returns the keys in order.
func (r *Record) Names() []string {
	names := make([]string, 0, len(r.members))
	for name := range r.All() {
		names = append(names, name)
	}
	return names
}

// Clone returns a record that can be changed without changing r. Values, which
// never change, are shared.
func (r *Record) Clone() *Record {
	return &Record{members: append([]member(nil), r.members...)}
}

// Equal reports whether both records have the same members in the same order,
// whatever their layout and the spelling of their strings.
func (r *Record) Equal(other *Record) bool {
	return slices.EqualFunc(r.members, other.members, func(a, b member) bool {
		return sameValue(a.key, b.key) && sameValue(a.value, b.value)
	})
}

// MarshalJSON returns the text of [Record.Append].
func (r *Record) MarshalJSON() ([]byte, error) { return r.Append(nil), nil }

// unquote returns the Go string of a JSON string.
func unquote(quoted Value) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	// The only error possible here is a lone surrogate, read as U+FFFD.
	text, _ := jsontext.AppendUnquote(make([]byte, 0, len(inner)), []byte(quoted))
	return strings.ToValidUTF8(string(text), "\ufffd")
}

// sameValue compares two texts after layout and spelling are normalised.
func sameValue(a, b Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	v, w := writer{compact: true, limit: math.MaxInt}, writer{compact: true, limit: math.MaxInt}
	v.value(a)
	w.value(b)
	return bytes.Equal(v.dst, w.dst)
}
