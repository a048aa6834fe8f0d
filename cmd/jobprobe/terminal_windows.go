package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// takesEscapes is whether a console understands escape sequences: it is asked to
// (ENABLE_VIRTUAL_TERMINAL_PROCESSING), which those before Windows 10 refuse.
func takesEscapes(file *os.File) bool {
	var mode uint32
	handle := windows.Handle(file.Fd())
	return windows.GetConsoleMode(handle, &mode) == nil &&
		windows.SetConsoleMode(handle, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
