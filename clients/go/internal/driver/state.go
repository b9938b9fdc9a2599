package driver

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rosterd/rosterd/clients/go/internal/clock"
)

const (
	// socketPatience is how long a driver that woke too late waits for what its socket holds.
	socketPatience = 25 * time.Millisecond
	// turnPatience is how long user code waits for the driver before it assumes that a lease has expired.
	turnPatience = 2 * socketPatience
	// enoughTurns: one turn may have been in progress when the process was frozen, so only the next has read the socket
	// since.
	enoughTurns = 2
)

// State is what goroutines of user code read without the driver, which alone writes it.
type State struct {
	clock   clock.Clock
	stopsAt atomic.Int64

	mutex   sync.Mutex
	waiters int
	turned  chan struct{}
}

// NewState makes a state without a lease.
func NewState(clock clock.Clock) *State {
	s := &State{clock: clock, turned: make(chan struct{})}
	s.stopsAt.Store(math.MinInt64)
	return s
}

// LeaseLeft is how long user code may still go on, by the clock.
func (s *State) LeaseLeft() time.Duration {
	stopsAt := time.Duration(s.stopsAt.Load())
	if stopsAt < 0 {
		return 0
	}
	return stopsAt - s.clock.Now().Boot
}

// LeaseOver reports whether user code must stop, by the clock; stopped is closed once the run must stop in any case.
//
// When a frozen process resumes, an acknowledgement that waited in the socket still counts: so the driver, which reads
// it, gets a moment, in which this goroutine does not go on.
func (s *State) LeaseOver(stopped <-chan struct{}) bool {
	if s.LeaseLeft() > 0 {
		return false
	}
	late := time.NewTimer(turnPatience)
	defer late.Stop()
	s.mutex.Lock()
	s.waiters++
	turned := s.turned
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		s.waiters--
		s.mutex.Unlock()
	}()
	for range enoughTurns {
		select {
		case <-turned:
		case <-stopped:
			return true
		case <-late.C:
			return s.LeaseLeft() <= 0
		}
		if s.LeaseLeft() > 0 {
			return false
		}
		s.mutex.Lock()
		turned = s.turned
		s.mutex.Unlock()
	}
	return s.LeaseLeft() <= 0
}

// turn marks that the driver has handled everything.
func (s *State) turn() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.waiters > 0 {
		close(s.turned)
		s.turned = make(chan struct{})
	}
}

func (s *State) set(stopsAt time.Duration) {
	s.stopsAt.Store(int64(stopsAt))
}
