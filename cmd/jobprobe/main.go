// Command jobprobe tells whether a recorded background process is really
// gone, and turns a conclusive loss into one durable end.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"

	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
	"github.com/jobprobe/jobprobe/spawn"
)

// cli is the command line. Every command has a Run method in a file of its
// own and decides nothing: the packages it calls do.
type cli struct {
	Dir  string `env:"JOBPROBE_DIR" placeholder:"DIR" help:"Directory of the jobs (default: jobprobe/jobs in the user's state directory)."`
	JSON bool   `name:"json" help:"Print one JSON document instead of text."`

	Config string `env:"JOBPROBE_CONFIG" placeholder:"FILE" help:"Configuration file (default: jobprobe/jobprobe.toml in the user's configuration directory, if there is one)."`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`

	LifecycleCommand string `env:"JOBPROBE_LIFECYCLE_COMMAND" placeholder:"JSON" help:"Command that knows how runs ended, as a JSON list of words; {run_id} is replaced, or added at the end."`

	Identify   identifyCmd   `cmd:"" help:"Print the identity of a process, to keep beside its pid."`
	Probe      probeCmd      `cmd:"" help:"Say whether a process is still the recorded one."`
	Run        runCmd        `cmd:"" help:"Start a command as a background job and print its run id."`
	Status     statusCmd     `cmd:"" help:"Show a job in full."`
	List       listCmd       `cmd:"" help:"List jobs, newest first."`
	Wait       waitCmd       `cmd:"" help:"Wait until jobs have ended."`
	Output     outputCmd     `cmd:"" help:"Print what a job has printed."`
	Kill       killCmd       `cmd:"" help:"Stop a job: signal its processes, once they are proved to be its own."`
	Hook       hookCmd       `cmd:"" help:"Record the end that a run reports of itself."`
	Sweep      sweepCmd      `cmd:"" help:"Observe every job once, and end what is conclusively gone."`
	Close      closeCmd      `cmd:"" help:"End a job on your word that it is over, where nothing can be proved."`
	Lifecycle  lifecycleCmd  `cmd:"" help:"Tell the life of a job: where it stands, how it got there, and what is proved of its processes."`
	Drain      drainCmd      `cmd:"" help:"Admit no more jobs, and interrupt those that live."`
	Metrics    metricsCmd    `cmd:"" help:"Print counts of ends, drains and observations, as Prometheus text."`
	Prune      pruneCmd      `cmd:"" help:"Remove jobs that ended long ago."`
	Claims     claimsCmd     `cmd:"" help:"List the keys that jobs were started under, and who holds them."`
	Doctor     doctorCmd     `cmd:"" help:"Check the store, its file system and lock, and what this machine can tell of processes."`
	Deliver    deliverCmd    `cmd:"" hidden:""`
	Complete   completeCmd   `cmd:"" hidden:""`
	Man        manCmd        `cmd:"" hidden:"" help:"Print the manual page, jobprobe(1)."`
	Completion completionCmd `cmd:"" help:"Print a script that completes command lines in a shell."`
	Explain    explainCmd    `cmd:"" help:"Say what a word of an answer means, and what to do about it."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

const description = "Is that exact background process still there; if not, how did it end?\n\nA DURATION is a number and a unit, such as 300ms, 5s, 10m or 1h."

func main() {
	spawn.Init()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for the process it runs in.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	reap.Version = version()
	out := &console{out: stdout, err: stderr, in: stdin, json: asksJSON(args), screen: screenOf(stdout), began: time.Now()}
	var c cli
	exited := -1
	kctx, err := c.parse(negativePIDs(args),
		kong.Name("jobprobe"),
		kong.Description(description),
		kong.Writers(stdout, stderr),
		kong.Vars{"grace": spawn.DefaultGrace.String(), "version": "jobprobe " + version()},
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Exit(func(code int) { exited = code }), // --help, --version
	)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		out.command = command(err)
		return out.exitStatus(&failure{exitUsage, err})
	}
	out.command = kctx.Selected().Name + " "
	out.json = c.JSON
	obs, cfg, err := c.observer(kctx.Selected().Name, stderr)
	if err != nil {
		return out.exitStatus(&failure{exitUsage, err})
	}
	var left errands
	if slices.Contains(leavers, kctx.Selected().Name) {
		obs.Notices.Leave = left.add
	}
	code := out.exitStatus(kctx.Run(out, &obs, &cfg))
	stop() // the answer is given: from here on an interrupt ends the program
	if err := left.handOver(&c, &obs); err != nil {
		fmt.Fprintln(stderr, "jobprobe: notices stay pending:", err)
	}
	flush(&obs, stderr)
	return code
}

