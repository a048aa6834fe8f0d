//go:build unix

package main

import "golang.org/x/sys/unix"

// signalNumber is the number of a signal's name here, 0 if it has none.
func signalNumber(name string) int { return int(unix.SignalNum(name)) }
