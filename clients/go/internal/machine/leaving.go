package machine

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

const (
	// farewell is how long a coordinator may take for Draining or GoodbyeAck once nothing is in flight.
	farewell = 3 * time.Second
	// maxRunsNamed is how many runs the answer to a signal names.
	maxRunsNamed = 5
)

// leaving is the progress of a leave on the current stream, and its deadline.
type leaving struct {
	// end is how the worker ends once it has left.
	end End
	// drainBy is when runs must stop.
	drainBy time.Duration

	asked   bool
	askedAt time.Duration
	// draining: no Trigger follows.
	draining  bool
	goodbye   bool
	goodbyeAt time.Duration
	// resting since restAt: nothing is in flight.
	resting bool
	restAt  time.Duration
}

// newStream begins with the DrainRequest again.
func (l *leaving) newStream() {
	l.asked, l.draining, l.goodbye = false, false, false
}

// ask reports whether to send the DrainRequest, and marks it as sent.
func (l *leaving) ask(boot time.Duration) bool {
	if l.asked {
		return false
	}
	l.asked, l.askedAt = true, boot
	return true
}

// sayGoodbye reports, if nothing is in flight, whether to send the Goodbye, and marks it as sent.
func (l *leaving) sayGoodbye(boot time.Duration) bool {
	if !l.draining || l.goodbye {
		return false
	}
	l.goodbye, l.goodbyeAt = true, boot
	return true
}

func (l *leaving) rest(boot time.Duration, nothingInFlight bool) {
	if nothingInFlight && !l.resting {
		l.restAt = boot
	}
	l.resting = nothingInFlight
}

// limit is when to leave without a goodbye.
func (l *leaving) limit(leaveTimeout time.Duration) time.Duration {
	if l.resting {
		return after(min(l.restAt, l.drainBy), leaveTimeout)
	}
	return after(l.drainBy, leaveTimeout)
}

// farewellBy is when to try another coordinator.
func (l *leaving) farewellBy() time.Duration {
	switch {
	case !l.resting:
		return never
	case l.goodbye:
		return l.goodbyeAt + farewell
	case !l.asked || l.draining:
		return never
	default:
		return max(l.askedAt, l.restAt) + farewell
	}
}

// waitsFor is the answer to a signal: what the worker waits for, and how to end it immediately.
func waitsFor(runs []Key, drainTimeout time.Duration) Note {
	if len(runs) == 0 {
		return Note{Level: slog.LevelInfo, Text: "signal received: leaving; nothing is in flight"}
	}
	names := make([]string, 0, maxRunsNamed+1)
	for _, key := range runs[:min(len(runs), maxRunsNamed)] {
		names = append(names, key.String())
	}
	if len(runs) > maxRunsNamed {
		names = append(names, "…")
	}
	count := "1 run"
	if len(runs) > 1 {
		count = fmt.Sprintf("%d runs", len(runs))
	}
	return Note{Level: slog.LevelWarn, Text: fmt.Sprintf("signal received: leaving once %s in flight (%s) ended, after %v at the "+
		"latest; a second signal exits immediately and records them as crashed", count, strings.Join(names, ", "), drainTimeout)}
}
