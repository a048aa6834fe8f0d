//go:build !windows

package main

import "os"

// takesEscapes is whether a terminal understands escape sequences.
func takesEscapes(*os.File) bool { return true }
