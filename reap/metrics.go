package reap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// Metrics counts what the records of a store tell, and what one look at each
// job without an end sees. Any program that asks at the same time is told the
// same. Run ids, process numbers and words of jobs are not in it.
type Metrics struct {
	// Ends counts ends by who wrote them and how the work came out.
	Ends []EndCount `json:"ends"`
	// RestartReconciliations counts jobs that were found gone without a
	// reported end.
	RestartReconciliations int64 `json:"restart_reconciliations"`
	// Cleanup and Ownership count ended jobs with a history, by their words.
	Cleanup   map[string]int64 `json:"cleanup"`
	Ownership map[string]int64 `json:"ownership"`
	// Drains counts by outcome. DrainSeconds is the sum of their durations, and
	// PersistenceFailures counts the jobs that they could not record.
	Drains              map[string]int64 `json:"drains"`
	DrainSeconds        float64          `json:"drain_seconds"`
	PersistenceFailures int64            `json:"persistence_failures"`
	// Observations counts the jobs without an end, by the conclusion about
	// their process now.
	Observations map[string]int64 `json:"observations"`
	// Unusable counts the records that cannot be used.
	Unusable int64 `json:"unusable_records"`
	// Admission is open or closed.
	Admission string `json:"admission"`
}

// EndCount is one number of Metrics.
type EndCount struct {
	Source  string `json:"source"`
	Outcome string `json:"outcome"`
	Count   int64  `json:"count"`
}

// tally is what is counted of ended jobs. It is also what the ledger keeps of
// those that were removed.
type tally struct {
	ends, cleanup, ownership map[string]int64
	reconciled               int64
}

func newTally() tally {
	return tally{map[string]int64{}, words[sidecar.Cleanup](), words[sidecar.Ownership](), 0}
}

// words counts none of each word of an enumeration.
func words[E interface {
	~uint8
	MarshalText() ([]byte, error)
}]() map[string]int64 {
	counts := map[string]int64{}
	for e := E(0); ; e++ {
		word, err := e.MarshalText()
		if err != nil {
			return counts
		}
		counts[string(word)] = 0
	}
}

// count adds an ended job.
func (t *tally) count(rec *sidecar.Record) {
	source := textOf(rec, "terminal_source")
	if source = closedWord(sources, source); source == sidecar.SourceReaper {
		t.reconciled++
	}
	t.ends[source+"/"+sidecar.OutcomeOf(rec)]++
	if h := sidecar.HistoryOf(rec); h.Kept {
		t.cleanup[h.Cleanup.String()]++
		t.ownership[h.Ownership.String()]++
	}
}

var (
	sources = []string{
		sidecar.SourceHook, sidecar.SourceKill, sidecar.SourceLifecycle, sidecar.SourceOperator,
		sidecar.SourceReaper, sidecar.SourceSpawn, sidecar.SourceSupervisor,
	}
	outcomes = []string{sidecar.Succeeded, sidecar.Failed, sidecar.Cancelled, sidecar.Indeterminate}
)

// otherWord stands for what is none of a closed set: a record may say anything.
const otherWord = "other"

func closedWord(words []string, word string) string {
	if slices.Contains(words, word) {
		return word
	}
	return otherWord
}

// wordOf is a word of an enumeration, or stands for a stranger.
func wordOf[E interface {
	~uint8
	MarshalText() ([]byte, error)
}](word string) string {
	return closedWord(slices.Collect(maps.Keys(words[E]())), word)
}

// closed counts under the words of a closed set what the ledger may have under
// any: it may be a newer program's.
func closed(counts map[string]int64, word func(key string) string) map[string]int64 {
	out := map[string]int64{}
	for key, n := range counts {
		out[word(key)] += n
	}
	return out
}

const (
	prunedName  = "pruned"
	pruningName = "pruning"
)

// read adds what the ledger has of removed jobs, and write sets it.
func (t *tally) read(ledger *sidecar.Record) {
	was, ok := ledger.Object(prunedName)
	if !ok {
		return
	}
	n, _ := was.Int("reconciliations")
	t.reconciled += n
	for name, to := range t.maps() {
		counts, _ := was.Object(name)
		if counts == nil {
			continue
		}
		for _, key := range counts.Names() {
			n, _ := counts.Int(key)
			to[key] += n
		}
	}
}

func (t *tally) write(ledger *sidecar.Record) {
	fields := []sidecar.Field{{Name: "reconciliations", Value: sidecar.Int(t.reconciled)}}
	for _, name := range []string{"ends", "cleanup", "ownership"} {
		counts := t.maps()[name]
		var list []sidecar.Field
		for _, key := range slices.Sorted(maps.Keys(counts)) {
			if counts[key] != 0 {
				list = append(list, sidecar.Field{Name: key, Value: sidecar.Int(counts[key])})
			}
		}
		fields = append(fields, sidecar.Field{Name: name, Value: sidecar.Object(list...)})
	}
	ledger.Set(prunedName, sidecar.Object(fields...))
}

func (t *tally) maps() map[string]map[string]int64 {
	return map[string]map[string]int64{"ends": t.ends, "cleanup": t.cleanup, "ownership": t.ownership}
}

// metricsTries bounds how often the store is listed again because the ledger
// changed meanwhile. A try takes as long as a listing.
const metricsTries = 64

// errBusyLedger is the error of numbers that would not be exact.
var errBusyLedger = errors.New("reap: the ledger changed at every look; ask again")

