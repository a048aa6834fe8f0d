package main

import (
	"fmt"
	"io"
	"strings"
)

const head = `# Benchmarks

Written by ` + "`make benchmarks`" + `; edit the generator, below bench/report, not this page. Nothing fails by a number here.

A time says something of one machine; a ratio says something of the program. So each benchmark measures its
floor, the least system calls that any program needs for the same answer, in the same run and in turns, and
what counts is the ratio of the two. A number is the median of %d runs (of %d in the last table), with the
half width of its 95%% confidence interval, by benchstat (∞: too few runs to say).

Measured on %s.
Load averages (1, 5 and 15 minutes) when the runs began: %s. What else a machine does adds to times,
and to most ratios: compare what was measured where nothing else ran.
`

// table is a part of the page: of the benchmarks below a name, some units.
type table struct {
	title, text string
	below       string
	columns     []column
}

type column struct{ heading, unit string }

var tables = []table{
	{"A probe", `Floor: the bare system calls that answer the same, without Go's. "kill-floor" is a bare kill(pid, 0), which
answers less: it takes any process with that number for the one. "file-floor" is to open, read and close
/proc/PID/stat.`,
		"Probe/", []column{{"x floor", "ratio"}, {"probe", "probe-sec"}, {"floor", "raw-sec"}}},
	{"Is it still that process: beside others", `The same question about one live child, as a multiple of a probe by pidfs inode. jobprobe/ticks is a probe
where the kernel has no such inode. The IsRunning of gopsutil and of psutil compare start times, and procfs
reads one; PidExists only looks whether there is such a number. gopsutil's IsRunning now and then says no of
a live child: only its time is told here. psutil is measured inside Python.`,
		"Alive/", []column{{"x probe", "x-pidfs"}, {"time", "call-sec"}, {"probe", "pidfs-sec"}, {"allocations", "allocs/call"}}},
	{"A record", `Floors: open, read and close the file; lock, read, write, sync, rename and sync the directory.`,
		"", []column{{"x floor", "ratio"}, {"record", "record-sec"}, {"floor", "raw-sec"}}},
	{"From a death to the return of a wait", `Floor: a poll of the pidfd that returns, and one durable update of the record.`,
		"Wake", []column{{"x floor", "ratio-p50"}, {"wait (µs)", "wait-us-p50"}, {"floor (µs)", "floor-us-p50"}}},
	{"A status command, from start to exit", `Floor: a program that does nothing. Of the medians, of the best, and of the processor time.`,
		"Process", []column{{"x floor", "ratio-p50"}, {"best", "ratio-min"}, {"x floor, processor time", "cpu-ratio-p50"}, {"status (µs)", "status-us-p50"}, {"floor (µs)", "empty-us-p50"}}},
	{"A run command, from start to the first instruction of the work", `Floor: four starts of a program that does nothing, and two durable updates. Of the medians, and of the best.`,
		"Run", []column{{"x floor", "ratio-p50"}, {"best", "ratio-min"}, {"run (ms)", "run-ms-p50"}, {"floor (ms)", "floor-ms-p50"}}},
	{"How it grows", `One command with --json from start to exit, in a store of so many jobs that all live. Floor of list, sweep and
wait, which look at all of them (wait once): the bare system calls that read each record and look at each
process. Floor of status, which is asked about one: the start of a program that does nothing. Memory is the
most that was resident.`,
		"Growth/", []column{{"x floor", "x-floor"}, {"x floor, processor time", "cpu-x-floor"}, {"time", "sec/op"}, {"processor time", "cpu-sec/op"}, {"memory", "peak-B"}}},
}

// write writes a table of the benchmarks that its columns know. One that has
// none was not measured, which is an error: the page would not tell.
func (t table) write(out io.Writer, all []measured) error {
	fmt.Fprintf(out, "\n## %s\n\n%s\n\n| |", t.title, t.text)
	for _, c := range t.columns {
		fmt.Fprintf(out, " %s |", c.heading)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("---:|", len(t.columns)))
	rows := 0
	for _, m := range all {
		if _, ok := m.units[t.columns[0].unit]; !ok || t.below == "" && strings.Contains(m.name, "/") || !strings.HasPrefix(m.name, t.below) {
			continue
		}
		rows++
		_, name, sub := strings.Cut(m.name, "/")
		if !sub {
			name = m.name
		}
		fmt.Fprintf(out, "| %s |", name)
		for _, c := range t.columns {
			fmt.Fprintf(out, " %s |", m.units[c.unit].show(c.unit))
		}
		fmt.Fprintln(out)
	}
	if rows == 0 {
		return fmt.Errorf("no benchmark for %q", t.title)
	}
	return nil
}

// show is a number with three digits that count, in a unit of a fitting size.
func (c cell) show(unit string) string {
	if c.spread == "" {
		return ""
	}
	return scaled(c.median, unit) + " ± " + c.spread
}

func scaled(v float64, unit string) string {
	type size struct {
		least float64
		name  string
	}
	sizes := []size{{1, ""}}
	switch {
	case strings.HasSuffix(strings.TrimSuffix(unit, "/op"), "sec"):
		sizes = []size{{1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}, {1e-9, " ns"}}
	case strings.HasSuffix(strings.TrimSuffix(unit, "/op"), "B"):
		sizes = []size{{1e6, " MB"}, {1e3, " kB"}, {1, " B"}}
	}
	for _, s := range sizes {
		if v >= s.least {
			return digits(v/s.least) + s.name
		}
	}
	last := sizes[len(sizes)-1]
	return digits(v/last.least) + last.name
}

// digits shows three digits that count, and whole numbers whole.
func digits(v float64) string {
	switch {
	case v == float64(int64(v)) || v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
