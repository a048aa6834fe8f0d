package jobprobe

import "encoding/binary"

// The layout of SYSTEM_PROCESS_INFORMATION (winternl.h) on 64-bit Windows,
// which probe_windows.go checks at compile time.
const (
	tableNext    = 0   // NextEntryOffset, uint32
	tableThreads = 4   // NumberOfThreads, uint32
	tableCreated = 32  // CreateTime, int64, 100 ns since 1601
	tablePID     = 80  // UniqueProcessId, a handle-sized number
	tableEntry   = 256 // the fixed part of an entry; its threads follow
)

// tableRow is what the process table tells of one process.
type tableRow struct {
	created uint64 // 100 ns since 1601
	threads uint32
}

// findProcess looks a process up in the answer of NtQuerySystemInformation
// (SystemProcessInformation): a chain of entries, each with the distance to
// the next one, 0 in the last. It reads nothing outside the table, stops at a
// damaged link, and a process that it does not find may well exist.
func findProcess(table []byte, pid uint32) (row tableRow, ok bool) {
	for len(table) >= tableEntry {
		if binary.LittleEndian.Uint64(table[tablePID:]) == uint64(pid) {
			created := int64(binary.LittleEndian.Uint64(table[tableCreated:]))
			if created < 0 {
				return tableRow{}, false
			}
			return tableRow{
				created: uint64(created),
				threads: binary.LittleEndian.Uint32(table[tableThreads:]),
			}, true
		}
		next := binary.LittleEndian.Uint32(table[tableNext:])
		if next < tableEntry || uint64(next) > uint64(len(table)) {
			return tableRow{}, false
		}
		table = table[next:]
	}
	return tableRow{}, false
}
