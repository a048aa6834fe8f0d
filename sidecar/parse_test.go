package sidecar_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe/sidecar"
)

// brackets is a value of n levels.
func brackets(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// TestParseDamage tells of each damage what it is and where.
func TestParseDamage(t *testing.T) {
	const unreadable, shape = sidecar.Unreadable, sidecar.WrongShape
	for name, tc := range map[string]struct {
		text  string
		state sidecar.State
		at    int64
		want  string
	}{
		"empty":                {"", unreadable, 0, "empty"},
		"blank":                {" \n", unreadable, 2, "empty"},
		"truncated":            {`{"old-run":`, unreadable, 11, "unexpected EOF"},
		"truncated string":     {`{"a": "x`, unreadable, 8, "unexpected EOF"},
		"truncated word":       {`{"a": tru`, unreadable, 9, "unexpected EOF"},
		"no close":             {`{"a": 1`, unreadable, 7, "unexpected EOF"},
		"bom":                  {"\xef\xbb\xbf{}", unreadable, 0, `invalid character '\ufeff' at start of value`},
		"UTF-16":               {"\xff\xfe{\x00}\x00", unreadable, 0, `invalid character '\xff' at start of value`},
		"NULs":                 {"\x00\x00", unreadable, 0, `invalid character '\x00' at start of value`},
		"trailing NULs":        {"{\"pid\":1}\x00\x00", unreadable, 9, "bytes after the record"},
		"two values":           {`{} {}`, unreadable, 3, "bytes after the record"},
		"comment":              {`{} // x`, unreadable, 3, "bytes after the record"},
		"array and more":       {`[] 1`, unreadable, 3, "bytes after the record"},
		"trailing comma":       {`{"a": 1,}`, unreadable, 7, `invalid character ',' at start of value`},
		"no comma":             {`{"a": 1 "b": 2}`, unreadable, 8, `invalid character '"' after object value (expecting ',' or '}')`},
		"no colon":             {`{"a" 1}`, unreadable, 5, `invalid character '1' after object name (expecting ':')`},
		"wrong bracket":        {`{"a": [1, 2}`, unreadable, 11, `invalid character '}' after array element (expecting ',' or ']')`},
		"single quotes":        {`{'a': 1}`, unreadable, 1, `invalid character '\'' at start of value`},
		"numeric key":          {`{1: 2}`, unreadable, 1, "object member name must be a string"},
		"NaN":                  {`{"pid_create_time": NaN}`, unreadable, 20, `invalid character 'N' at start of value`},
		"Infinity":             {`{"a": [Infinity]}`, unreadable, 7, `invalid character 'I' at start of value`},
		"-Infinity":            {`{"a": -Infinity}`, unreadable, 7, `invalid character 'I' in number (expecting digit)`},
		"NaN and lone":         {`{"a": "\ud800", "b": NaN}`, unreadable, 21, `invalid character 'N' at start of value`},
		"leading zero":         {`{"a": 01}`, unreadable, 7, `invalid character '1' after object value (expecting ',' or '}')`},
		"leading plus":         {`{"a": +1}`, unreadable, 6, `invalid character '+' at start of value`},
		"bare point":           {`{"a": 1.}`, unreadable, 8, `invalid character '}' in number (expecting digit)`},
		"bare control":         {"{\"a\": \"\x01\"}", unreadable, 7, `invalid character '\x01' in string (expecting non-control character)`},
		"bad escape":           {`{"a": "\x"}`, unreadable, 7, "invalid escape sequence `\\x` in string"},
		"bad UTF-8 value":      {"{\"a\": \"\xff\"}", unreadable, 7, "invalid UTF-8"},
		"bad UTF-8 key":        {"{\"\xff\": 1}", unreadable, 2, "invalid UTF-8"},
		"raw surrogate":        {"{\"a\": \"\xed\xa0\x80\"}", unreadable, 7, "invalid UTF-8"},
		"bad UTF-8 and lone":   {"{\"a\": \"\\ud800\", \"b\": \"\xff\"}", unreadable, 22, "invalid UTF-8"},
		"duplicate key":        {`{"pid": 1, "pid": 2}`, unreadable, 11, `duplicate object member name "pid"`},
		"duplicate by escape":  {`{"pid": 1, "\u0070id": 2}`, unreadable, 11, `duplicate object member name "pid"`},
		"duplicate nested":     {`{"a": [{"b": {"c": 1, "c": 1}}]}`, unreadable, 22, `duplicate object member name "c"`},
		"duplicate lone":       {`{"\ud800": 1, "\uD800": 2}`, unreadable, 14, "duplicate object member name \"\ufffd\""},
		"duplicate after lone": {`{"a": "\udc00", "b": {"c": 1, "c": 2}}`, unreadable, 30, `duplicate object member name "c"`},
		"duplicate long key": {`{"` + strings.Repeat("k", 90) + `": 1, "` + strings.Repeat("k", 90) + `": 2}`, unreadable, 98,
			`duplicate object member name "` + strings.Repeat("k", 40) + `"`},
		"deep nesting":    {`{"a": ` + brackets(9000) + `}`, unreadable, 6 + 8999, "nested more than 9,000 levels deep"},
		"10,000 levels":   {`{"a": ` + brackets(10000) + `}`, unreadable, 6 + 8999, "nested more than 9,000 levels deep"},
		"deep, no end":    {`{"a": ` + strings.Repeat("[", 1<<20), unreadable, 6 + 8999, "nested more than 9,000 levels deep"},
		"deep and lone":   {`{"b": "\ud800", "a": ` + brackets(10000) + `}`, unreadable, 21 + 8999, "nested more than 9,000 levels deep"},
		"NaN before deep": {`{"b": NaN, "a": ` + brackets(10000) + `}`, unreadable, 6, `invalid character 'N' at start of value`},
		"damaged array":   {`[1,`, unreadable, 3, "unexpected EOF"},
		"null":            {"null", shape, 0, "not a JSON object"},
		"array":           {`[{"pid": 1}]`, shape, 0, "not a JSON object"},
		"string":          {`"x"`, shape, 0, "not a JSON object"},
		"number":          {" 7\n", shape, 0, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := sidecar.Parse([]byte(tc.text))
			damaged, ok := errors.AsType[*sidecar.DamagedError](err)
			if r != nil || !ok {
				t.Fatalf("got %v, %v; want a DamagedError", r, err)
			}
			if want := (sidecar.DamagedError{State: tc.state, Offset: tc.at, Reason: tc.want}); *damaged != want {
				t.Errorf("got  %+v\nwant %+v", *damaged, want)
			}
		})
	}
}

func TestDeepNestingSurvives(t *testing.T) {
	mustParse(t, `{"a": `+brackets(8999)+`}`)
	r := mustParse(t, `{"a": `+brackets(1000)+`}`)
	if again := mustParse(t, string(r.Append(nil))); !r.Equal(again) {
		t.Error("1,000 levels did not survive")
	}
}
