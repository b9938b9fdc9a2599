package rosterd

import "time"

// Hooks are for metrics; each may be nil. A panic of a hook is logged, and has no other effect. The goroutine of a run
// calls its hooks.
type Hooks struct {
	// RunStarted: user code of an attempt is about to be called.
	RunStarted func(run *Run)
	// RunEnded: user code of an attempt has ended.
	RunEnded func(run *Run, end RunEnd)
	// RunNotStarted: a Trigger arrived, and the last check did not let user code begin.
	RunNotStarted func(run *Run, why string)
	// Attached and Detached: the worker has a stream, or no longer has one.
	Attached func(server, instanceID string)
	Detached func(server, reason string)
	// LeaseRenewed: a heartbeat was acknowledged, this long after it was sent.
	LeaseRenewed func(roundTrip time.Duration)
}

// A RunEnd is how an attempt ended here. The coordinator's record may differ, for example if the run was told to stop.
type RunEnd struct {
	// Err is what the handler returned, or a panic as an error.
	Err      error
	Duration time.Duration
	// Stopped is why the run was told to stop; nil: it was not.
	Stopped error
}
