package sidecar

// WithSteps returns a store whose transactions tell step of each point they
// come to: "lock" before each try, then "locked", "read", "changed", "swept",
// "created", "checked", "renamed" and "released".
func (s Store) WithSteps(step func(point string)) Store {
	s.step = step
	return s
}
