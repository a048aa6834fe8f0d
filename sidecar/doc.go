// Package sidecar keeps the record of one job: the file job.json in the job's
// own directory, and the transactions that change it.
//
// # The record
//
// A [Record] is a JSON object whose members keep their order, their number
// text and every key this package does not know. [Record.Append] writes what
// the peer program writes for the same members, byte for byte. Reading is
// strict: duplicate keys, bad UTF-8, NaN, a byte order mark and trailing bytes
// are damage ([DamagedError]), never a record with something missing.
//
// # Transactions
//
// A [Store] is a directory of jobs. [Store.Read] takes no lock and sees the
// old or the new record, never a part of one. Every change goes through
// [Store.Update]: take job.lock with flock(2) (LockFileEx on Windows) within a
// deadline, read again, check, change, publish if something changed. The
// transitions ([Store.Attach], [Store.Reap], the ends and the notice) are
// guarded changes over it. finished_at, once not null, is never replaced, and
// a change of its record's run_id is refused. A record that was made with a
// [NewHistory] keeps a [History] of its run, which each transition adds to.
//
// # Durability
//
// Publishing writes a file of a random name beside the record, syncs it,
// renames it over the record and syncs the directory. A crash at any point
// leaves the old or the new record, a free lock, and at most a temporary file
// that the next write removes.
//
//   - [Written] says that each of these calls succeeded: the record survives
//     a power loss as far as fsync(2) of this file system tells the truth.
//   - [WrittenUnsynced] says that the record is in place, seen by every reader
//     and safe from a crash of the process, and that the directory could not
//     be synced: a power loss may bring the old record back.
//   - Windows has no directory sync. There Written means that the contents
//     are flushed and the rename was accepted; its durability is the journal's.
//   - A lock is as good as the file system's flock(2): some network file
//     systems grant it without excluding anyone.
//
// A change that could not be made is a [*RefusedError] and changed nothing.
package sidecar