// Metrics looks at every job of the store and writes nothing. The numbers are
// exact while jobs are being removed: each is counted once, in its record or in
// the ledger. The error is the store's or the ledger's, which could not be read,
// or the context's.
func (o Observer) Metrics(ctx context.Context) (Metrics, error) {
	ids, err := o.Store.IDs()
	if err != nil {
		return Metrics{}, err
	}
	looks := make([]look, len(ids))
	if err := each(ctx, len(ids), func(i int) { looks[i], _ = o.examine(ids[i]) }); err != nil {
		return Metrics{}, err
	}
	for range metricsTries {
		before, err := o.ledger().read()
		if err != nil {
			return Metrics{}, err
		}
		if ids, err = o.Store.IDs(); err != nil {
			return Metrics{}, err
		}
		// Jobs never come back: these were in the store as the ledger was so.
		if after, err := o.ledger().read(); err != nil || after.Equal(before) {
			return count(before, looks, ids), err
		}
	}
	return Metrics{}, errBusyLedger
}

// count counts the jobs that were in the store, as they were looked at, beside
// what the ledger had of others then.
func count(ledger *sidecar.Record, looks []look, ids []string) Metrics {
	m := Metrics{Observations: words[jobprobe.Conclusion](), Drains: map[string]int64{}}
	inStore := map[string]bool{}
	for _, id := range ids {
		inStore[id] = true
	}
	for _, id := range pruning(ledger) {
		inStore[id] = false
	}
	t := newTally()
	t.read(ledger)
	for i := range looks {
		switch l := &looks[i]; {
		case !inStore[l.id], l.reading.State == sidecar.Absent:
		case l.record() == nil:
			m.Unusable++
		case l.record().Ended():
			t.count(l.record())
		default:
			m.Observations[l.live.Conclusion.String()]++
		}
	}
	m.fill(ledger, &t)
	return m
}

func (m *Metrics) fill(rec *sidecar.Record, t *tally) {
	m.Ends = []EndCount{}
	ends := closed(t.ends, func(key string) string {
		source, outcome, _ := strings.Cut(key, "/")
		return closedWord(sources, source) + "/" + closedWord(outcomes, outcome)
	})
	for _, key := range slices.Sorted(maps.Keys(ends)) {
		source, outcome, _ := strings.Cut(key, "/")
		m.Ends = append(m.Ends, EndCount{source, outcome, ends[key]})
	}
	m.RestartReconciliations = t.reconciled
	m.Cleanup = closed(t.cleanup, wordOf[sidecar.Cleanup])
	m.Ownership = closed(t.ownership, wordOf[sidecar.Ownership])
	for _, name := range drainNames[1:] {
		m.Drains[name], _ = rec.Int("drains_" + name)
	}
	ms, _ := rec.Int("drain_ms")
	m.DrainSeconds = float64(ms) / 1000
	m.PersistenceFailures, _ = rec.Int("persistence_failures")
	m.Admission = admissionOpen
	if textOf(rec, admissionName) == admissionClosed {
		m.Admission = admissionClosed
	}
}

// pruning are the jobs that a prune has counted and may not have removed yet.
func pruning(ledger *sidecar.Record) []string {
	return slices.DeleteFunc(strings.Fields(textOf(ledger, pruningName)), func(id string) bool {
		return !sidecar.ValidRunID(id)
	})
}

// WriteText writes the metrics in the text format of Prometheus, version 0.0.4
// (its documentation, "Exposition formats").
func (m *Metrics) WriteText(w io.Writer) error {
	var b strings.Builder
	family := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP jobprobe_%s %s\n# TYPE jobprobe_%s %s\n", name, help, name, kind)
	}
	labelled := func(name, label string, counts map[string]int64) {
		for _, word := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "jobprobe_%s{%s=%q} %d\n", name, label, word, counts[word])
		}
	}
	family("ends_total", "counter", "Ends on record, by who wrote them and how the work came out.")
	for _, e := range m.Ends {
		fmt.Fprintf(&b, "jobprobe_ends_total{source=%q,outcome=%q} %d\n", e.Source, e.Outcome, e.Count)
	}
	family("restart_reconciliations_total", "counter", "Jobs that were found gone without a reported end.")
	fmt.Fprintf(&b, "jobprobe_restart_reconciliations_total %d\n", m.RestartReconciliations)
	family("cleanup", "gauge", "Ended jobs with a history, by what became of their cleanup.")
	labelled("cleanup", "cleanup", m.Cleanup)
	family("ownership", "gauge", "Ended jobs with a history, by what is proved of their processes.")
	labelled("ownership", "ownership", m.Ownership)
	family("drains_total", "counter", "Drains, by outcome.")
	labelled("drains_total", "outcome", m.Drains)
	family("drain_seconds_total", "counter", "Time that drains have taken.")
	fmt.Fprintf(&b, "jobprobe_drain_seconds_total %s\n", strconv.FormatFloat(m.DrainSeconds, 'f', -1, 64))
	family("persistence_failures_total", "counter", "Jobs that drains could not record.")
	fmt.Fprintf(&b, "jobprobe_persistence_failures_total %d\n", m.PersistenceFailures)
	family("observations", "gauge", "Jobs without an end, by the conclusion about their process.")
	labelled("observations", "conclusion", m.Observations)
	family("unusable_records", "gauge", "Records that cannot be used.")
	fmt.Fprintf(&b, "jobprobe_unusable_records %d\n", m.Unusable)
	family("admission_open", "gauge", "1 if the store admits jobs, 0 if it is drained.")
	fmt.Fprintf(&b, "jobprobe_admission_open %d\n", map[bool]int{true: 1}[m.Admission == admissionOpen])
	_, err := io.WriteString(w, b.String())
	return err
}
