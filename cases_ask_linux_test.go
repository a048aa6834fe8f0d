package jobprobe

import (
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Inputs from the field, kind c: asking the system.

func TestCaseC1(t *testing.T) { TestL11(t) }

func TestCaseC3(t *testing.T) {
	TestL16(t)
	_, live := child(t)
	prober{nil, "scope,deny=read:EIO", []ask{{ticksOnly(live), "identity_unreadable"}}}.run(t)
}

func TestCaseC4(t *testing.T) { TestL17(t) }

func TestCaseC5(t *testing.T) {
	_, live := child(t)
	gone := reaped(t)
	for errno, want := range map[string]string{
		"ESRCH": "pid_absent", "EPERM": "access_denied", "EIO": "access_denied",
		"ENOSYS": "access_denied", "EINVAL": "access_denied",
	} {
		// With kill as the only one to ask.
		prober{nil, "scope,deny=pidfd_open:ENOSYS,deny=openat:EACCES,deny=kill:" + errno, []ask{
			{live, want}, {gone, want},
		}}.run(t)
	}
	prober{nil, "scope,deny=pidfd_open:ENOSYS,deny=openat:EACCES", []ask{
		{live, "access_denied"}, {gone, "pid_absent"}, // nil and ESRCH, by the kernel
	}}.run(t)
}

// The names are what prctl(2) accepts, and what file names can be.
func TestCaseC6(t *testing.T) {
	for _, name := range []string{
		"a) Z 1 1\n(x", ") R 1 2 3 (", "a) (b\nc", ")))))))))))))))", "", "\x01\xff ", "tmux: server",
	} {
		_, id := child(t, "name="+hex.EncodeToString([]byte(name)))
		expect(t, strconv.Quote(name), ticksOnly(id), "identity_confirmed weak")
		expect(t, strconv.Quote(name), id, verdict(Probe(id)))
	}
}

func TestCaseC8(t *testing.T) { TestKillFiltered(t) }

func TestCaseC9(t *testing.T) { TestL18(t) }

func TestCaseC11(t *testing.T) {
	_, live := child(t)
	prober{nil, "deny=pidfd_open:EINVAL", []ask{
		{live, "identity_confirmed weak"}, {reaped(t), "disappeared_during_probe"},
	}}.run(t)
}

// A process that is killed and collected while it is probed is first there
// and then gone, and never anything else.
func TestCaseC12(t *testing.T) {
	turns := 400
	if testing.Short() {
		turns = 40
	}
	seen := map[string]int{}
	for i := range turns {
		cmd := exec.Command("/bin/true")
		if err := cmd.Start(); err != nil {
			t.Skipf("no short process: %v", err)
		}
		id := identify(t, cmd.Process.Pid)
		if i%2 == 0 {
			id = ticksOnly(id)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			cmd.Wait()
		}()
		for {
			v := Probe(id)
			seen[verdict(v)]++
			switch v.Finding {
			case IdentityConfirmed:
				continue
			case DisappearedDuringProbe:
				if v.Evidence.ExitedUnreaped {
					continue
				}
			case PIDAbsent:
			case AccessDenied, IdentityUnreadable:
				if v.Evidence.Dropped == 0 && len(v.Evidence.Calls()) < 4 {
					t.Fatalf("no second look: %s", receipt(v))
				}
				continue
			case NotProbed, IdentityNotRecorded, IdentityUnusable, PIDRecycled, UnusablePID, ProbeEnvironmentUnusable,
				ForeignHost, ForeignBoot, ForeignPIDNamespace, ForeignTimeNamespace, UnsupportedPlatform:
				t.Fatalf("%s: %s", verdict(v), receipt(v))
			}
			break
		}
		<-done
		expect(t, "collected", id, "pid_absent")
	}
	t.Log(seen)
}

func TestCaseC14(t *testing.T) { TestCaseC6(t) }
func TestCaseC15(t *testing.T) { TestL16(t) }
func TestCaseC17(t *testing.T) { TestL22(t) }

func TestCaseC18(t *testing.T) {
	own := identify(t, os.Getpid())
	for _, pid := range []int64{pidMax(t) + 1, 4194305, 2147483647} {
		own.PID = pid
		expect(t, strconv.FormatInt(pid, 10), own, "pid_absent")
	}
	for _, pid := range []int64{2147483648, 4294967295, 1 << 62} {
		own.PID = pid
		expect(t, strconv.FormatInt(pid, 10), own, "unusable_pid")
	}
}

// A program keeps its identity under any file name.
func TestCaseC21(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("no sleep(1)")
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Skipf("sleep(1): %v", err)
	}
	for _, name := range []string{"sle ep", "(Plex Media Serv)", "tmux: server", "a) S 1 (b"} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, program, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(file, "1000")
		if err := cmd.Start(); err != nil {
			t.Skipf("start %q: %v", file, err)
		}
		id := identify(t, cmd.Process.Pid)
		expect(t, name, ticksOnly(id), "identity_confirmed weak")
		cmd.Process.Kill()
		cmd.Wait()
	}
}

func TestCaseC23(t *testing.T) {
	for _, text := range []string{
		`{"pid":"0"}`, `{"pid":"-1"}`, `{"pid":"-7"}`, `{"pid":"1"}`, `{"pid":null}`, `{}`, `{"pid":1}`,
	} {
		id, _ := ParseIdentity([]byte(text))
		v := Probe(id)
		if verdict(v) != "unusable_pid" || len(v.Evidence.Calls()) != 0 {
			t.Errorf("%s: %s, %s", text, verdict(v), receipt(v))
		}
	}
	TestPID1(t)
}

func TestCaseC24(t *testing.T) { TestL1(t) }
