package machine

import "time"

const (
	// A coordinator's wall clock that was set back looks like a long delay: the correction is at most this.
	maxCorrection = 5 * time.Millisecond
	// The shortest delay is measured again after this.
	measuredFor = 10 * time.Second
)

// oneWayDelay is how much longer a Trigger was on its way than the fastest one of its stream.
//
// The wait in a Trigger counts from when it was sent, so its network delay is added to the wait; in a burst that is
// some milliseconds for the last ones. The fire's time follows the coordinator's wall clock. On our own clock, the sum
// of the arrival and the wait differs from the fire's time by a constant plus the delay; the fastest Trigger shows the
// constant. Wall clocks are never compared.
type oneWayDelay struct {
	known bool
	// best is our clock minus the coordinator's wall clock, for the fastest Trigger.
	best, bestAt time.Duration
}

// forget starts over: a new stream has delays of its own.
func (d *oneWayDelay) forget() {
	d.known = false
}

// remainingWait is how long to keep a Trigger that arrived at boot for a fire at the given time.
func (d *oneWayDelay) remainingWait(boot time.Duration, fire time.Time, startsIn time.Duration) time.Duration {
	offset := boot + startsIn - time.Duration(fire.UnixNano())
	if !d.known || offset < d.best || boot-d.bestAt >= measuredFor {
		d.known, d.best, d.bestAt = true, offset, boot
	}
	return max(0, startsIn-min(offset-d.best, maxCorrection))
}
