package reap

// step names a point between two looks at the world, or two changes of it.
// Every other change can come between.
type step uint8

const (
	stepRead   step = iota // the record was read, nothing was asked yet
	stepProbed             // the process was asked about

	// Of whoever writes an end, and its notice.
	stepDue     // the end is known, nothing is locked
	stepWritten // it was written, or another was there
	stepClaimed // the attempt to tell of it is on record
	stepTold    // the notifier has ended, its result is not on record

	// Of a kill.
	stepPinned    // the leader was found as recorded
	stepDescribed // and its group and environment were read
	stepProved    // the group is proved, and aimed at
	stepLocked    // the record is locked and unchanged
	stepSignalled // the first signal was sent
	stepGrace     // the grace is over
	stepAimed     // what is left is proved and aimed at anew
)

// reach lets a test act at a step.
func (o Observer) reach(s step) {
	if o.step != nil {
		o.step(s)
	}
}
