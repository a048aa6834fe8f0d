package jobprobe

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Identity names one process for its whole life: its number, the kernel's
// start stamp, and the scope in which both were read. Record it when the
// process starts; give it to [Probe] later, from any process.
//
// A zero field was not recorded and is never compared. Identities are
// comparable values, and reading the same process again yields an equal one.
// Its JSON form carries every integer as a decimal string, because Windows
// stamps exceed 2^53.
type Identity struct {
	// OS is the GOOS of the recorder ("linux", "darwin", "windows").
	OS string
	// PID is the process number, as issued in the recorder's namespace.
	PID int64
	// Start is the kernel's start stamp, in StartUnit. It survives exec and
	// is unmoved by clock steps.
	Start uint64
	// StartUnit is "boot_ticks" on Linux (proc_pid_stat(5), field 22, clock
	// ticks since boot), "unix_us" on macOS (p_starttime, microseconds) and
	// "filetime_100ns" on Windows (GetProcessTimes, 100 ns since 1601).
	StartUnit string
	// Boot is the boot id: random_boot_id(5) on Linux, kern.bootsessionuuid
	// on macOS, empty on Windows, whose stamps are absolute.
	Boot string
	// BootSrc is "procfs" only if Boot was read from a real procfs.
	BootSrc string
	// PIDNS and TimeNS are the inode numbers of the recorder's pid and time
	// namespaces (namespaces(7)); Linux only.
	PIDNS, TimeNS uint64
	// Uniq is a number that the kernel never repeats in one boot, of the kind
	// UniqKind: "pidfs", the inode number of a pidfd (Linux 6.9 and later).
	Uniq     uint64
	UniqKind string
	// Host is an opaque id of the recorder's host.
	Host string

	// unusable remembers that ParseIdentity had to drop a recorded stamp.
	unusable bool
}

// An IdentityError says which field of a recorded identity cannot be used.
type IdentityError struct {
	Field  string // the JSON name of the field
	Reason string // what is wrong with it
}

func (e *IdentityError) Error() string {
	return "identity field " + strconv.Quote(e.Field) + ": " + e.Reason
}

// errShape is the reason of a text that is no identity at all.
var errShape = errors.New("jobprobe: an identity is one JSON object")

// identityJSON is the stored form; see ParseIdentity.
type identityJSON struct {
	OS        string `json:"os,omitzero"`
	PID       string `json:"pid"`
	Start     string `json:"start,omitzero"`
	StartUnit string `json:"start_unit,omitzero"`
	Boot      string `json:"boot,omitzero"`
	BootSrc   string `json:"boot_src,omitzero"`
	PIDNS     string `json:"pid_ns,omitzero"`
	TimeNS    string `json:"time_ns,omitzero"`
	Uniq      string `json:"uniq,omitzero"`
	UniqKind  string `json:"uniq_kind,omitzero"`
	Host      string `json:"host,omitzero"`
}

// MarshalJSON returns the stored form. Fields that were not recorded are
// left out.
func (id Identity) MarshalJSON() ([]byte, error) {
	return json.Marshal(identityJSON{
		OS:        id.OS,
		PID:       strconv.FormatInt(id.PID, 10),
		Start:     decimal(id.Start),
		StartUnit: id.StartUnit,
		Boot:      id.Boot,
		BootSrc:   id.BootSrc,
		PIDNS:     decimal(id.PIDNS),
		TimeNS:    decimal(id.TimeNS),
		Uniq:      decimal(id.Uniq),
		UniqKind:  id.UniqKind,
		Host:      id.Host,
	})
}

// UnmarshalJSON reads the stored form as [ParseIdentity] does, and leaves the
// identity unchanged when that reports an error.
func (id *Identity) UnmarshalJSON(data []byte) error {
	got, err := ParseIdentity(data)
	if err == nil {
		*id = got
	}
	return err
}

