package driver

import (
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

const patience = 20 * time.Second

// hands is a clock that a test moves.
type hands struct {
	mutex sync.Mutex
	boot  time.Duration
	// looks is how often it was read since it was moved.
	looks int
}

func (h *hands) Now() machine.Now {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.looks++
	return machine.Now{Boot: h.boot, Wall: time.Unix(0, 0).Add(h.boot)}
}

func (h *hands) set(boot time.Duration) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.boot, h.looks = boot, 0
}

func (h *hands) looked() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.looks > 0
}

// line is a stream whose other end is the test.
type line struct {
	number uint64
	sent   chan *pb.SessionRequest
	feed   func(machine.Event)
	closed chan struct{}
	deaf   bool
}

func (l *line) Send(frame *pb.SessionRequest) bool {
	if l.deaf {
		return false
	}
	l.sent <- frame
	return true
}

func (l *line) Close()                  { close(l.closed) }
func (l *line) Closed() <-chan struct{} { return l.closed }

func (l *line) receive(frame *pb.SessionResponse) {
	l.feed(machine.Received{Stream: l.number, Frame: frame})
}

// user is user code that begins immediately, and never ends.
type user struct {
	starts chan machine.Key
	stops  chan machine.StopReason
	panics bool
}

func (u *user) StartRun(start machine.StartRun) {
	if u.panics {
		panic("a defect")
	}
	u.starts <- start.Key
}
func (u *user) StopRun(_ machine.Key, reason machine.StopReason) { u.stops <- reason }
func (u *user) StartCallback(*pb.Callback)                       {}
func (u *user) Leaving()                                         {}
func (u *user) Line(machine.Effect)                              {}

// play is a driver at work.
type play struct {
	*Driver
	t     *testing.T
	clock *hands
	user  *user
	lines chan *line
	ended chan *Defect
}

func playing(t *testing.T, prepare func(*line)) *play {
	p := &play{
		t: t, clock: &hands{boot: time.Hour}, user: &user{starts: make(chan machine.Key, 8), stops: make(chan machine.StopReason, 8)},
		lines: make(chan *line, 8), ended: make(chan *Defect, 1),
	}
	settings := machine.Settings{
		Servers: []string{"a:1"}, Slots: 4, DrainTimeout: time.Second, LeaveTimeout: time.Second,
		ConnectTimeout: 3 * time.Second, LongestDelay: time.Second,
	}
	dial := func(number uint64, _ string, earlier <-chan struct{}, feed func(machine.Event)) Stream {
		if earlier != nil {
			select {
			case <-earlier:
			default:
				t.Error("a stream is opened before the last one is closed")
			}
		}
		l := &line{number: number, sent: make(chan *pb.SessionRequest, 64), feed: feed, closed: make(chan struct{})}
		prepare(l)
		p.lines <- l
		return l
	}
	m := machine.New(settings, []machine.Registration{{Job: "j"}}, func() float64 { return 0 })
	p.Driver = New(m, p.clock, NewState(p.clock), dial, p.user)
	// A busy machine must not make the test fail.
	p.patience = time.Second
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, defect := p.Run()
		p.ended <- defect
	}()
	t.Cleanup(func() {
		p.Post(machine.Quit{})
		<-done
	})
	return p
}

func next[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case found := <-from:
		return found
	case <-time.After(patience):
		t.Fatalf("%s does not come", what)
		panic("unreachable")
	}
}

// attached has a lease of 5 s from the hour on.
func (p *play) attached() *line {
	p.t.Helper()
	l := next(p.t, "a stream", p.lines)
	l.feed(machine.Opened{Stream: l.number})
	for next(p.t, "Hello", l.sent).GetHello() == nil {
	}
	l.receive(&pb.SessionResponse{Frame: &pb.SessionResponse_Welcome{Welcome: &pb.Welcome{
		WorkerId: "w1", Lease: durationpb.New(5 * time.Second), HeartbeatInterval: durationpb.New(time.Second),
	}}})
	for next(p.t, "Register", l.sent).GetRegister() == nil {
	}
	return l
}

func trigger(token uint64) *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_Trigger{Trigger: &pb.Trigger{
		Run: &pb.RunRef{Job: "j", Item: uint32(token), Token: token},
	}}}
}

