// Package reap observes the jobs of a store and ends, once and durably, those
// whose process is conclusively gone.
//
// An observation reads the record, probes the process, reaps if the probe was
// conclusive, and derives its answer from the record as it then stands on
// disk. A terminal answer is therefore never given before it is durable, and
// two readers of unchanged bytes agree. Any number of observers may look at
// once, from any number of processes: one of them writes the end.
//
// "Reap" here never means wait(2). A reaped job has outcome "indeterminate"
// and reason "process_gone_without_outcome": its process is gone and reported
// no result. It may have done its work before it died, so it must not be
// retried without looking.
//
// [Observer.History] tells the life of a job and what is proved of its
// processes, [Observer.Drain] closes a store and interrupts what lives in it,
// [Observer.Metrics] counts, and [Observer.Prune] removes what ended long ago.
package reap
