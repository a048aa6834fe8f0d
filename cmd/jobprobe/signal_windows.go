package main

// signalNumber is 0: no process ends by a signal here.
func signalNumber(string) int { return 0 }
