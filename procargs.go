package jobprobe

import (
	"bytes"
	"encoding/binary"
)

// procargsEnv finds the environment in the answer of sysctl kern.procargs2
// (macOS): the argument count as an int32, the path of the executable, NUL
// padding, that many arguments and then the environment, each string ended by
// NUL. An empty string ends the environment; a last string that is cut short
// is left out. ok is false if the arguments are not all there.
func procargsEnv(raw []byte) (env []byte, ok bool) {
	if len(raw) < 4 {
		return nil, false
	}
	argc := binary.LittleEndian.Uint32(raw)
	_, rest, ok := bytes.Cut(raw[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for ; ok && argc > 0; argc-- {
		_, rest, ok = bytes.Cut(rest, []byte{0})
	}
	if !ok || len(rest) == 0 || rest[0] == 0 {
		return nil, ok
	}
	end := bytes.Index(rest, []byte{0, 0})
	if end < 0 {
		end = max(bytes.LastIndexByte(rest, 0), 0)
	}
	return rest[:end], true
}

// markedProcargs says whether that environment carries a run's marker.
func markedProcargs(raw []byte, runID string) bool {
	env, ok := procargsEnv(raw)
	if !ok || runID == "" {
		return false
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		name, value, _ := bytes.Cut(entry, []byte("="))
		if string(value) == runID && (string(name) == "JOBPROBE_RUN_ID" || string(name) == "LIONAGI_MCP_JOB_RUN_ID") {
			return true
		}
	}
	return false
}
