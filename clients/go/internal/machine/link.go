package machine

import (
	"fmt"
	"log/slog"
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

const (
	// longestDelayLeaving: while a worker leaves, pauses stay short, since there is little time.
	longestDelayLeaving = time.Second
	// welcomeTimeout is how long a Hello waits for its Welcome.
	welcomeTimeout = 6 * time.Second
)

// isFinal: before any Welcome, trying again with the same Hello would change nothing.
func isFinal(code string) bool {
	switch code {
	case "UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED":
		return true
	default:
		return false
	}
}

type linkState int

const (
	down linkState = iota
	opening
	// greeting: Hello was sent, Welcome has not arrived.
	greeting
	live
	// over: Finish was sent, and further events are ignored.
	over
)

// link is the current stream, and the way to the next one.
type link struct {
	state  linkState
	route  route
	delay  oneWayDelay
	stream uint64
	server string
	// by is the deadline of the link's current step: to retry, to be open, to be welcomed.
	by            time.Duration
	helloSent     time.Duration
	lastHeartbeat time.Duration
	lastFrame     time.Duration
	// lastRenewed is the last frame that renewed the lease.
	lastRenewed time.Duration
	// credits is how many reports may be unacknowledged.
	credits int
}

func newLink(settings Settings, chance func() float64) link {
	trusted := settings.Trusted
	if trusted == nil {
		trusted = func(string) bool { return true }
	}
	return link{route: newRoute(settings.Servers, trusted, chance), by: never, credits: 1}
}

func (m *Machine) open(now Now) {
	m.link.stream++
	m.link.server = m.link.route.take()
	m.link.state = opening
	m.link.by = after(now.Boot, m.settings.ConnectTimeout)
	m.emit(Open{Stream: m.link.stream, Address: m.link.server})
}

func (m *Machine) greet(now Now) {
	m.link.state = greeting
	m.link.by = now.Boot + welcomeTimeout
	m.link.helloSent = now.Boot
	m.lease.beginStream()
	m.link.delay.forget()
	var jobsAsked []string
	if m.identity.workerID != "" {
		jobsAsked = m.jobs.onlyAsked()
	}
	m.send(&pb.SessionRequest{Frame: &pb.SessionRequest_Hello{Hello: &pb.Hello{
		Namespace:     m.settings.Namespace,
		WorkerId:      m.identity.workerID,
		ResumeKey:     m.identity.resumeKey,
		StreamNumber:  m.link.stream,
		Address:       m.settings.Address,
		Labels:        maps.Clone(m.settings.Labels),
		Slots:         uint32(m.settings.Slots),
		RunsInFlight:  m.runs.refs(),
		Client:        m.settings.Client,
		SentAt:        timestamppb.New(now.Wall),
		Jobs:          m.jobs.agreed(),
		JobsAsked:     jobsAsked,
		HoldsTriggers: true,
	}}})
}

func (m *Machine) welcomed(now Now, welcome *pb.Welcome) {
	same := m.identity.workerID == "" || m.identity.workerID == welcome.GetWorkerId()
	if !same {
		m.note(slog.LevelWarn, fmt.Sprintf("%s had been marked dead: going on as %s", m.identity.workerID, welcome.GetWorkerId()))
		m.runs.disown(now)
	}
	m.identity = identity{
		workerID: welcome.GetWorkerId(), resumeKey: welcome.GetResumeKey(), instanceID: welcome.GetInstanceId(),
	}
	m.link.credits = int(max(1, welcome.GetMaxUnacknowledgedReports()))
	m.rejections = 0
	m.lease.welcomed(m.link.helloSent, welcome, same)
	for _, address := range m.link.route.learn(welcome.GetCoordinators()) {
		m.note(slog.LevelWarn, fmt.Sprintf("coordinator %s, which a Welcome named, is passed over: its host was not given; give it as a server "+
			"too, or a CA of your own with https:// (ROSTERD_CA)", address))
	}
	m.link.state = live
	m.link.by = never
	m.runs.sayOffsetsAgain()
	m.link.lastHeartbeat = m.link.helloSent
	m.link.lastRenewed = now.Boot
	m.note(slog.LevelInfo, fmt.Sprintf("connected to %s as %s", m.link.server, welcome.GetInstanceId()),
		slog.String("instance", welcome.GetInstanceId()))
	m.emit(Attached{Server: m.link.server, InstanceID: welcome.GetInstanceId()})
	if m.leaving == nil {
		m.jobs.registerAll()
	} else {
		m.leaving.newStream()
	}
	m.callbacks.sayMissed()
}

func (m *Machine) lost(now Now, code, detail string) {
	reason := detail
	if code != "" {
		reason = code + ": " + detail
	}
	m.emit(Close{Stream: m.link.stream})
	failed := "cannot connect to"
	if m.link.state == live {
		failed = "disconnected from"
		m.emit(Detached{Server: m.link.server, Reason: reason})
	}
	m.runs.dropUnstarted()
	m.link.state = down
	if m.identity.workerID == "" && isFinal(code) {
		m.rejections++
		if m.rejections >= len(m.link.route.addresses) {
			m.finish(End{How: Rejected, Code: code, Detail: detail})
			return
		}
	} else {
		m.rejections = 0
	}
	longest := m.settings.LongestDelay
	if m.leaving != nil {
		longest = min(longest, longestDelayLeaving)
	}
	pause := m.link.route.lost(longest)
	m.link.by = now.Boot + pause
	level := slog.LevelWarn
	if isFinal(code) {
		level = slog.LevelError
	}
	m.note(level, fmt.Sprintf("%s %s: %s; retrying in %.1fs", failed, m.link.server, reason, pause.Seconds()))
	if pause == 0 {
		m.open(now)
	}
}

func (m *Machine) acknowledged(now Now, sequence uint64) {
	sent, renews := m.lease.acknowledged(sequence)
	if !renews {
		return
	}
	m.link.route.good()
	m.link.lastRenewed = now.Boot
	m.emit(Renewed{RoundTrip: now.Boot - sent})
}

// deadAt is when the stream counts as dead: no frame arrives, or none renews the lease before its end.
func (m *Machine) deadAt() time.Duration {
	patience := m.lease.patience()
	return min(m.link.lastFrame+patience, max(m.lease.stopsAt(), m.link.lastRenewed+patience))
}

func (m *Machine) heartbeat(now Now) {
	m.link.lastHeartbeat = now.Boot
	m.send(&pb.SessionRequest{Frame: &pb.SessionRequest_Heartbeat{Heartbeat: &pb.Heartbeat{
		Sequence:     m.lease.heartbeat(now.Boot),
		RunsInFlight: m.runs.refs(),
		Lease:        durationpb.New(m.lease.length()),
	}}})
}
