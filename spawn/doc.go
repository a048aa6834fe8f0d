// Package spawn starts jobs whose identity is durable before their work
// begins.
//
// Start reserves the job's directory, publishes a record in state
// "preparing", and starts a detached supervisor. The supervisor starts the
// command held, commits its own and the command's identity as "started", and
// only then lets the command's first instruction run. If the record is no
// longer "preparing" by then, nothing runs. So there is no instant at which
// work runs and no record names it, and no lease or timeout is involved.
//
// The supervisor collects the real exit status and writes the end. If it is
// killed, the job goes on, and observers (package reap) take over.
//
// A job may ask for a claim, a key that at most one live job holds. It names
// the job's run and is held exactly while that run has no recorded end: whoever
// asks next observes the holder, so there is nothing to renew or to sweep.
//
// Admit starts the jobs that a Selector makes of a batch of calls, and tells it
// what became of each, so that what it reserved for them ends with them.
//
// Supervisor, holder, and the keeper of a bounded log are this same program,
// started anew: a program that imports this package calls [Init] first thing in
// main.
package spawn
