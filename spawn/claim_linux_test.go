package spawn

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

const key = "issue 7"

// claimed starts a job under a claim.
func claimed(t *testing.T, store sidecar.Store, key string, argv ...string) (Handle, error) {
	t.Helper()
	return Start(t.Context(), store, Request{Argv: argv, Claim: key})
}

// held fails unless the error says who holds the claim.
func wantHeld(t *testing.T, err error, holder string, state ClaimState) {
	t.Helper()
	held, ok := errors.AsType[*ClaimHeldError](err)
	if !ok || held.Holder != holder || held.State != state || held.Key != key {
		t.Errorf("%v (%+v), want the holder %s, %v", err, held, holder, state)
	}
}

// tree lists every file of a store with its contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, _ := os.ReadFile(path)
			files[path] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A claim is held until its holder's end is on record, and a refusal leaves
// nothing on disk.
func TestClaimIsHeldUntilTheEnd(t *testing.T) {
	store := newStore(t)
	h, err := claimed(t, store, key, "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := store.Read(h.RunID).Record.Text("claim"); got != key {
		t.Errorf("the record says claim %q", got)
	}
	before := tree(t, store.Dir)
	_, err = claimed(t, store, key, "true")
	wantHeld(t, err, h.RunID, ClaimHeld)
	if diff := cmp.Diff(before, tree(t, store.Dir)); diff != "" {
		t.Errorf("the refusal left traces (-before +after):\n%s", diff)
	}
	if _, err := claimed(t, store, key+"0", "true"); err != nil {
		t.Errorf("another key: %v", err)
	}
	// Nobody is there to record this end but the one who asks next.
	kill(t, h.Supervisor)
	_, err = claimed(t, store, key, "true")
	wantHeld(t, err, h.RunID, ClaimHeld)
	kill(t, h.Identity)
	next, err := claimed(t, store, key, "true")
	if err != nil {
		t.Fatal(err)
	}
	if job := status(t, store, h.RunID); !job.Terminal || string(job.TerminalSource) != `"mcp_orphan_reaper"` {
		t.Errorf("the old holder is %s, ended by %s", job.Status, job.TerminalSource)
	}
	finished(t, store, next.RunID)
	list, err := Claims(t.Context(), observer(store))
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if diff := cmp.Diff(Claim{key, next.RunID, ClaimFree, "completed"}, list[0]); diff != "" {
		t.Error(diff)
	}
}

