//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// resized is the signal of a terminal whose size has changed.
var resized os.Signal = unix.SIGWINCH

// signalNumber is the number of a signal's name here, 0 if it has none.
func signalNumber(name string) int { return int(unix.SignalNum(name)) }
