package sidecar

import "time"

// FormatTime spells a time as the peer does (Python's isoformat of an aware
// UTC datetime): "2026-07-25T00:00:00+00:00", with six digits of a second if
// its microseconds are not zero. What is finer than a microsecond is dropped.
func FormatTime(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}

// timeLayouts are tried in order. Each also accepts a fraction of a second
// (time.Parse); the last ones have no zone and are taken as UTC.
var timeLayouts = [...]string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07:00:00",
	"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
}

// ParseTime reads a time of a record, in any zone; a time without one is UTC.
// It reports false for anything that is not a date and a time.
func ParseTime(s string) (time.Time, bool) {
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
