// Package jobprobe answers whether a recorded process is still that process.
//
// A pid is not an identity: numbers are reused, and mean something else in
// every pid namespace, after every boot and on every host. A failed probe is
// not a death: /proc can be hidden, a call denied, a filter in the way. So an
// [Identity] is recorded while the process runs, and [Probe] answers with one
// of three conclusions:
//
//	Alive        a live process holds the number, and nothing contradicts
//	ProcessGone  the recorded process can run no more code
//	Unknown      nothing is proved; nothing may be ended
//
// What is compared, for equality and as integers only:
//
//	Linux    the inode number of a pidfd (6.9 and later), else start ticks,
//	         under an equal boot id and equal pid and time namespaces
//	macOS    p_starttime, microseconds, under an equal boot session
//	Windows  the creation FILETIME, 100 ns
//	others   nothing; only ESRCH is conclusive
//
// # Limits
//
// Without pidfs, Linux start ticks of 10 ms cannot tell a number that was
// reused within one tick from its former owner: the verdict is then Alive, and
// its evidence says that it is weak.
//
// On the same host, another boot id proves that a process of the initial
// namespaces is gone, as a reboot ends them all: the finding is PIDAbsent, or
// PIDRecycled where the number is in use again. Which host it is, is told by
// the machine id and its like: hosts that share one must not share records.
//
// After a container restart the pid namespace differs and every verdict on its
// former processes is Unknown; so is every verdict where something else is
// mounted over the boot id, as systemd-nspawn does. A restored checkpoint is a
// new process. Clones of a running virtual machine share boot id and counters,
// and nothing inside them can tell them apart.
//
// The package uses no cgo and runs no other program.
package jobprobe
