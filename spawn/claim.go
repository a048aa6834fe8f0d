package spawn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/enum"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
)

// MaxClaim is the size in bytes of the longest claim key.
const MaxClaim = 512

// Errors of claims.
var (
	// ErrBadClaim: the key is empty, no UTF-8, or longer than MaxClaim.
	ErrBadClaim = errors.New("spawn: a claim is UTF-8 text of 1 to 512 bytes")
	// ErrNoClaim: the key was never claimed, or is forgotten.
	ErrNoClaim = errors.New("spawn: no such claim")
	// errOvertaken: the holder that was found to have ended is no longer the
	// one that the claim names.
	errOvertaken = errors.New("spawn: the claim has another holder")
)

// A Claim is a key that at most one job holds. It names a run, and is held
// exactly while that run has no recorded end. There is no lease and nothing to
// renew or release: whoever asks next observes the holder, which also ends it
// if its process is conclusively gone.
//
// An end that the run reports of itself, or that a kill records together with
// its signal, frees the claim although the run's processes may still be on
// their way out: wait for those with [jobprobe.Open] where that matters.
type Claim struct {
	Key string `json:"key"`
	// Holder is the run id that the claim names.
	Holder string     `json:"holder"`
	State  ClaimState `json:"state"`
	// Status is the holder's, as package reap tells it.
	Status string `json:"status"`
}

// ClaimState says whether a claim can be had.
type ClaimState uint8

const (
	// ClaimUnknown is the zero value: the holder's record is absent or cannot
	// be used, or its process cannot be asked about from here. It is not free.
	ClaimUnknown ClaimState = iota
	// ClaimHeld: the holder is starting, alive, or about to record its end.
	ClaimHeld
	// ClaimFree: the holder's end is on record.
	ClaimFree
)

var claimNames = [...]string{"unknown", "held", "free"}

// String returns the word used in replies, for example "held".
func (s ClaimState) String() string { return enum.Name(claimNames[:], uint8(s), "ClaimState") }

// MarshalText returns the word of [ClaimState.String].
func (s ClaimState) MarshalText() ([]byte, error) {
	return enum.Text(claimNames[:], uint8(s), "claim state")
}

// UnmarshalText accepts exactly the words that [ClaimState.MarshalText] makes.
func (s *ClaimState) UnmarshalText(text []byte) error {
	n, err := enum.Value(claimNames[:], text, "claim state")
	if err == nil {
		*s = ClaimState(n)
	}
	return err
}

// A ClaimHeldError refuses a job whose claim is held, or may be. Nothing of
// the job is left on disk.
type ClaimHeldError struct{ Claim }

func (e *ClaimHeldError) Error() string {
	return fmt.Sprintf("claim %q is held by %s, which is %s", e.Key, e.Holder, e.Status)
}

// checkClaim refuses what is no key. What the key says is no matter: no file
// is named by it.
func checkClaim(key string) error {
	if key == "" || len(key) > MaxClaim || !utf8.ValidString(key) {
		return ErrBadClaim
	}
	return nil
}

// Claims returns the claims of the observer's store that were ever taken, in
// the order of their keys, each as it stands after its holder was observed.
// One that is damaged is left out, and its error is part of the result.
func Claims(ctx context.Context, obs reap.Observer) ([]Claim, error) {
	return claimsOf(obs.Store).list(ctx, obs)
}

// ForgetClaim drops a claim that is free, or whose holder's record is no longer
// there, so that nobody can find out what became of it: then it takes the
// caller's word that the job is over. Any other is refused with a
// [*ClaimHeldError], and a key without a claim is [ErrNoClaim].
func ForgetClaim(ctx context.Context, obs reap.Observer, key string) error {
	if err := checkClaim(key); err != nil {
		return err
	}
	unlock, err := claimsOf(obs.Store).LockShared(ctx, claimsLock)
	if err != nil {
		return err
	}
	defer unlock()
	c, name := claimsOf(obs.Store), claimName(key)
	seen, err := c.look(ctx, obs, name, key)
	switch {
	case err != nil:
		return err
	case seen.State == ClaimFree && seen.Holder == "":
		return fmt.Errorf("%w: %q", ErrNoClaim, key)
	case seen.State == ClaimFree:
	case seen.Status != sidecar.Absent.String():
		return &ClaimHeldError{seen}
	}
	return os.RemoveAll(filepath.Join(c.Dir, name))
}

