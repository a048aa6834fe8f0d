package sidecar_test

import (
	"testing"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/sidecar"
)

// TestNoticeOwed leaves, with the end itself, the marker that somebody is to be
// told. A winner that dies before it claims the notice loses nothing: whoever
// claims it next wins, once.
func TestNoticeOwed(t *testing.T) {
	for name, end := range map[string]func(s sidecar.Store) (sidecar.Transition, error){
		"hook": func(s sidecar.Store) (sidecar.Transition, error) {
			return s.EndByHook(ctx, runID, sidecar.HookEnd{Status: "completed", At: early, NoticeOwed: true})
		},
		"supervisor": func(s sidecar.Store) (sidecar.Transition, error) {
			return s.EndBySupervisor(ctx, runID, sidecar.SupervisorEnd{Status: "failed", At: early, NoticeOwed: true})
		},
		"lifecycle": func(s sidecar.Store) (sidecar.Transition, error) {
			return s.EndByLifecycle(ctx, runID, sidecar.LifecycleEnd{Status: "aborted", At: early, NoticeOwed: true})
		},
		"kill": func(s sidecar.Store) (sidecar.Transition, error) {
			return s.EndByKill(ctx, runID, sidecar.KillEnd{At: early, NoticeOwed: true})
		},
		"reap": func(s sidecar.Store) (sidecar.Transition, error) {
			return s.Reap(ctx, runID, sidecar.Reaping{Finding: jobprobe.PIDAbsent, At: early, NoticeOwed: true})
		},
		"attest": func(s sidecar.Store) (sidecar.Transition, error) {
			return s.Attest(ctx, runID, sidecar.Attestation{Text: "x", At: early, NoticeOwed: true})
		},
	} {
		s := newStore(t, record(runID))
		if sidecar.NoticePending(s.Read(runID).Record) {
			t.Errorf("%s: pending before the end", name)
		}
		got, err := end(s)
		if err != nil || !got.Won {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		marker, _ := got.Record.Raw("notify_delivery")
		if !sidecar.NoticePending(s.Read(runID).Record) || compact(marker) != `{"attempted":false,"pending":true}` {
			t.Errorf("%s: marker %s", name, marker)
		}
		// A second end leaves the marker of the first.
		if again, err := end(s); err != nil || again.Won || !sidecar.NoticePending(again.Record) {
			t.Errorf("%s again: %+v, %v", name, again, err)
		}
		if claimed, err := s.ClaimNotice(ctx, runID); err != nil || !claimed.Won || sidecar.NoticePending(claimed.Record) {
			t.Errorf("%s: claim: %+v, %v", name, claimed, err)
		}
		if again, err := s.ClaimNotice(ctx, runID); err != nil || again.Won {
			t.Errorf("%s: a second claim: %+v, %v", name, again, err)
		}
	}
}

func TestSupervisorSawCore(t *testing.T) {
	s := newStore(t, record(runID))
	got, err := s.EndBySupervisor(ctx, runID, sidecar.SupervisorEnd{Status: "failed", Signal: "SIGABRT", Core: true, At: early})
	if err != nil || !got.Won {
		t.Fatal(got, err)
	}
	if raw, _ := got.Record.Raw("core_dumped"); string(raw) != "true" {
		t.Errorf("core_dumped %s", raw)
	}
}