// asksJSON says whether a command line that may be wrong has --json in it.
func asksJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// command is the command that a wrong command line was for, and a space.
func command(err error) string {
	wrong, ok := errors.AsType[*kong.ParseError](err)
	if !ok || wrong.Context.Selected() == nil {
		return ""
	}
	return wrong.Context.Selected().Name + " "
}

// observer is what the commands work with, as flags, environment and
// configuration have it, in this order.
func (c *cli) observer(command string, stderr io.Writer) (obs reap.Observer, cfg config, err error) {
	cfg, err = readConfig(c.Config)
	if err != nil && c.Config == os.Getenv("JOBPROBE_CONFIG") && slices.Contains(unconfigured, command) {
		fmt.Fprintln(stderr, "jobprobe: the configuration is not used:", err)
		cfg, err = defaults(), nil
	}
	if err != nil {
		return obs, cfg, &configError{err}
	}
	dir := cmp.Or(c.Dir, cfg.Store.Dir, defaultDir())
	if dir == "" && !slices.Contains(storeless, command) {
		return obs, cfg, errors.New("there is no home directory to keep jobs in: give --dir or JOBPROBE_DIR")
	}
	obs = reap.New(dir)
	if obs.Notices, err = reap.NoticesFromEnv(os.Getenv); err != nil {
		fmt.Fprintln(stderr, "jobprobe:", err)
	} else if len(obs.Notices.Command) == 0 {
		obs.Notices.Command = cfg.Notify.OnTerminal
	}
	if c.LifecycleCommand != "" {
		err := json.Unmarshal([]byte(c.LifecycleCommand), &obs.Lifecycle.Command)
		if err != nil || len(obs.Lifecycle.Command) == 0 {
			return obs, cfg, fmt.Errorf("--lifecycle-command (JOBPROBE_LIFECYCLE_COMMAND): %q is not a JSON list of words", c.LifecycleCommand)
		}
	}
	return obs, cfg, nil
}

// negativePIDs marks a negative number after a command that takes a pid as an
// argument, not a flag: it is no process, which is for the command to say.
func negativePIDs(args []string) []string {
	for i, arg := range args {
		if n, err := strconv.Atoi(arg); err != nil || n >= 0 {
			continue
		}
		before := args[:i]
		if !slices.Contains(before, "--") && (slices.Contains(before, "probe") || slices.Contains(before, "identify")) {
			return slices.Insert(slices.Clone(args), i, "--")
		}
	}
	return args
}

// flushTime is how long deliveries may take to begin; then they are left
// pending. One that has begun has a time limit of its own.
const flushTime = 30 * time.Second

// flush waits for the notices of the ends that this command has written.
func flush(obs *reap.Observer, stderr io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := obs.Flush(ctx); err != nil {
		fmt.Fprintln(stderr, "jobprobe:", err)
	}
}

// defaultDir is where jobs are kept if nothing else is said: state that
// survives a reboot and is not worth a backup (XDG base directories). It is
// empty where the environment names no such place.
func defaultDir() string {
	if runtime.GOOS == "windows" {
		if local := os.Getenv("LocalAppData"); local != "" {
			return filepath.Join(local, "jobprobe", "jobs")
		}
		return ""
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "jobprobe", "jobs")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "jobprobe", "jobs")
}

