package reap

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/internal/testproc"
)

// stageEnv makes this binary a notifier.
const stageEnv = "JOBPROBE_NOTICE_STAGE"

func init() {
	switch os.Getenv(stageEnv) {
	case "":
		return
	case "fail":
		fmt.Fprintln(os.Stderr, "Forbidden")
		os.Exit(3)
	case "tell": // what it was told, into the file that is its argument
		f, err := os.Create(os.Args[1])
		if err != nil {
			os.Exit(1)
		}
		f.ReadFrom(os.Stdin)
		fmt.Fprintf(f, "\n%s\n%s\n", os.Args[2], os.Getenv("JOBPROBE_NOTIFY_SENDER"))
		f.Close()
		os.Exit(0)
	case "family": // a child that never ends; then neither does this
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), stageEnv+"=hang")
		if child.Start() != nil {
			os.Exit(1)
		}
		os.WriteFile(os.Args[1]+".tmp", []byte(strconv.Itoa(child.Process.Pid)), 0o600)
		os.Rename(os.Args[1]+".tmp", os.Args[1])
	}
	for {
		time.Sleep(time.Hour)
	}
}

func TestNoticeOnWindows(t *testing.T) {
	told := filepath.Join(testproc.TempDir(t), "told")
	b := newBell(t, set("notify_sender", `"me"`), tells(os.Args[0], told, "{status} {label}"))
	t.Setenv(stageEnv, "tell")
	b.look()
	if got := b.on(runID, "notify_delivery"); deliveryState(b.Store.Read(runID).Record) != "delivered" {
		t.Fatal(got)
	}
	want := `{"run_id":"` + runID + `","status":"exited","label":"a-label","target":"somebody","sender":"me","reason_code":"process_gone_without_outcome"}` +
		"\nexited a-label\nme\n"
	if got, err := os.ReadFile(told); string(got) != want || err != nil {
		t.Errorf("told %q, want %q; %v", got, want, err)
	}
}

func TestNoticeFailsOnWindows(t *testing.T) {
	b := newBell(t, tells(os.Args[0]))
	t.Setenv(stageEnv, "fail")
	b.look()
	b.want(`{"attempted":true,"ok":false,"exit_code":3,"error":null,"failure_class":"refused_by_policy","command":`+
		strconv.Quote(os.Args[0])+`}`, 0)
	b = newBell(t, tells("no-such-notifier"))
	b.look()
	b.want(`{"attempted":true,"ok":false,"exit_code":null,"error":"FileNotFoundError","failure_class":"unknown","command":"no-such-notifier"}`, 0)
}

// The job object ends what the notifier has started with it.
func TestNoticeTimeoutOnWindows(t *testing.T) {
	started := filepath.Join(testproc.TempDir(t), "started")
	b := newBell(t, tells(os.Args[0], started))
	t.Setenv(stageEnv, "family")
	b.Notices.Timeout = time.Minute
	p := b.notice(runID, b.Store.Read(runID).Record, b.Store.Read(runID).File)
	cmd := p.notifier(&message{})
	g, err := startNotifier(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer g.release()
	var pid int
	for pid == 0 {
		text, _ := os.ReadFile(started)
		pid, _ = strconv.Atoi(string(text))
		time.Sleep(10 * time.Millisecond)
	}
	child, err := jobprobe.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := windows.TerminateJobObject(g.job, 1); err != nil {
		t.Fatal(err)
	}
	collectNotifier(cmd)
	for end := time.Now().Add(10 * time.Second); jobprobe.Probe(child).Conclusion != jobprobe.ProcessGone; {
		if time.Now().After(end) {
			t.Fatalf("the child is %+v", jobprobe.Probe(child))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A record that everybody may write is not trusted.
func TestNoticeAuthorityOnWindows(t *testing.T) {
	b := newBell(t, tells(os.Args[0]))
	for acl, want := range map[string]bool{"D:P(A;;FA;;;OW)(A;;FA;;;BA)(A;;FA;;;SY)(A;;FR;;;WD)": true, "D:P(A;;FA;;;WD)": false} {
		sd, err := windows.SecurityDescriptorFromString(acl)
		if err != nil {
			t.Fatal(err)
		}
		list, _, err := sd.DACL()
		if err != nil {
			t.Fatal(err)
		}
		err = windows.SetNamedSecurityInfo(filepath.Join(b.dir, "job.json"), windows.SE_FILE_OBJECT,
			windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := trusted(b.dir, b.Store.Read(runID).File); got != want {
			t.Errorf("%s: trusted %v", acl, got)
		}
	}
}
