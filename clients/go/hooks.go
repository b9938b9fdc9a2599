package rosterd

import "time"

// Hooks are what metrics are made of; each may be nil. What a hook panics with is logged, and changes nothing. Those of runs are
// called by the goroutine of the run.
type Hooks struct {
	// RunStarted: user code of an attempt is about to be called.
	RunStarted func(run *Run)
	// RunEnded: user code of an attempt has ended.
	RunEnded func(run *Run, end RunEnd)
	// RunNotStarted: a Trigger came, and the last look did not let user code begin.
	RunNotStarted func(run *Run, why string)
	// Attached and Detached: the worker has a stream, or no longer has.
	Attached func(server, instanceID string)
	Detached func(server, reason string)
	// LeaseRenewed: a heartbeat was acknowledged, so long after it was sent.
	LeaseRenewed func(roundTrip time.Duration)
}

// A RunEnd is how an attempt ended here. What the coordinator records may differ: a run that was told to stop says so.
type RunEnd struct {
	// Err is what the handler returned, or a panic as an error.
	Err      error
	Duration time.Duration
	// Stopped is why the run was told to stop; nil: it was not.
	Stopped error
}
