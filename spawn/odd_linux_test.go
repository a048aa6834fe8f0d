package spawn

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe"
)

// Jobs that leave processes behind, or give up what they were given: the record
// has the command's own end, at once, and the supervisor is gone after it. What
// is left behind holds nothing but the job's input and output.
func TestOddJobs(t *testing.T) {
	const done = `completed succeeded null 0 null "supervisor_exit"`
	for name, c := range map[string]struct {
		script string
		want   string
		left   int // processes
	}{
		"session":           {`setsid sleep 60 & exit 0`, done, 1},
		"background":        {`sleep 60 & exit 0`, done, 1},
		"double fork":       {`(setsid sh -c 'sleep 60 & sleep 60 & exit 0'); exit 3`, `failed failed run.failed.exit_nonzero 3 null "supervisor_exit"`, 2},
		"closes all":        {`exec 0<&- 1>&- 2>&-; exit 6`, `failed failed run.failed.exit_nonzero 6 null "supervisor_exit"`, 0},
		"closes, and stays": {`exec 0<&- 1>&- 2>&-; setsid sleep 60 & exit 0`, done, 1},
		"kills its group":   {`trap "" TERM; kill -TERM 0; exit 0`, done, 0},
		"removes its log":   {`rm "$JOBPROBE_DIR/$JOBPROBE_RUN_ID/console.log"; echo gone`, done, 0},
	} {
		for _, logMax := range []int64{0, MinLog} {
			t.Run(fmt.Sprintf("%s/log %d", name, logMax), func(t *testing.T) {
				store := newStore(t)
				h, err := Start(t.Context(), store, Request{Argv: shell(c.script), LogMax: logMax})
				if err != nil {
					t.Fatal(err)
				}
				sup, err := jobprobe.Open(h.Supervisor)
				if got := strings.TrimSpace(ending(finished(t, store, h.RunID))); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if err == nil { // else it was gone already
					defer sup.Close()
					if _, err := sup.Wait(t.Context()); err != nil {
						t.Error(err)
					}
				}
				left, complete := jobprobe.Marked(h.RunID)
				left = slices.DeleteFunc(left, func(m jobprobe.Member) bool { return m.Marker != jobprobe.MarkerFound })
				if len(left) != c.left || !complete {
					t.Errorf("%d processes are left, want %d (all seen: %v)", len(left), c.left, complete)
				}
				for _, m := range left {
					until(t, "it has only its input and output open", func() bool { // and no library it is loading
						return len(slices.DeleteFunc(descriptors(t, m.Identity.PID), func(fd string) bool { return len(fd) == 1 && fd <= "2" })) == 0
					})
					endProcess(t, m.Identity)
				}
			})
		}
	}
}

// descriptors lists what a process has open.
func descriptors(t *testing.T, pid int64) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(pid), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// A program that starts jobs is left with no descriptor and no process of them.
func TestNothingLeaks(t *testing.T) {
	store := newStore(t)
	all := []Request{
		{Argv: []string{"true"}}, {Argv: []string{"true"}, LogMax: MinLog}, {Argv: []string{"true"}, Claim: key},
		{Argv: []string{"/no/such/command"}}, {Argv: []string{"true"}, Stdin: "/dev/null"},
	}
	start := func() {
		for _, req := range all {
			if h, err := Start(t.Context(), store, req); err == nil {
				finished(t, store, h.RunID)
			}
		}
		noChildren(t)
	}
	start() // the runtime opens its poller
	before := descriptors(t, int64(os.Getpid()))
	for range 5 {
		start()
	}
	until(t, "no more descriptors are open than before", func() bool {
		return len(descriptors(t, int64(os.Getpid()))) <= len(before)
	})
}
