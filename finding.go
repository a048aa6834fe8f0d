package jobprobe

import "github.com/jobprobe/jobprobe/internal/enum"

// Conclusion is what a probe's finding proves. It is closed: only these three
// values exist, and only [ProcessGone] may end a record.
type Conclusion uint8

const (
	// Unknown proves nothing, in either direction. It is the zero value.
	Unknown Conclusion = iota
	// Alive says that a live process holds the recorded number and that
	// nothing contradicts it being the recorded one. Only the finding
	// [IdentityConfirmed] makes it a positive identification.
	Alive
	// ProcessGone says that the recorded process can run no more code.
	ProcessGone
)

var conclusionNames = [...]string{"unknown", "alive", "process_gone"}

// Finding names what one probe saw. New findings may be added; a finding
// proves a process gone only if [Finding.Conclusion] lists it.
type Finding uint8

const (
	// NotProbed is the zero value: nobody looked.
	NotProbed Finding = iota
	// IdentityConfirmed: a live process holds the number and its kernel
	// stamp equals the recorded one.
	IdentityConfirmed
	// IdentityNotRecorded: a live process holds the number and nothing was
	// recorded to compare it with.
	IdentityNotRecorded
	// IdentityUnusable: as IdentityNotRecorded, but what was recorded cannot
	// be compared (malformed, or of another unit).
	IdentityUnusable
	// PIDAbsent: no process has the number, in the namespace that issued it.
	// A number that is only a thread id is absent too.
	PIDAbsent
	// PIDRecycled: the number now belongs to another process.
	PIDRecycled
	// DisappearedDuringProbe: the process was there when the probe began and
	// is gone, or it has exited and only its number is still held.
	DisappearedDuringProbe
	// UnusablePID: the recorded number cannot name a process here, or must
	// not be asked about. No system call was made.
	UnusablePID
	// AccessDenied: the operating system refused, or hid, the answer.
	AccessDenied
	// IdentityUnreadable: the number is held or may be, and its stamp could
	// not be read or be compared with certainty.
	IdentityUnreadable
	// ProbeEnvironmentUnusable: the probe cannot see its own process (no
	// /proc, or another namespace's), so no answer would be about the record.
	ProbeEnvironmentUnusable
	// ForeignHost: the record belongs to another host.
	ForeignHost
	// ForeignBoot: the record belongs to another boot, or the boots cannot be
	// compared.
	ForeignBoot
	// ForeignPIDNamespace: the number was issued in another pid namespace.
	ForeignPIDNamespace
	// ForeignTimeNamespace: start ticks were read in another time namespace
	// and nothing finer was recorded.
	ForeignTimeNamespace
	// UnsupportedPlatform: this operating system offers no identity.
	UnsupportedPlatform
)

var findingNames = [...]string{
	"not_probed",
	"identity_confirmed", "identity_not_recorded", "identity_unusable",
	"pid_absent", "pid_recycled", "disappeared_during_probe",
	"unusable_pid", "access_denied", "identity_unreadable",
	"probe_environment_unusable", "foreign_host", "foreign_boot",
	"foreign_pid_namespace", "foreign_time_namespace", "unsupported_platform",
}

// Conclusion says what the finding proves. It is the only place where a
// finding becomes a conclusion, and it lists what it accepts: a value added
// later is Unknown until it is added here.
func (f Finding) Conclusion() Conclusion {
	switch f {
	case IdentityConfirmed, IdentityNotRecorded, IdentityUnusable:
		return Alive
	case PIDAbsent, PIDRecycled, DisappearedDuringProbe:
		return ProcessGone
	case NotProbed, UnusablePID, AccessDenied, IdentityUnreadable,
		ProbeEnvironmentUnusable, ForeignHost, ForeignBoot,
		ForeignPIDNamespace, ForeignTimeNamespace, UnsupportedPlatform:
	}
	return Unknown
}

// waitable says whether waiting can still help: the process is not known to
// be gone, and its number can at least be asked about. It decides nothing.
func (f Finding) waitable() bool {
	return f != UnusablePID && f.Conclusion() != ProcessGone
}

// String returns the word used in records and replies, for example
// "process_gone". A value outside the enumeration prints its number.
func (c Conclusion) String() string { return enum.Name(conclusionNames[:], uint8(c), "Conclusion") }

// String returns the word used in records and replies, for example
// "pid_recycled". A value outside the enumeration prints its number.
func (f Finding) String() string { return enum.Name(findingNames[:], uint8(f), "Finding") }

// MarshalText returns the word of [Conclusion.String]. It fails for a value
// outside the enumeration.
func (c Conclusion) MarshalText() ([]byte, error) {
	return enum.Text(conclusionNames[:], uint8(c), "conclusion")
}

// MarshalText returns the word of [Finding.String]. It fails for a value
// outside the enumeration.
func (f Finding) MarshalText() ([]byte, error) {
	return enum.Text(findingNames[:], uint8(f), "finding")
}

// UnmarshalText accepts exactly the words that [Conclusion.MarshalText] makes.
func (c *Conclusion) UnmarshalText(text []byte) error {
	n, err := enum.Value(conclusionNames[:], text, "conclusion")
	if err == nil {
		*c = Conclusion(n)
	}
	return err
}

// UnmarshalText accepts exactly the words that [Finding.MarshalText] makes.
func (f *Finding) UnmarshalText(text []byte) error {
	n, err := enum.Value(findingNames[:], text, "finding")
	if err == nil {
		*f = Finding(n)
	}
	return err
}
