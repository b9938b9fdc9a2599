package machine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

const stormSlots = 3

// storm plays any events, in any order.
type storm struct {
	t       *testing.T
	machine *Machine
	chance  *rand.Rand
	now     time.Duration
	stream  uint64
	answers bool
	// inside are the runs in user code.
	inside []Key
}

func newStorm(t *testing.T, seed uint64) *storm {
	chance := rand.New(rand.NewPCG(seed, 1))
	settings := Settings{
		Servers: []string{"a:1", "b:1"}, Slots: stormSlots, DrainTimeout: 30 * time.Second, LeaveTimeout: 10 * time.Second,
		ConnectTimeout: 3 * time.Second, LongestDelay: 10 * time.Second,
	}
	s := &storm{t: t, chance: chance, now: 100 * time.Second}
	s.machine = New(settings, []Registration{{Job: "j"}}, chance.Float64)
	s.feed(Start{})
	return s
}

func (s *storm) feed(event Event) {
	for _, effect := range s.machine.Handle(Now{Boot: s.now, Wall: time.Unix(0, int64(s.now))}, event) {
		switch effect := effect.(type) {
		case Open:
			s.stream = effect.Stream
		case StartRun:
			s.begin(effect.Key)
		case Send:
			if beat := effect.Frame.GetHeartbeat(); beat != nil && s.answers {
				s.receive(&pb.SessionResponse{Frame: &pb.SessionResponse_HeartbeatAck{
					HeartbeatAck: &pb.HeartbeatAck{Sequence: beat.GetSequence()},
				}})
			}
		}
	}
	s.judge()
}

// begin checks that no item is twice in user code, and that none begins without a lease or a slot.
func (s *storm) begin(key Key) {
	for _, other := range s.inside {
		if other.Item == key.Item {
			s.t.Fatalf("%v begins while %v is in user code", key, other)
		}
	}
	s.inside = append(s.inside, key)
	if len(s.inside) > stormSlots {
		s.t.Fatalf("%v are in user code", s.inside)
	}
	if s.now >= s.machine.LeaseStopsAt() {
		s.t.Fatalf("%v begins without a lease", key)
	}
	s.feed(Began{Key: key})
}

func (s *storm) judge() {
	if s.machine.runs.underWay > s.machine.link.credits {
		s.t.Fatalf("%d reports are under way", s.machine.runs.underWay)
	}
	if s.now >= s.machine.LeaseStopsAt() && s.machine.runs.hasUnstopped() {
		s.t.Fatal("a run goes on without a lease")
	}
}

func (s *storm) receive(frame *pb.SessionResponse) {
	s.feed(Received{Stream: s.stream, Frame: frame})
}

func (s *storm) wait(length time.Duration) {
	for end := s.now + length; s.now < end; {
		s.now = min(end, max(s.now+time.Microsecond, s.machine.Deadline()))
		s.feed(Tick{})
	}
}

func (s *storm) ref(n int) *pb.RunRef {
	token := max(1, n-s.chance.IntN(6))
	return &pb.RunRef{Job: "j", Item: uint32(s.chance.IntN(3)), Token: uint64(token)}
}

func (s *storm) step(n int) {
	switch s.chance.IntN(10) {
	case 0, 1:
		trigger := &pb.Trigger{Run: s.ref(n), MaxAttempts: 2, FireTime: timestamppb.New(time.Unix(0, int64(s.now)))}
		if s.chance.IntN(2) == 0 {
			trigger.StartsIn = durationpb.New(200 * time.Millisecond)
		}
		s.receive(&pb.SessionResponse{Frame: &pb.SessionResponse_Trigger{Trigger: trigger}})
	case 2:
		s.feed(Opened{Stream: s.stream})
	case 3:
		worker := "w1"
		if s.chance.IntN(4) == 0 {
			worker = fmt.Sprint("w", n)
		}
		s.receive(&pb.SessionResponse{Frame: &pb.SessionResponse_Welcome{Welcome: &pb.Welcome{
			WorkerId: worker, MaxUnacknowledgedReports: 2,
		}}})
	case 4, 5:
		s.answers = s.chance.IntN(5) > 0
		s.wait([]time.Duration{100 * time.Millisecond, time.Second, 4 * time.Second}[s.chance.IntN(3)])
	case 6:
		s.feed(Lost{Stream: s.stream, Code: "UNAVAILABLE"})
	case 7:
		s.end()
	case 8:
		s.receive(&pb.SessionResponse{Frame: &pb.SessionResponse_ReportAck{ReportAck: &pb.ReportAck{
			Run: s.ref(n), Result: pb.ReportResult(1 + s.chance.IntN(3)),
		}}})
	case 9:
		s.receive(&pb.SessionResponse{Frame: &pb.SessionResponse_Cancel{Cancel: &pb.Cancel{
			Run: s.ref(n), Reason: pb.CancelReason(s.chance.IntN(4)),
		}}})
	}
}

func (s *storm) end() {
	if len(s.inside) == 0 {
		return
	}
	i := s.chance.IntN(len(s.inside))
	key := s.inside[i]
	s.inside = append(s.inside[:i], s.inside[i+1:]...)
	s.feed(Ended{Key: key, Ending: Ending{Kind: EndKind(s.chance.IntN(4))}})
}

func TestNoItemIsTwiceInUserCodeAndNoneStartsWithoutALeaseWhateverComes(t *testing.T) {
	for seed := range uint64(40) {
		s := newStorm(t, seed)
		for n := 1; n <= 500; n++ {
			s.step(n)
		}
		// Timers that became due by the last event take a tick.
		s.feed(Tick{})
		if s.machine.Deadline() <= s.now {
			t.Fatalf("seed %d: the machine does not come to rest", seed)
		}
	}
}
