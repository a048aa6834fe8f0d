//go:build unix

package sidecar_test

// unixModes says whether permission bits mean what they say.
const unixModes = true
