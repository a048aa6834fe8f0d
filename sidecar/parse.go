package sidecar

import (
	"bytes"
	"errors"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// decoder couples a decoder with the buffer it reads from, which jsontext
// parses in place.
type decoder struct {
	json *jsontext.Decoder
	buf  bytes.Buffer
}

var decoders = sync.Pool{New: func() any {
	d := new(decoder)
	d.json = jsontext.NewDecoder(&d.buf)
	return d
}}

// tolerant accepts what jsontext cannot express in a Go string; see parseLone.
var tolerant = []jsontext.Options{
	jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true),
}

// Parse reads a record from JSON text (RFC 8259, with the unique names and
// the UTF-8 that RFC 7493 asks for, at any depth). The error is a
// [*DamagedError]. Nesting beyond 9,000 levels is damage, so that a reply can
// hold what a record holds; a number of any size, and an escaped lone
// surrogate, are not.
//
// The record refers to data, which must not be changed afterwards.
func Parse(data []byte) (*Record, error) {
	r, err := parse(data)
	if err != nil && hasSurrogate(data) {
		r, err = parseLone(data)
	}
	if at := tooDeep(data); at >= 0 && (err == nil || at < damage(data, err).Offset) {
		err = &jsontext.SyntacticError{ByteOffset: at, Err: errDeep}
	}
	if err != nil {
		return nil, damage(data, err)
	}
	return r, nil
}

// parse slices data into members. Only values and offsets are taken from the
// decoder, never its memory.
func parse(data []byte, opts ...jsontext.Options) (*Record, error) {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.buf = *bytes.NewBuffer(data)
	d.json.Reset(&d.buf, opts...)
	r, err := readObject(d.json, data)
	// Let go of data: a pooled decoder must not keep a record's bytes alive.
	d.buf = bytes.Buffer{}
	d.json.Reset(&d.buf)
	return r, err
}

// readObject reads the one value that data holds, and the end after it.
func readObject(dec *jsontext.Decoder, data []byte) (*Record, error) {
	if kind := dec.PeekKind(); kind != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return nil, err
		}
		if err := readEnd(dec, data); err != nil {
			return nil, err
		}
		return nil, errShape
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	r := &Record{members: make([]member, 0, 32)}
	for dec.PeekKind() != '}' {
		key, err := readValue(dec, data)
		if err != nil {
			return nil, err
		}
		value, err := readValue(dec, data)
		if err != nil {
			return nil, err
		}
		r.members = append(r.members, member{key, value})
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	return r, readEnd(dec, data)
}

// readValue returns the next value as a slice of data, found by where it ended.
func readValue(dec *jsontext.Decoder, data []byte) (Value, error) {
	v, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := dec.InputOffset()
	return data[end-int64(len(v)) : end : end], nil
}

// readEnd reports an error if anything but white space is left.
func readEnd(dec *jsontext.Decoder, data []byte) error {
	rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\n\r")
	if len(rest) == 0 {
		return nil
	}
	at := int64(len(data) - len(rest))
	return &jsontext.SyntacticError{ByteOffset: at, Err: errors.New("bytes after the record")}
}

// hasSurrogate reports whether data may spell a UTF-16 surrogate.
func hasSurrogate(data []byte) bool {
	return bytes.Contains(data, []byte(`\ud`)) || bytes.Contains(data, []byte(`\uD`))
}

// parseLone reads a text with lone surrogates. jsontext reads each of them as
// U+FFFD, so its own search for duplicate names would confuse two different
// names; this one compares the names as they will be written.
func parseLone(data []byte) (*Record, error) {
	if at := invalidUTF8(data); at >= 0 {
		return nil, &jsontext.SyntacticError{ByteOffset: at, Err: errors.New("invalid UTF-8")}
	}
	r, err := parse(data, tolerant...)
	if err != nil {
		return nil, err
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), tolerant...)
	names := []map[string]bool{nil}
	for {
		kind := dec.PeekKind()
		if kind == jsontext.KindInvalid {
			return r, nil
		}
		parent, length := dec.StackIndex(dec.StackDepth())
		if parent == '{' && length%2 == 0 && kind == '"' {
			key, err := dec.ReadValue()
			if err != nil {
				return nil, err
			}
			spelled := string(appendString(nil, key))
			seen := names[len(names)-1]
			if seen[spelled] {
				return nil, &jsontext.SyntacticError{
					ByteOffset:  dec.InputOffset() - int64(len(key)),
					JSONPointer: dec.StackPointer(), Err: jsontext.ErrDuplicateName,
				}
			}
			seen[spelled] = true
			continue
		}
		if _, err := dec.ReadToken(); err != nil {
			return nil, err
		}
		switch kind {
		case '{', '[':
			names = append(names, make(map[string]bool))
		case '}', ']':
			names = names[:len(names)-1]
		}
	}
}