// Exit statuses. A command that answers a question exits with the answer.
const (
	exitOK      = 0
	exitRefused = 1   // refused, or no such job
	exitGone    = 3   // process_gone; or ended, not all succeeded
	exitUnknown = 4   // cannot tell
	exitUsage   = 80  // the command line is wrong
	exitWindow  = 124 // a wait's window closed
	exitLeft    = 130 // interrupted, and left the job running
)

// exitMeanings are what they mean, of all commands together.
var exitMeanings = []struct {
	code    int
	meaning string
}{
	{exitOK, "The answer is the good one: done, alive, all succeeded."},
	{exitRefused, "Refused, or there is no such job."},
	{exitGone, "The process is gone; or all jobs have ended and not all succeeded."},
	{exitUnknown, "It cannot be told."},
	{exitUsage, "The command line or the configuration is wrong."},
	{exitWindow, "The window of a wait has closed."},
	{exitLeft, "Interrupted; jobs go on."},
}

// status is an error that only sets the exit status: the answer is printed.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// exitStatus prints an error that is one, with --json as a document too, and
// returns the exit status.
func (c *console) exitStatus(err error) int {
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[status](err); ok {
		return int(code)
	}
	if errors.Is(err, context.Canceled) {
		err = interrupted(c.began, "nothing more was done")
	}
	fmt.Fprintln(c.err, "jobprobe:", printable(complaint(err)))
	code := exitRefused
	if _, ok := errors.AsType[*interruptedError](err); ok {
		code = exitLeft
	}
	if coded, ok := errors.AsType[*failure](err); ok {
		code = coded.code
	}
	p := problem(err, code)
	p.Next = c.advice(err, p.ReasonCode)
	c.advise(p.Next)
	if c.json {
		c.document(p)
	}
	return code
}

// complaint is an error without the name of the package that it comes from.
func complaint(err error) string {
	text := err.Error()
	for _, pkg := range []string{"jobprobe: ", "sidecar: ", "reap: ", "spawn: "} {
		text = strings.TrimPrefix(text, pkg)
	}
	return text
}

// problemJSON is the document of a command that could not answer.
type problemJSON struct {
	RunID string `json:"run_id,omitzero"`
	// Holder is the run that holds the claim which was asked for.
	Holder string `json:"holder,omitzero"`
	// ReasonCode is a sidecar.Refusal, or what kind of problem it is.
	ReasonCode string `json:"reason_code"`
	Error      string `json:"error"`
	// Next is what to do about it, where there is something.
	Next string `json:"next,omitzero"`
}

func problem(err error, code int) problemJSON {
	p := problemJSON{Error: complaint(err), ReasonCode: "refused"}
	if refused, ok := errors.AsType[*sidecar.RefusedError](err); ok {
		p.RunID, p.ReasonCode = refused.RunID, refused.Reason.String()
		return p
	}
	if failed, ok := errors.AsType[*spawn.FailedError](err); ok {
		p.RunID, p.ReasonCode = failed.RunID, "spawn_failed"
		return p
	}
	if held, ok := errors.AsType[*spawn.ClaimHeldError](err); ok {
		p.Holder, p.ReasonCode = held.Holder, "claim_held"
		return p
	}
	if errors.Is(err, reap.ErrDraining) {
		p.ReasonCode = sidecar.ReasonDraining
		return p
	}
	if _, ok := errors.AsType[*interruptedError](err); ok {
		p.ReasonCode = "interrupted"
		return p
	}
	if left, ok := errors.AsType[*leftError](err); ok {
		p.RunID, p.ReasonCode = left.runID, "left_running"
		return p
	}
	switch code {
	case exitGone:
		p.ReasonCode = "no_such_process"
	case exitUnknown:
		p.ReasonCode = "unknown"
	case exitUsage:
		p.ReasonCode = "usage"
	case exitLeft:
		p.ReasonCode = "left_running"
	}
	return p
}

// failure is an error with an exit status of its own.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }
