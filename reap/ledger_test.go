package reap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jobprobe/jobprobe/sidecar"
)

// keeping is a world whose ledger is of these bytes, or a directory that somebody
// was killed in who made it.
func keeping(t *testing.T, data string) *world {
	w := newWorld(t)
	w.put(filepath.Join(ledgerDir, ledgerName), data)
	return w
}

// A ledger that is of no use refuses every start and every count, says so, and is
// changed by nobody; reopening puts it aside as it is and begins a new one.
func TestLedgerDamaged(t *testing.T) {
	for name, data := range map[string]string{
		"empty": "", "half": `{"run_id": "ledger", "admission": "op`, "no object": `["ledger"]`, "zeros": "\x00\x00\x00",
		"twice": `{"run_id": "ledger", "admission": "closed", "admission": "open"}`,
		"a job": `{"run_id": "20260101T000000-x", "admission": "open"}`, "nothing": `{}`,
	} {
		w := keeping(t, data)
		w.put("job", `{"run_id": "job", "finished_at": "2020-01-01T00:00:00+00:00"}`)
		if err := w.Admits(); err == nil || errors.Is(err, ErrDraining) || !strings.Contains(err.Error(), w.ledger().Dir) || !strings.Contains(err.Error(), "drain --reopen") {
			t.Errorf("%s: admits: %v", name, err)
		}
		if m, err := w.Metrics(t.Context()); err == nil {
			t.Errorf("%s: counted: %+v", name, m)
		}
		if p, err := w.Prune(t.Context(), PruneOptions{}); err == nil || len(p.Removed) > 0 {
			t.Errorf("%s: pruned: %+v, %v", name, p, err)
		}
		if got := string(w.bytes(filepath.Join(ledgerDir, ledgerName))); got != data {
			t.Errorf("%s: the ledger is now %q", name, got)
		}
		if err := w.Reopen(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := w.Admits(); err != nil {
			t.Errorf("%s: after reopening: %v", name, err)
		}
		aside, _ := filepath.Glob(filepath.Join(w.ledger().Dir, "ledger.damaged-*", "job.json"))
		if len(aside) != 1 {
			t.Fatalf("%s: put aside: %v", name, aside)
		}
		if got, err := os.ReadFile(aside[0]); err != nil || string(got) != data {
			t.Errorf("%s: put aside: %q, %v", name, got, err)
		}
		if m, err := w.Metrics(t.Context()); err != nil || len(m.Ends) != 1 {
			t.Errorf("%s: counted: %+v, %v", name, m, err)
		}
	}
}

// One that does not say whether jobs are admitted admits none; the rest of it
// stays when it is reopened.
func TestLedgerSaysNothing(t *testing.T) {
	for _, word := range []string{"", `, "admission": null`, `, "admission": "opne"`, `, "admission": true`} {
		w := keeping(t, `{"run_id": "ledger", "drains_clean": 7`+word+`}`)
		if err := w.Admits(); err == nil || errors.Is(err, ErrDraining) {
			t.Errorf("%q admits: %v", word, err)
		}
		if err := w.Reopen(t.Context()); err != nil {
			t.Errorf("%q: %v", word, err)
		}
		if m, err := w.Metrics(t.Context()); err != nil || m.Drains["clean"] != 7 || m.Admission != admissionOpen {
			t.Errorf("%q: %+v, %v", word, m, err)
		}
	}
}

// What the system did not let be read may be whole: it is left where it is.
func TestLedgerNotRead(t *testing.T) {
	w := keeping(t, `{"run_id": "ledger", "admission": "closed"}`)
	path := filepath.Join(w.ledger().Dir, ledgerName, "job.json")
	if err := os.Rename(path, path+".kept"); err != nil {
		t.Fatal(err)
	}
	if err := symlink("job.json.kept", path); err != nil {
		t.Skip(err)
	}
	if err := w.Reopen(t.Context()); err == nil {
		t.Error("reopened")
	}
	if aside, _ := filepath.Glob(filepath.Join(w.ledger().Dir, "*.damaged-*")); len(aside) > 0 {
		t.Errorf("put aside: %v", aside)
	}
	if err := w.Admits(); err == nil {
		t.Error("admits")
	}
}

// A newer program's ledger is read, and not written to.
func TestLedgerTooNew(t *testing.T) {
	data := `{"run_id": "ledger", "admission": "closed", "contract_version": 2}`
	w := keeping(t, data)
	if err := w.Admits(); !errors.Is(err, ErrDraining) {
		t.Errorf("admits: %v", err)
	}
	err := w.Reopen(t.Context())
	if refused, ok := errors.AsType[*sidecar.RefusedError](err); !ok || refused.Reason != sidecar.TooNew {
		t.Errorf("reopened: %v", err)
	}
	if got := string(w.bytes(filepath.Join(ledgerDir, ledgerName))); got != data {
		t.Errorf("the ledger is now %q", got)
	}
}

// A directory without a record, which somebody left that was killed making it, is
// taken over with what is in it.
func TestLedgerTakenOver(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.ledger().Dir, ledgerName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".job.json.1.0123abcd.tmp"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Admits(); err != nil {
		t.Errorf("admits: %v", err)
	}
	if err := w.ledger().admission(t.Context(), admissionClosed, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := w.Admits(); !errors.Is(err, ErrDraining) {
		t.Errorf("admits: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
