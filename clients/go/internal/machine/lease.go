package machine

import (
	"time"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

const (
	defaultLease    = 5 * time.Second
	defaultInterval = time.Second
	defaultBudget   = 500 * time.Millisecond
	// drift is how much faster than ours a coordinator's clock may run: one part in this many.
	drift = 200
	// A stop budget is at most this part of the lease, so that one heartbeat may get lost.
	leastBudgets = 4
)

// lease is the time in which the worker may assume that no other worker runs its items.
//
// It counts from when the last acknowledged heartbeat (at first the Hello) was sent; the coordinator counts from when
// it received it, which is later. So no synchronized clocks are needed.
type lease struct {
	welcome    terms
	stopBudget time.Duration
	// agreed is the shortest that a job has requested. It never grows back under one identity: the coordinator uses what
	// the heartbeats state, and would mark dead a worker that assumes more.
	agreed   terms
	held     bool
	since    time.Duration
	sequence uint64
	sent     map[uint64]time.Duration
}

// terms are the length of a lease and how often it is renewed; zero: not set.
type terms struct{ length, interval time.Duration }

func newLease() lease {
	return lease{welcome: terms{defaultLease, defaultInterval}, sent: make(map[uint64]time.Duration)}
}

func shorter(one, other time.Duration) time.Duration {
	if one == 0 || (other != 0 && other < one) {
		return other
	}
	return one
}

func (l *lease) length() time.Duration {
	return shorter(l.welcome.length, l.agreed.length)
}

func (l *lease) interval() time.Duration {
	return min(shorter(l.welcome.interval, l.agreed.interval), l.length()/3)
}

// patience is how long a stream may be silent before the worker abandons it.
func (l *lease) patience() time.Duration {
	return l.length() * 2 / 3
}

// stopsAt is when runs must stop; long ago if there is no lease.
func (l *lease) stopsAt() time.Duration {
	if !l.held {
		return ended
	}
	length := l.length()
	return l.since + length - length/drift - min(l.stopBudget, length/leastBudgets)
}

func (l *lease) valid(boot time.Duration) bool {
	return boot < l.stopsAt()
}

// beginStream starts over: heartbeats of an abandoned stream are no longer acknowledged.
func (l *lease) beginStream() {
	l.sequence = 0
	clear(l.sent)
}

func (l *lease) welcomed(helloSent time.Duration, welcome *pb.Welcome, sameIdentity bool) {
	l.welcome = terms{defaultLease, defaultInterval}
	if length := welcome.GetLease().AsDuration(); length > 0 {
		l.welcome.length = length
	}
	if interval := welcome.GetHeartbeatInterval().AsDuration(); interval > 0 {
		l.welcome.interval = interval
	}
	l.stopBudget = defaultBudget
	if welcome.GetStopBudget() != nil {
		l.stopBudget = max(0, welcome.GetStopBudget().AsDuration())
	}
	if sameIdentity && l.held {
		l.since = max(l.since, helloSent)
	} else {
		l.since = helloSent
	}
	if !sameIdentity {
		l.agreed = terms{}
	}
	l.held = true
}

func (l *lease) registered(registered *pb.Registered) {
	l.agreed.length = shorter(max(0, registered.GetLease().AsDuration()), l.agreed.length)
	l.agreed.interval = shorter(max(0, registered.GetHeartbeatInterval().AsDuration()), l.agreed.interval)
}

// heartbeat is the number of one that is sent now.
func (l *lease) heartbeat(boot time.Duration) uint64 {
	l.sequence++
	l.sent[l.sequence] = boot
	return l.sequence
}

// acknowledged returns when the heartbeat was sent, if it renews the lease: one that was not sent, or was acknowledged
// before, does not.
func (l *lease) acknowledged(sequence uint64) (time.Duration, bool) {
	sent, known := l.sent[sequence]
	if !known || !l.held {
		return 0, false
	}
	l.since = max(l.since, sent)
	for number := range l.sent {
		if number <= sequence {
			delete(l.sent, number)
		}
	}
	return sent, true
}
