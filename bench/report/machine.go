package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine says in a few words what this was measured on.
func machine() (string, error) {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", err
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	kind := "a machine"
	if strings.Contains(string(info), " hypervisor") {
		kind = "a virtual machine"
	}
	return fmt.Sprintf("%s with %d cores (%s), Linux %s, %s, %s", kind, runtime.NumCPU(), model(string(info)),
		strings.TrimSpace(string(release)), runtime.GOARCH, runtime.Version()), nil
}

// model is the processor's name, where /proc/cpuinfo has it.
func model(info string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unnamed"
}
