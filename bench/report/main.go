// Report writes BENCHMARKS.md from the comma-separated tables of benchstat,
// read from standard input; see make benchmarks.
package main

import (
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
)

func main() {
	runs := flag.Int("runs", 0, "how many runs a number is of")
	growth := flag.Int("growth-runs", 0, "how many those of the growth are of")
	load := flag.String("load", "", "load averages before the first run")
	flag.Parse()
	all, err := read(os.Stdin)
	if err == nil {
		err = write(os.Stdout, all, *runs, *growth, *load)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// measured is what benchstat says of one benchmark, by unit.
type measured struct {
	name  string
	units map[string]cell
}

// cell is a median, and how far from it the runs lie (such as "3%").
type cell struct {
	median float64
	spread string
}

// read reads benchstat's tables, one for each unit: a line that names the
// unit, then one for each benchmark. All other lines are of no interest.
func read(in io.Reader) ([]measured, error) {
	var all []measured
	where := map[string]int{}
	lines := csv.NewReader(in)
	lines.FieldsPerRecord = -1
	unit := ""
	for {
		line, err := lines.Read()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(line) < 3 || line[0] == "geomean" {
			continue
		}
		if line[0] == "" {
			unit = line[1]
			continue
		}
		median, err := strconv.ParseFloat(line[1], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line[0], err)
		}
		name := strings.TrimSuffix(line[0], fmt.Sprintf("-%d", runtime.GOMAXPROCS(0)))
		if _, seen := where[name]; !seen {
			where[name] = len(all)
			all = append(all, measured{name, map[string]cell{}})
		}
		all[where[name]].units[unit] = cell{median, line[2]}
	}
}

func write(out io.Writer, all []measured, runs, growth int, load string) error {
	machine, err := machine()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, head, runs, growth, machine, load)
	for _, t := range tables {
		if err := t.write(out, all); err != nil {
			return err
		}
	}
	return nil
}