func ack(sequence uint64) *pb.SessionResponse {
	return &pb.SessionResponse{Frame: &pb.SessionResponse_HeartbeatAck{HeartbeatAck: &pb.HeartbeatAck{Sequence: sequence}}}
}

func nothing(*line) {}

func TestAnAcknowledgementThatComesRightAfterTheProcessStoodStillCountsBeforeTheTimers(t *testing.T) {
	p := playing(t, nothing)
	l := p.attached()
	l.receive(trigger(1))
	next(t, "the run", p.user.starts)
	p.Post(machine.Began{Key: machine.Key{Item: machine.Item{Job: "j", Item: 1}, Token: 1}})
	p.clock.set(time.Hour + time.Second)
	for next(t, "a heartbeat", l.sent).GetHeartbeat() == nil {
	}
	// The process is frozen; another frame wakes it first, and it reads the acknowledgement only after that one.
	p.clock.set(time.Hour + 5100*time.Millisecond)
	l.receive(&pb.SessionResponse{Frame: &pb.SessionResponse_Assignment{Assignment: &pb.Assignment{Job: "j"}}})
	for end := time.Now().Add(patience); !p.clock.looked() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	l.receive(ack(1))
	for next(t, "a heartbeat", l.sent).GetHeartbeat() == nil {
	}
	select {
	case reason := <-p.user.stops:
		t.Errorf("the run was stopped: %v", reason)
	default:
	}
	if !p.Ready() {
		t.Error("the worker is not ready")
	}
	p.clock.set(time.Hour + 20*time.Second)
	if reason := next(t, "the stop", p.user.stops); reason != machine.StopLease {
		t.Errorf("stopped: %v", reason)
	}
	if p.Ready() {
		t.Error("the worker is ready without a lease")
	}
}

func TestACoordinatorThatDoesNotReadIsLeft(t *testing.T) {
	p := playing(t, func(l *line) { l.deaf = l.number == 1 })
	first := next(t, "a stream", p.lines)
	first.feed(machine.Opened{Stream: 1})
	second := p.attached()
	<-first.closed
	if second.number != 2 {
		t.Errorf("stream %d", second.number)
	}
}

func TestADefectEndsTheLeaseAndTheStream(t *testing.T) {
	p := playing(t, nothing)
	p.user.panics = true
	l := p.attached()
	l.receive(trigger(1))
	defect := next(t, "the end", p.ended)
	if defect == nil || defect.Cause != "a defect" || len(defect.Stack) == 0 {
		t.Errorf("%+v", defect)
	}
	<-l.closed
	<-p.Done()
	if p.state.LeaseLeft() > 0 || p.Ready() {
		t.Error("there is still a lease")
	}
	// Post does not wait for a driver that has ended.
	for range 2 * maxQueued {
		p.Post(machine.Tick{})
	}
}

func TestUserCodeGoesByTheDriverForAMomentBeforeItTakesItsLeaseForOver(t *testing.T) {
	clock := &hands{boot: time.Hour}
	state := NewState(clock)
	stopped := make(chan struct{})
	if !state.LeaseOver(stopped) {
		t.Error("there is a lease from the start")
	}
	state.set(time.Hour + time.Second)
	if state.LeaseOver(stopped) {
		t.Error("the lease is over")
	}
	clock.set(time.Hour + 2*time.Second)
	answers := make(chan bool)
	ask := func() {
		go func() { answers <- state.LeaseOver(stopped) }()
		for waiting := false; !waiting; time.Sleep(time.Millisecond) {
			state.mutex.Lock()
			waiting = state.waiters > 0
			state.mutex.Unlock()
		}
	}
	ask()
	// The acknowledgement was in the socket.
	state.set(time.Hour + 3*time.Second)
	state.turn()
	if <-answers {
		t.Error("it was renewed")
	}
	clock.set(time.Hour + 4*time.Second)
	if begun := time.Now(); !state.LeaseOver(stopped) || time.Since(begun) < turnPatience {
		t.Error("nobody has renewed it, and the driver had its time")
	}
	close(stopped)
	if !state.LeaseOver(stopped) {
		t.Error("the run was told to stop")
	}
}
