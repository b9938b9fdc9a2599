// Package scripted is a coordinator for tests: a real gRPC server on loopback whose every frame a test writes. It
// acknowledges heartbeats by itself unless the test turns that off; everything else waits for the test.
package scripted

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// Patience is how long a test waits for a state.
const Patience = 20 * time.Second

// quiet frames are skipped if another one is expected.
var quiet = []string{"heartbeat", "run_started", "run_progress"}

// Coordinator is the server.
type Coordinator struct {
	pb.UnimplementedWorkerServiceServer
	t        testing.TB
	server   *grpc.Server
	listener net.Listener
	sessions chan *Session
	deaf     atomic.Bool

	mutex      sync.Mutex
	open, most int
}

// Start serves on any free port until the test ends.
func Start(t testing.TB, options ...grpc.ServerOption) *Coordinator {
	t.Helper()
	return StartAt(t, "127.0.0.1:0", options...)
}

// StartAt serves at an address.
func StartAt(t testing.TB, address string, options ...grpc.ServerOption) *Coordinator {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := &Coordinator{t: t, server: grpc.NewServer(options...), listener: listener, sessions: make(chan *Session, 64)}
	pb.RegisterWorkerServiceServer(c.server, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.server.Serve(listener)
	}()
	t.Cleanup(func() {
		c.server.Stop()
		<-done
	})
	return c
}

// Address is host:port.
func (c *Coordinator) Address() string {
	return c.listener.Addr().String()
}

// Stop ends all streams and stops serving.
func (c *Coordinator) Stop() {
	c.server.Stop()
}

// AnswerHeartbeats sets whether they are acknowledged.
func (c *Coordinator) AnswerHeartbeats(answer bool) {
	c.deaf.Store(!answer)
}

// MostOpen is the most streams that were open at a time.
func (c *Coordinator) MostOpen() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.most
}

// Accept is the next stream.
func (c *Coordinator) Accept() *Session {
	c.t.Helper()
	select {
	case session := <-c.sessions:
		return session
	case <-time.After(Patience):
		c.t.Fatal("no stream comes")
		return nil
	}
}

// Session implements the service.
func (c *Coordinator) Session(stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) error {
	known, _ := metadata.FromIncomingContext(stream.Context())
	s := &Session{
		t: c.t, stream: stream, Metadata: known,
		frames: make(chan *pb.SessionRequest, 64*1024), end: make(chan error, 1), Closed: make(chan struct{}),
	}
	c.count(1)
	defer c.count(-1)
	defer close(s.Closed)
	c.sessions <- s
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(s.frames)
		for {
			frame, err := stream.Recv()
			if err != nil {
				return
			}
			if beat := frame.GetHeartbeat(); beat != nil && !c.deaf.Load() {
				s.Send(HeartbeatAck(beat.GetSequence()))
			}
			s.frames <- frame
		}
	}()
	select {
	case err := <-s.end:
		return err
	case <-read:
		return nil
	}
}

func (c *Coordinator) count(change int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.open += change
	c.most = max(c.most, c.open)
}

// Session is one stream of a worker.
type Session struct {
	Metadata metadata.MD
	// Closed is closed once the stream is.
	Closed chan struct{}

	t      testing.TB
	stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]
	frames chan *pb.SessionRequest
	end    chan error
	mutex  sync.Mutex
}

// Send writes frames. A stream that has ended accepts none.
func (s *Session) Send(frames ...*pb.SessionResponse) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, frame := range frames {
		_ = s.stream.Send(frame)
	}
}

// End ends the stream from this side; codes.OK: without an error.
func (s *Session) End(code codes.Code) {
	if code == codes.OK {
		s.end <- nil
	} else {
		s.end <- status.Error(code, "as the script says")
	}
	<-s.Closed
}

// Expect is the next frame, which must be of the kind that get gives; heartbeats, RunStarted and RunProgress before it
// are skipped.
func Expect[T any](s *Session, get func(*pb.SessionRequest) *T) *T {
	s.t.Helper()
	late := time.After(Patience)
	for {
		select {
		case frame, open := <-s.frames:
			if !open {
				s.t.Fatalf("wanted %T, the stream has ended", *new(T))
			}
			if found := get(frame); found != nil {
				return found
			}
			message := frame.ProtoReflect()
			kind := string(message.WhichOneof(message.Descriptor().Oneofs().ByName("frame")).Name())
			if !slices.Contains(quiet, kind) {
				s.t.Fatalf("wanted %T, got %v", *new(T), frame)
			}
		case <-late:
			s.t.Fatalf("%T does not come", *new(T))
		}
	}
}

// ExpectHeartbeatWith waits for a heartbeat that names these tokens, in any order.
func (s *Session) ExpectHeartbeatWith(tokens ...uint64) {
	s.t.Helper()
	slices.Sort(tokens)
	for {
		if slices.Equal(Tokens(Expect(s, (*pb.SessionRequest).GetHeartbeat).GetRunsInFlight()), tokens) {
			return
		}
	}
}

// Greet is the beginning of the conversation: Hello, Welcome, and for each job Register and Registered.
func (s *Session) Greet(welcome *pb.SessionResponse, jobs ...string) *pb.Hello {
	s.t.Helper()
	hello := Expect(s, (*pb.SessionRequest).GetHello)
	s.Send(welcome)
	for _, job := range jobs {
		register := Expect(s, (*pb.SessionRequest).GetRegister)
		if register.GetJob() != job {
			s.t.Fatalf("registers %s, not %s", register.GetJob(), job)
		}
		s.Send(Registered(job))
	}
	return hello
}

// Farewell is a leave with nothing left in flight.
func (s *Session) Farewell() {
	s.t.Helper()
	Expect(s, (*pb.SessionRequest).GetDrainRequest)
	s.Send(Draining())
	Expect(s, (*pb.SessionRequest).GetGoodbye)
	s.Send(GoodbyeAck())
}

// Report is the next RunCompleted, acknowledged.
func (s *Session) Report() *pb.RunCompleted {
	s.t.Helper()
	report := Expect(s, (*pb.SessionRequest).GetRunCompleted)
	s.Send(ReportAck(report.GetRun()))
	return report
}

// Until waits for a state.
func Until(t testing.TB, what string, state func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !state(); {
		if time.Now().After(end) {
			t.Fatalf("%s: the state does not come", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
