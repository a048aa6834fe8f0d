package sidecar

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// maxRunID is the length of the longest run id, in bytes.
const maxRunID = 128

// ValidRunID reports whether id may name a run: one path element of 1 to 128
// ASCII letters, digits, '.', '_' and '-', the first a letter or a digit.
// Everything else could name another file.
func ValidRunID(id string) bool {
	if id == "" || len(id) > maxRunID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// NewRunID mints an id as the peer does: the second in UTC, then 24 random
// bits, "20260801T000000-abcdef". Ids of later seconds sort later. It is not
// certain to be free; [Store.Create] finds out.
func NewRunID(now time.Time) string {
	var random [3]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	return now.UTC().Format("20060102T150405-") + hex.EncodeToString(random[:])
}
