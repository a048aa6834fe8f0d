package jobprobe

import (
	"encoding/binary"
	"slices"
	"testing"
)

// tableEntryOf is one SYSTEM_PROCESS_INFORMATION with room for its threads.
func tableEntryOf(pid uint64, created int64, threads uint32) []byte {
	b := make([]byte, 256+80*int(threads))
	for i := range b {
		b[i] = 0xA5
	}
	binary.LittleEndian.PutUint32(b[0:], uint32(len(b)))
	binary.LittleEndian.PutUint32(b[4:], threads)
	binary.LittleEndian.PutUint64(b[32:], uint64(created))
	binary.LittleEndian.PutUint64(b[80:], pid)
	return b
}

// winTable chains entries; the last one says that it is.
func winTable(entries ...[]byte) []byte {
	if len(entries) > 0 {
		binary.LittleEndian.PutUint32(entries[len(entries)-1], 0)
	}
	return slices.Concat(entries...)
}

const winCreated = 133700000000000001 // beyond 2^53

func TestFindProcess(t *testing.T) {
	table := winTable(
		tableEntryOf(0, 0, 2),
		tableEntryOf(4, 133600000000000000, 1),
		tableEntryOf(1<<32|4712, 5, 1),
		tableEntryOf(4712, winCreated, 3),
		tableEntryOf(4716, -1, 3),
		tableEntryOf(4720, winCreated+2, 0),
	)
	for _, tt := range []struct {
		name  string
		table []byte
		pid   uint32
		want  tableRow
		ok    bool
	}{
		{"first", table, 0, tableRow{0, 2}, true},
		{"middle", table, 4712, tableRow{winCreated, 3}, true},
		{"last", table, 4720, tableRow{winCreated + 2, 0}, true},
		{"not listed", table, 4724, tableRow{}, false},
		{"created before 1601", table, 4716, tableRow{}, false},
		{"empty", nil, 4712, tableRow{}, false},
		{"cut in the entry", table[:len(table)-1], 4720, tableRow{}, false},
		{"spare room behind the last", append(slices.Clone(table), make([]byte, 512)...), 4720, tableRow{winCreated + 2, 0}, true},
	} {
		if got, ok := findProcess(tt.table, tt.pid); got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %+v %v, want %+v %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

// A damaged link ends the walk: it cannot loop, go back or leave the table.
func TestFindProcessDamaged(t *testing.T) {
	for _, next := range []uint32{1, 4, 255, 100000, 1 << 31, ^uint32(0)} {
		table := winTable(tableEntryOf(4, 1, 1), tableEntryOf(4712, winCreated, 3))
		binary.LittleEndian.PutUint32(table, next)
		if row, ok := findProcess(table, 4712); ok {
			t.Errorf("next %d: found %+v", next, row)
		}
	}
}

// FuzzProcessTable holds that a row that was found is in the table, in an
// entry that lies in it whole, and that nothing behind it matters.
func FuzzProcessTable(f *testing.F) {
	f.Add(winTable(tableEntryOf(0, 0, 2), tableEntryOf(4712, winCreated, 3)), uint32(4712))
	f.Add(winTable(tableEntryOf(4712, winCreated, 0)), uint32(4712))
	f.Add(make([]byte, 256), uint32(0))
	f.Add([]byte{}, uint32(4))
	f.Fuzz(func(t *testing.T, table []byte, pid uint32) {
		row, ok := findProcess(table, pid)
		if !ok {
			if row != (tableRow{}) {
				t.Errorf("not found, but %+v", row)
			}
			return
		}
		for at := 0; at+256 <= len(table); at++ {
			e := table[at:]
			if binary.LittleEndian.Uint64(e[80:]) == uint64(pid) &&
				binary.LittleEndian.Uint64(e[32:]) == row.created &&
				binary.LittleEndian.Uint32(e[4:]) == row.threads {
				again, ok := findProcess(table[:at+256], pid)
				if !ok || again != row {
					continue // an earlier look-alike outside the chain
				}
				return
			}
		}
		t.Errorf("%+v is not in the table", row)
	})
}