// A holder whose supervisor lives holds on while it has still to tell the end.
func TestClaimOfAnEndingHolder(t *testing.T) {
	store := newStore(t)
	h, err := claimed(t, store, key, "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	sup := pin(t, h.Supervisor)
	send(t, sup, syscall.SIGSTOP)
	until(t, "the supervisor is stopped", func() bool { return state(h.Supervisor.PID) == 'T' })
	kill(t, h.Identity)
	_, err = claimed(t, store, key, "true")
	wantHeld(t, err, h.RunID, ClaimHeld)
	send(t, sup, syscall.SIGCONT)
	finished(t, store, h.RunID)
	if _, err = claimed(t, store, key, "true"); err != nil {
		t.Error(err)
	}
}

// Holders of which nothing can be told keep the claim.
func TestClaimOfAnUnknownHolder(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, job string, rec *sidecar.Record){
		"absent": func(t *testing.T, job string, _ *sidecar.Record) {
			if err := os.RemoveAll(job); err != nil {
				t.Fatal(err)
			}
		},
		"unreadable": func(t *testing.T, job string, _ *sidecar.Record) { write(t, job, "{") },
		"another host": func(t *testing.T, job string, rec *sidecar.Record) {
			raw, _ := rec.Raw("process_identity")
			id, err := jobprobe.ParseIdentity(raw)
			if err != nil {
				t.Fatal(err)
			}
			id.Boot, id.Host = "8a2b5b3e-0000-4000-8000-000000000000", "another"
			rec.Set("process_identity", identityValue(id))
			for _, name := range []string{"finished_at", "supervisor"} {
				rec.Set(name, sidecar.Null())
			}
			write(t, job, string(rec.Append(nil)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			h, err := claimed(t, store, key, "true")
			if err != nil {
				t.Fatal(err)
			}
			finished(t, store, h.RunID)
			until(t, "the supervisor is gone", func() bool {
				return jobprobe.Probe(h.Supervisor).Conclusion == jobprobe.ProcessGone
			})
			change(t, filepath.Join(store.Dir, h.RunID), store.Read(h.RunID).Record)
			before := tree(t, store.Dir)
			_, err = claimed(t, store, key, "true")
			held, ok := errors.AsType[*ClaimHeldError](err)
			if !ok || held.Holder != h.RunID || held.State == ClaimFree {
				t.Errorf("%v (%+v)", err, held)
			}
			if diff := cmp.Diff(before, tree(t, store.Dir)); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
		})
	}
}

func write(t *testing.T, job, record string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(job, "job.json"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A holder that never started holds the claim while its spawner lives, and
// no longer.
func TestClaimOfAPreparingHolder(t *testing.T) {
	store := newStore(t)
	me, err := jobprobe.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	prepare := func(spawner jobprobe.Identity, id string) {
		req := Request{Argv: []string{"true"}, Dir: "/", Claim: key}
		if err := store.Create(id, preparing(store, id, &req, spawner, time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	prepare(me, "one")
	if err := claimsOf(store).put(t.Context(), claimName(key), key, "one", true); err != nil {
		t.Fatal(err)
	}
	_, err = claimed(t, store, key, "true")
	wantHeld(t, err, "one", ClaimHeld)
	gone := me
	gone.PID = 1<<22 - 3
	prepare(gone, "two")
	if err := claimsOf(store).put(t.Context(), claimName(key), key, "two", false); err != nil {
		t.Fatal(err)
	}
	h, err := claimed(t, store, key, "true")
	if err != nil {
		t.Fatal(err)
	}
	finished(t, store, h.RunID)
	job := status(t, store, "two")
	if string(job.TerminalSource) != `"spawn_failure"` || text(job.ReasonCode) != "spawn_abandoned" {
		t.Errorf("%s, %s, %s", job.Status, job.TerminalSource, text(job.ReasonCode))
	}
}

// Keys are text, whatever it says: none is a path, and none meets another.
func TestClaimKeys(t *testing.T) {
	store := newStore(t)
	keys := []string{
		"a", "A", "a ", "..", "../../x", "/etc/passwd", "a/b", `a\b`, "lock", ".claims", "\x00", "\n", "CON",
		"\u00e9", "e\u0301", "\U0001f600", strings.Repeat("k", MaxClaim), strings.Repeat("\u00e9", MaxClaim/2),
	}
	for _, key := range keys {
		h, err := claimed(t, store, key, "true")
		if err != nil {
			t.Errorf("%q: %v", key, err)
			continue
		}
		if got, _ := store.Read(h.RunID).Record.Text("claim"); got != key {
			t.Errorf("%q is recorded as %q", key, got)
		}
	}
	list, err := Claims(t.Context(), observer(store))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, claim := range list {
		got = append(got, claim.Key)
	}
	slices.Sort(keys)
	if diff := cmp.Diff(keys, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	entries, err := os.ReadDir(filepath.Dir(store.Dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the store: %v, %v", entries, err)
	}
	for _, bad := range []string{strings.Repeat("k", MaxClaim+1), "\xff", "a\xc3"} {
		if _, err := claimed(t, store, bad, "true"); !errors.Is(err, ErrBadClaim) {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
}

// Damaged claims refuse, are told of, and hide no other.
func TestDamagedClaims(t *testing.T) {
	for name, damage := range map[string]string{
		"no JSON":       "{",
		"another key":   `{"run_id":"` + claimName(key) + `","key":"other","holder":"x"}`,
		"no run id":     `{"run_id":"` + claimName(key) + `","key":"` + key + `","holder":"../x"}`,
		"holder absent": `{"run_id":"` + claimName(key) + `","key":"` + key + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			if _, err := claimed(t, store, "whole", "true"); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(store.Dir, claimsDir, claimName(key))
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, dir, damage)
			before, _ := store.IDs()
			if _, err := claimed(t, store, key, "true"); err == nil {
				t.Error("admitted")
			}
			if after, _ := store.IDs(); !slices.Equal(before, after) {
				t.Errorf("jobs %v, then %v", before, after)
			}
			list, err := Claims(t.Context(), observer(store))
			if err == nil || len(list) != 1 || list[0].Key != "whole" {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

// What a killed taker left behind, a directory without a record, is taken over.
func TestClaimLeftHalfMade(t *testing.T) {
	store := newStore(t)
	dir := filepath.Join(store.Dir, claimsDir, claimName(key))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".job.json.1.deadbeef.tmp"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := claimed(t, store, key, "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	_, err = claimed(t, store, key, "true")
	wantHeld(t, err, h.RunID, ClaimHeld)
}

// Whoever sits on the lock of the claims delays an admission for a bounded
// time; nothing is left of it.
func TestClaimLockHeld(t *testing.T) {
	store := newStore(t)
	store.LockWait = 50 * time.Millisecond
	unlock, err := claimsOf(store).LockShared(t.Context(), claimsLock)
	if err != nil {
		t.Fatal(err)
	}
	_, err = claimed(t, store, key, "true")
	if refused, ok := errors.AsType[*sidecar.RefusedError](err); !ok || refused.Reason != sidecar.LockUnavailable {
		t.Errorf("%v", err)
	}
	unlock()
	if ids, _ := store.IDs(); len(ids) != 0 {
		t.Errorf("jobs %v", ids)
	}
	if _, err := claimed(t, store, key, "true"); err != nil {
		t.Error(err)
	}
}

func TestClaimStateWords(t *testing.T) {
	for s := ClaimUnknown; s <= ClaimFree; s++ {
		text, err := s.MarshalText()
		var back ClaimState
		if err != nil || back.UnmarshalText(text) != nil || back != s || s.String() != string(text) {
			t.Errorf("%d: %q, %v, %v", s, text, err, back)
		}
	}
	var s ClaimState
	if _, err := (ClaimFree + 1).MarshalText(); err == nil || s.UnmarshalText([]byte("leased")) == nil {
		t.Error("a stranger was accepted")
	}
}