// admit publishes a job's first record under a fresh run id, and gives it the
// claim that it asks for. Looking comes first, without the lock, so that a
// claim which is held refuses without a trace. The lock then makes one step of
// what follows: if the claim still names the holder that was seen to have
// ended, and an end is never taken back, the job is recorded and the claim
// names it.
//
// A crash in between leaves a job in state "preparing" that the claim does
// not name; nobody starts it, and observers close it.
func admit(ctx context.Context, obs reap.Observer, req *Request) (*reservation, error) {
	if req.Claim == "" {
		return reserve(ctx, obs, req)
	}
	c := claimsOf(obs.Store)
	for {
		seen, err := c.look(ctx, obs, claimName(req.Claim), req.Claim)
		if err != nil {
			return nil, err
		}
		if seen.State != ClaimFree {
			return nil, &ClaimHeldError{seen}
		}
		r, err := c.take(ctx, obs, req, seen.Holder)
		if !errors.Is(err, errOvertaken) {
			return r, err
		}
	}
}

// claimName is the name under which a claim is kept: a run id to package
// sidecar, and to a file system no longer than any name may be.
func claimName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// look reads a claim and observes its holder. One that was never taken is
// free and has no holder.
func (c claims) look(ctx context.Context, obs reap.Observer, name, key string) (Claim, error) {
	rec, err := c.read(name)
	if err != nil {
		return Claim{}, err
	}
	if rec == nil {
		return Claim{Key: key, State: ClaimFree}, nil
	}
	var claim Claim
	claim.Key, _ = rec.Text("key")
	claim.Holder, _ = rec.Text("holder")
	if claimName(claim.Key) != name || key != "" && key != claim.Key {
		return Claim{}, fmt.Errorf("claim %s is damaged: it is of another key", name)
	}
	job, err := obs.Status(ctx, claim.Holder)
	if err != nil {
		return Claim{}, fmt.Errorf("claim %s is damaged: %w", name, err)
	}
	claim.Status = job.Status
	switch {
	case !job.Known:
		claim.Status = job.RecordState
	case job.Terminal:
		claim.State = ClaimFree
	case job.Liveness.Conclusion == jobprobe.Unknown && string(job.SpawnState) == `"started"`:
		// Nothing is known of its process: it stays ClaimUnknown.
	case job.Alive, !job.PossiblyOrphaned:
		claim.State = ClaimHeld
	}
	return claim, nil
}

// take records the job and makes it the holder, unless the claim names another
// than was seen.
func (c claims) take(ctx context.Context, obs reap.Observer, req *Request, seen string) (*reservation, error) {
	unlock, err := claimsOf(obs.Store).LockShared(ctx, claimsLock)
	if err != nil {
		return nil, err
	}
	defer unlock()
	name := claimName(req.Claim)
	rec, err := c.read(name)
	if err != nil {
		return nil, err
	}
	if holder := holderOf(rec); holder != seen {
		return nil, errOvertaken
	}
	r, err := reserve(ctx, obs, req)
	if err != nil {
		return nil, err
	}
	if err := c.put(ctx, name, req.Claim, r.id, rec == nil); err != nil {
		return nil, r.withdraw(context.WithoutCancel(ctx), obs, err)
	}
	return r, nil
}

// holderOf is the run that a claim's record names, empty for no record.
func holderOf(rec *sidecar.Record) string {
	if rec == nil {
		return ""
	}
	id, _ := rec.Text("holder")
	return id
}
