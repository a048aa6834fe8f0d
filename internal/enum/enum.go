// Package enum gives the words of an enumeration whose values are indices of a
// list of names. It is the one text codec of the project's closed vocabularies.
package enum

import "fmt"

// Name returns the name of n, or its number after the kind if it has none.
func Name(names []string, n uint8, kind string) string {
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprintf("%s(%d)", kind, n)
}

// Text returns the name of n. A value without one is an error.
func Text(names []string, n uint8, kind string) ([]byte, error) {
	if int(n) < len(names) {
		return []byte(names[n]), nil
	}
	return nil, fmt.Errorf("jobprobe: %s %d has no name", kind, n)
}

// Value returns what has exactly this name. No name is an error.
func Value(names []string, text []byte, kind string) (uint8, error) {
	for i, name := range names {
		if string(text) == name {
			return uint8(i), nil
		}
	}
	return 0, fmt.Errorf("jobprobe: unknown %s %q", kind, text)
}
