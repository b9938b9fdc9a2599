package wire

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

const (
	// maxWaiting frames may wait to be written; the machine's credits and rates keep it far below. Beyond that the worker
	// abandons the stream: it is as good as dead.
	maxWaiting       = 16 * 1024
	closeTimeout     = time.Second
	maxMessage       = 4 * 1024 * 1024
	keepaliveTime    = 20 * time.Second
	keepaliveTimeout = 5 * time.Second
	// Many small frames may lie unread for a moment; HTTP/2 ends a connection whose window they fill.
	streamWindow     = 1024 * 1024
	connectionWindow = 32 * 1024 * 1024
)

// Stream is one stream to one coordinator, with a connection of its own.
type Stream struct {
	number  uint64
	address string
	access  *Access
	feed    func(machine.Event)
	cancel  context.CancelFunc
	closed  chan struct{}

	mutex   sync.Mutex
	waiting []*pb.SessionRequest
	// more has room for one signal that frames wait.
	more chan struct{}
}

// Open connects once earlier, the closing of the previous stream, is done. Goroutines of the stream call feed, and no
// longer once the stream was closed, except for a call in progress.
func Open(number uint64, address string, access *Access, earlier <-chan struct{}, feed func(machine.Event)) *Stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Stream{
		number: number, address: address, access: access, cancel: cancel,
		closed: make(chan struct{}), more: make(chan struct{}, 1),
	}
	s.feed = func(event machine.Event) {
		if ctx.Err() == nil {
			feed(event)
		}
	}
	go s.run(ctx, earlier)
	return s
}

// Send queues a frame. False: the coordinator has not read for so long that the stream is useless.
func (s *Stream) Send(frame *pb.SessionRequest) bool {
	s.mutex.Lock()
	full := len(s.waiting) >= maxWaiting
	if !full {
		s.waiting = append(s.waiting, frame)
	}
	s.mutex.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return !full
}

// Close begins to close the stream; Closed reports when that is done.
func (s *Stream) Close() {
	s.cancel()
}

// Closed is closed once the stream is, and every one before it.
func (s *Stream) Closed() <-chan struct{} {
	return s.closed
}

func (s *Stream) run(ctx context.Context, earlier <-chan struct{}) {
	defer close(s.closed)
	defer s.cancel()
	if earlier != nil {
		<-earlier
	}
	conn, tls, err := s.dial()
	if err != nil {
		s.feed(machine.Lost{Stream: s.number, Detail: err.Error()})
		return
	}
	defer closeInTime(conn)
	if !connected(ctx, conn) {
		return
	}
	if err := s.converse(ctx, conn); ctx.Err() == nil {
		s.tellLost(err, tls)
	}
}

// connected waits until there is a connection, or an error; false: the stream was closed meanwhile.
func connected(ctx context.Context, conn *grpc.ClientConn) bool {
	conn.Connect()
	for {
		state := conn.GetState()
		// After a failure the call fails at once, and its status says why there is no connection.
		if state == connectivity.Ready || state == connectivity.TransientFailure {
			return true
		}
		if !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

// converse returns how the stream ended; nil: without an error.
func (s *Stream) converse(ctx context.Context, conn *grpc.ClientConn) error {
	if s.access.Credential != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.access.Credential)
	}
	ctx, cancel := context.WithCancel(ctx)
	session, err := pb.NewWorkerServiceClient(conn).Session(ctx)
	if err != nil {
		cancel()
		return err
	}
	s.feed(machine.Opened{Stream: s.number})
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write(ctx, session)
	}()
	defer func() {
		cancel()
		<-written
	}()
	for {
		frame, err := session.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.feed(machine.Received{Stream: s.number, Frame: frame})
	}
}

func (s *Stream) write(ctx context.Context, session grpc.BidiStreamingClient[pb.SessionRequest, pb.SessionResponse]) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.more:
		}
		s.mutex.Lock()
		frames := s.waiting
		s.waiting = nil
		s.mutex.Unlock()
		for _, frame := range frames {
			// Recv reports how the stream ended.
			if session.Send(frame) != nil {
				return
			}
		}
	}
}

func (s *Stream) tellLost(err error, tls *handshakes) {
	lost := machine.Lost{Stream: s.number, Detail: "the coordinator ended the stream"}
	if err != nil {
		lost.Code, lost.Detail = whyLost(err, tls)
	}
	s.feed(lost)
}

// dial opens a separate connection: a new stream never shares one, whatever happened to the old one.
func (s *Stream) dial() (*grpc.ClientConn, *handshakes, error) {
	// A coordinator may name others: the credential goes to none of them in the clear.
	if s.access.Exposes(s.address) {
		return nil, nil, Exposed(s.address)
	}
	target, err := Target(s.address)
	if err != nil {
		return nil, nil, err
	}
	transport := insecure.NewCredentials()
	var tls *handshakes
	if machine.Secure(s.address) {
		config, err := s.access.TLS()
		if err != nil {
			return nil, nil, err
		}
		tls = &handshakes{TransportCredentials: credentials.NewTLS(config)}
		transport = tls
	}
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(transport),
		grpc.WithUserAgent(s.access.UserAgent),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	return conn, tls, err
}

// closeInTime gives a connection some time for its last frames: the next stream waits for it.
func closeInTime(conn *grpc.ClientConn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = conn.Close()
	}()
	late := time.NewTimer(closeTimeout)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}
