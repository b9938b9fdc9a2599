// Package driver is the half of a worker that owns time and I/O: it feeds the machine and performs its effects. It
// decides nothing.
//
// One goroutine runs the loop, and waits for nothing but events and its timer: not for user code, a logger, or a
// coordinator that does not read.
package driver

import (
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/rosterd/rosterd/clients/go/internal/clock"
	"github.com/rosterd/rosterd/clients/go/internal/machine"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

const (
	// longestWait: Go's timers stop while the machine sleeps, the lease's clock does not. So the loop checks at least this
	// often.
	longestWait = 250 * time.Millisecond
	// late: a wake-up that comes later than this means that the process was frozen.
	late = 10 * time.Millisecond
	// maxQueued events wait for the driver; then goroutines of user code and of streams wait to hand over more.
	maxQueued = 1024
)

// User is user code, as the driver calls it: every method returns at once.
type User interface {
	StartRun(machine.StartRun)
	StopRun(machine.Key, machine.StopReason)
	StartCallback(*pb.Callback)
	Leaving()
	// Line takes a Note, Attached, Detached or Renewed.
	Line(machine.Effect)
}

// Stream is one stream to a coordinator.
type Stream interface {
	// Send does not wait. False: the coordinator has not read for so long that the stream is useless.
	Send(*pb.SessionRequest) bool
	// Close begins to close it.
	Close()
	// Closed is closed once it is.
	Closed() <-chan struct{}
}

// Dial opens a stream once earlier is closed (nil: immediately), and feeds its events.
type Dial func(number uint64, address string, earlier <-chan struct{}, feed func(machine.Event)) Stream

// Driver runs one machine.
type Driver struct {
	machine *machine.Machine
	clock   clock.Clock
	state   *State
	dial    Dial
	user    User

	// patience is socketPatience, except in tests.
	patience time.Duration
	events   chan machine.Event
	done     chan struct{}
	ready    atomic.Bool

	streams map[uint64]Stream
	// closing is closed once the last stream that was closed is.
	closing <-chan struct{}
	// planned is when the loop meant to wake at the latest, on the boot clock.
	planned time.Duration
	over    bool
	finish  machine.End
}

// New makes a driver, which alone writes the state.
func New(m *machine.Machine, clock clock.Clock, state *State, dial Dial, user User) *Driver {
	return &Driver{
		machine: m, clock: clock, state: state, dial: dial, user: user, patience: socketPatience,
		events: make(chan machine.Event, maxQueued), done: make(chan struct{}), streams: make(map[uint64]Stream),
	}
}

// Post queues an event; it waits while the queue is full, but not once the driver has ended.
func (d *Driver) Post(event machine.Event) {
	select {
	case d.events <- event:
	case <-d.done:
	}
}

// Done is closed once the driver has ended.
func (d *Driver) Done() <-chan struct{} {
	return d.done
}

// Ready reports whether the worker is attached, its lease is valid, and it is not leaving.
func (d *Driver) Ready() bool {
	return d.ready.Load() && d.state.LeaseLeft() > 0
}

// A Defect is a panic of this library: without heartbeats every run must stop.
type Defect struct {
	Cause any
	Stack []byte
}

// Run runs until the machine has finished. It is called once.
func (d *Driver) Run() (finish machine.End, defect *Defect) {
	defer func() {
		if cause := recover(); cause != nil {
			defect = &Defect{Cause: cause, Stack: debug.Stack()}
		}
		d.end()
	}()
	d.feed(machine.Start{})
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !d.over {
		d.state.turn()
		batch := d.gather(timer)
		for _, event := range batch {
			d.feed(event)
		}
	}
	return d.finish, nil
}

// gather waits for events or the timer, and takes all that are queued, acknowledgements first: several frames may have
// arrived while the process was frozen, and a proof of the lease must not wait behind a frame that depends on it.
func (d *Driver) gather(timer *time.Timer) []machine.Event {
	now := d.clock.Now().Boot
	wait := min(max(0, d.machine.Deadline()-now), longestWait)
	d.planned = now + wait
	timer.Reset(wait)
	var proofs, others []machine.Event
	take := func(event machine.Event) {
		if machine.ProvesLease(event) {
			proofs = append(proofs, event)
		} else {
			others = append(others, event)
		}
	}
	select {
	case event := <-d.events:
		take(event)
	case <-timer.C:
	}
	d.drain(take)
	if len(proofs) == 0 && d.stoodStill() {
		d.waitForProof(timer, take)
	}
	if len(proofs) == 0 && len(others) == 0 {
		return []machine.Event{machine.Tick{}}
	}
	return append(proofs, others...)
}

func (d *Driver) drain(take func(machine.Event)) {
	for range maxQueued {
		select {
		case event := <-d.events:
			take(event)
		default:
			return
		}
	}
}

// stoodStill reports whether this turn began too late, and the lease that was valid before has ended meanwhile.
func (d *Driver) stoodStill() bool {
	now := d.clock.Now().Boot
	stopsAt := d.machine.LeaseStopsAt()
	return now > d.planned+late && now >= stopsAt && d.planned <= stopsAt && d.machine.LiveStream() != 0
}

// waitForProof: an acknowledgement that waited in the socket while the process was frozen counts before the timers.
func (d *Driver) waitForProof(timer *time.Timer, take func(machine.Event)) {
	timer.Reset(d.patience)
	for {
		select {
		case event := <-d.events:
			take(event)
			if machine.ProvesLease(event) {
				return
			}
		case <-timer.C:
			return
		}
	}
}

func (d *Driver) feed(event machine.Event) {
	if d.over {
		return
	}
	effects := d.machine.Handle(d.clock.Now(), event)
	// Before any effect: user code may check it next.
	d.state.set(d.machine.LeaseStopsAt())
	d.ready.Store(d.machine.LiveStream() != 0 && !d.machine.Leaving())
	for _, effect := range effects {
		d.perform(effect)
	}
}

func (d *Driver) perform(effect machine.Effect) {
	switch effect := effect.(type) {
	case machine.Open:
		d.streams[effect.Stream] = d.dial(effect.Stream, effect.Address, d.closing, d.Post)
	case machine.Close:
		d.close(effect.Stream)
	case machine.Send:
		if stream := d.streams[effect.Stream]; stream != nil && !stream.Send(effect.Frame) {
			d.feed(machine.Lost{Stream: effect.Stream, Detail: "the coordinator does not read"})
		}
	case machine.StartRun:
		d.user.StartRun(effect)
	case machine.StopRun:
		d.user.StopRun(effect.Key, effect.Reason)
	case machine.StartCallback:
		d.user.StartCallback(effect.Callback)
	case machine.Departing:
		d.user.Leaving()
	case machine.Finish:
		d.over, d.finish = true, effect.End
	default:
		d.user.Line(effect)
	}
}

func (d *Driver) close(number uint64) {
	stream := d.streams[number]
	if stream == nil {
		return
	}
	delete(d.streams, number)
	stream.Close()
	d.closing = stream.Closed()
}

// end leaves nothing behind: no stream, and no lease that user code could rely on.
func (d *Driver) end() {
	d.over = true
	d.state.set(0)
	d.ready.Store(false)
	close(d.done)
	for number := range d.streams {
		d.close(number)
	}
	if d.closing != nil {
		<-d.closing
	}
	d.state.turn()
}
