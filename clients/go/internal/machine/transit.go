package machine

import "time"

const (
	// A coordinator's calendar that was set back looks like a long way, so nothing begins sooner than this for it.
	mostTransit = 5 * time.Millisecond
	// The shortest way is found anew after this.
	freshTransit = 10 * time.Second
)

// transit is how late a Trigger came that is to be kept until its time.
//
// What it says to wait is counted from when it was sent, so its way is added to every wait; in a burst that is some
// milliseconds for those behind. Its run's time is by the coordinator's calendar. What the two amount to by our own clock
// is the same for all Triggers of a stream, but for their ways: the one that came with the shortest tells how much longer
// the others took. No calendars are compared.
type transit struct {
	known bool
	// best is our clock less the coordinator's calendar, by the Trigger that came soonest.
	best, bestAt time.Duration
}

// forget: a new stream has ways of its own.
func (t *transit) forget() {
	t.known = false
}

// left is how long to keep a Trigger that came at boot for a fire at the given time.
func (t *transit) left(boot time.Duration, fire time.Time, startsIn time.Duration) time.Duration {
	offset := boot + startsIn - time.Duration(fire.UnixNano())
	if !t.known || offset < t.best || boot-t.bestAt >= freshTransit {
		t.known, t.best, t.bestAt = true, offset, boot
	}
	return max(0, startsIn-min(offset-t.best, mostTransit))
}