// ParseIdentity reads the stored form of an identity. Unknown keys are
// ignored; duplicate keys and bad UTF-8 are refused.
//
// A field that cannot be used is reported as an [*IdentityError] together
// with an identity that can still be probed but confirms nothing, so that
// damage is never mistaken for a difference: a malformed stamp is dropped, and
// a malformed number or scope leaves one that Probe calls [UnusablePID].
func ParseIdentity(data []byte) (Identity, error) {
	if jsontext.Value(data).Kind() != '{' {
		return Identity{}, errShape
	}
	if !jsontext.Value(data).IsValid() {
		return Identity{}, json.Unmarshal(data, new(map[string]jsontext.Value))
	}
	var fields identityFields
	if err := json.Unmarshal(data, &fields); err != nil {
		return Identity{}, err
	}
	return fields.identity()
}

// identityFields holds the raw values, so that one bad field does not hide
// the others.
type identityFields struct {
	OS        jsontext.Value `json:"os"`
	PID       jsontext.Value `json:"pid"`
	Start     jsontext.Value `json:"start"`
	StartUnit jsontext.Value `json:"start_unit"`
	Boot      jsontext.Value `json:"boot"`
	BootSrc   jsontext.Value `json:"boot_src"`
	PIDNS     jsontext.Value `json:"pid_ns"`
	TimeNS    jsontext.Value `json:"time_ns"`
	Uniq      jsontext.Value `json:"uniq"`
	UniqKind  jsontext.Value `json:"uniq_kind"`
	Host      jsontext.Value `json:"host"`
}

func (f *identityFields) identity() (Identity, error) {
	var stamp, scope *IdentityError // the first damage to either
	fail := func(field, reason string) {
		first := &scope
		switch field {
		case "start", "start_unit", "uniq", "uniq_kind", "time_ns":
			first = &stamp
		}
		if *first == nil {
			*first = &IdentityError{field, reason}
		}
	}
	text := func(field string, raw jsontext.Value) string {
		if raw == nil {
			return ""
		}
		var s string
		if raw.Kind() != '"' || json.Unmarshal(raw, &s) != nil {
			fail(field, "want a string")
		}
		return s
	}
	number := func(field string, raw jsontext.Value) uint64 {
		s := text(field, raw)
		if s == "" {
			return 0
		}
		n, err := parseDecimal(s)
		if err != nil {
			fail(field, err.Error())
		}
		return n
	}
	id := Identity{
		OS:        text("os", f.OS),
		Start:     number("start", f.Start),
		StartUnit: text("start_unit", f.StartUnit),
		Boot:      text("boot", f.Boot),
		BootSrc:   text("boot_src", f.BootSrc),
		PIDNS:     number("pid_ns", f.PIDNS),
		TimeNS:    number("time_ns", f.TimeNS),
		Uniq:      number("uniq", f.Uniq),
		UniqKind:  text("uniq_kind", f.UniqKind),
		Host:      text("host", f.Host),
	}
	if id.Start != 0 && (id.OS == "" || id.OS == runtime.GOOS) && id.StartUnit != startUnit {
		fail("start_unit", fmt.Sprintf("want %q on %s, not %q", startUnit, runtime.GOOS, id.StartUnit))
	}
	pid, err := parsePID(text("pid", f.PID))
	if err != nil {
		fail("pid", err.Error())
	}
	id.PID = pid
	switch {
	case scope != nil: // or the number: there is nothing to ask about
		return Identity{}, scope
	case stamp != nil:
		id.Start, id.Uniq, id.unusable = 0, 0, true
		return id, stamp
	}
	return id, nil
}

// scoped says whether anything about the recorder's scope was recorded.
func (id *Identity) scoped() bool {
	return id.Boot != "" || id.PIDNS != 0 || id.TimeNS != 0 || id.Host != ""
}

// decimal formats n; zero, which means "not recorded", is the empty string.
func decimal(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// parseDecimal accepts digits only: no sign, no leading zero, at most uint64.
func parseDecimal(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q is larger than 64 bits", s)
	}
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%q is not a plain decimal number", s)
	}
	return n, nil
}

// parsePID also accepts numbers that no process can have, so that Probe can
// say so: negative ones, and beyond 64 bits as the largest.
func parsePID(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return math.MaxInt64, nil
	}
	if err != nil || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%q is not a plain decimal number", s)
	}
	return n, nil
}
