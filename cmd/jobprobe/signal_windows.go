package main

import (
	"os"
	"syscall"
)

// resized is a signal that never comes: a console tells nobody of its size.
var resized os.Signal = syscall.Signal(0x1c)

// signalNumber is 0: no process ends by a signal here.
func signalNumber(string) int { return 0 }
