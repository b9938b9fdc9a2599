package machine

import (
	"log/slog"
	"time"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// Machine is the conversation of one worker.
type Machine struct {
	output
	settings  Settings
	jobs      *jobs
	runs      *inFlight
	callbacks *callbacks
	lease     lease
	link      link
	identity  identity
	// rejections counts coordinators in a row that rejected this worker before any had welcomed it.
	rejections int
	leaving    *leaving
}

// identity is the identity that the coordinators gave this process; its worker's id is empty before the first Welcome.
type identity struct{ workerID, resumeKey, instanceID string }

// New makes a machine; chance returns a number from 0 to 1.
func New(settings Settings, registrations []Registration, chance func() float64) *Machine {
	m := &Machine{settings: settings, lease: newLease(), link: newLink(settings, chance)}
	m.jobs = newJobs(registrations, &m.output, m.send)
	m.runs = newInFlight(settings.Slots, &m.output)
	m.callbacks = newCallbacks(settings.Slots, &m.output, func(done *pb.CallbackDone) bool {
		if m.link.state == live {
			m.send(&pb.SessionRequest{Frame: &pb.SessionRequest_CallbackDone{CallbackDone: done}})
		}
		return m.link.state == live
	})
	return m
}

// ---- what a driver needs

// ProvesLease reports whether an event is an acknowledgement. One that waited in the socket still proves a lease, so it
// is handled before the timers, and a driver passes it before the other events that arrived with it.
func ProvesLease(event Event) bool {
	received, is := event.(Received)
	return is && received.Frame.GetHeartbeatAck() != nil
}

// Handle returns what to do about an event, in this order.
//
// All but acknowledgements are handled after the timers, so that nothing starts under a lease that has just ended.
func (m *Machine) Handle(now Now, event Event) []Effect {
	if m.link.state == over {
		return nil
	}
	proof := ProvesLease(event)
	if proof {
		m.apply(now, event)
	}
	m.expire(now)
	if !proof && m.link.state != over {
		m.apply(now, event)
	}
	if m.link.state != over {
		m.settle(now)
	}
	return m.take()
}

// LeaseStopsAt is when user code must stop, as far as is known now: for the last check before user code, by the
// goroutine that calls it.
func (m *Machine) LeaseStopsAt() time.Duration {
	return m.lease.stopsAt()
}

// LiveStream is the attached stream; 0: none.
func (m *Machine) LiveStream() uint64 {
	if m.link.state == live {
		return m.link.stream
	}
	return 0
}

// Leaving reports whether the worker is leaving.
func (m *Machine) Leaving() bool {
	return m.leaving != nil
}

// ---- events

func (m *Machine) apply(now Now, event Event) {
	switch event := event.(type) {
	case Start:
		m.open(now)
	case Tick:
	case Opened:
		if event.Stream == m.link.stream && m.link.state == opening {
			m.greet(now)
		}
	case Lost:
		if event.Stream == m.link.stream && m.link.state != down {
			m.lost(now, event.Code, event.Detail)
		}
	case Received:
		// Ignore frames of an abandoned stream.
		if event.Stream == m.link.stream {
			m.received(now, event.Frame)
		}
	case Began:
		m.runs.began(now, event.Key)
	case Ended:
		m.runs.ended(now, event.Key, event.Ending)
	case Expired:
		// Even if an acknowledgement has arrived meanwhile: user code stops, so its run must not count as done.
		m.runs.cancel(now, event.Key, StopLease)
	case Progressed:
		m.runs.progressed(event.Key, event.Progress)
	case OffsetSet:
		m.runs.offsetSet(now, event.Key, event.Offset)
	case CallbackEnded:
		m.callbacks.ended(event.ID, event.Error, false)
	case Leave:
		m.askedToLeave(now, event)
	case Quit:
		m.runs.stopAll(now, StopLeaving)
		m.note(slog.LevelWarn, "left at once, without a goodbye")
		m.finish(End{How: Killed})
	}
}

func (m *Machine) received(now Now, frame *pb.SessionResponse) {
	if m.link.state != greeting && m.link.state != live {
		return
	}
	m.link.lastFrame = now.Boot
	if m.link.state == greeting {
		if welcome := frame.GetWelcome(); welcome != nil {
			m.welcomed(now, welcome)
		}
		return
	}
	switch frame := frame.GetFrame().(type) {
	case *pb.SessionResponse_HeartbeatAck:
		m.acknowledged(now, frame.HeartbeatAck.GetSequence())
	case *pb.SessionResponse_Trigger:
		m.trigger(now, frame.Trigger)
	case *pb.SessionResponse_Cancel:
		m.runs.cancel(now, keyOf(frame.Cancel.GetRun()), stopReasonOf(frame.Cancel.GetReason()))
	case *pb.SessionResponse_ReportAck:
		m.runs.acknowledged(frame.ReportAck)
	case *pb.SessionResponse_Registered:
		if m.jobs.registered(frame.Registered) {
			m.lease.registered(frame.Registered)
		}
	case *pb.SessionResponse_Refused:
		m.jobs.refused(now.Boot, frame.Refused)
		m.leaveWithoutJobs(now)
	case *pb.SessionResponse_Assignment:
		m.jobs.assigned(frame.Assignment)
	case *pb.SessionResponse_Callback:
		m.callbacks.asked(now.Boot, frame.Callback)
	case *pb.SessionResponse_Drain:
		m.drain(now, frame.Drain)
	case *pb.SessionResponse_Draining:
		if m.leaving != nil {
			m.leaving.draining = true
		}
	case *pb.SessionResponse_GoodbyeAck:
		if m.leaving != nil && m.leaving.goodbye {
			m.finish(m.leaving.end)
		}
	case *pb.SessionResponse_Shutdown:
		m.shutdown(now, frame.Shutdown)
	default:
		// Ignore unknown frames, and a second Welcome.
	}
}

// ---- runs

func (m *Machine) trigger(now Now, trigger *pb.Trigger) {
	if trigger.GetRun() == nil {
		return
	}
	startsIn := max(0, trigger.GetStartsIn().AsDuration())
	if startsIn > 0 && trigger.GetFireTime() != nil {
		startsIn = m.link.delay.remainingWait(now.Boot, trigger.GetFireTime().AsTime(), startsIn)
	}
	m.runs.take(now, offer{
		trigger:    trigger,
		instanceID: m.identity.instanceID,
		props:      m.jobs.props(trigger.GetRun().GetJob()),
		startsIn:   startsIn,
		objection:  m.objection(now, trigger.GetRun().GetJob()),
	})
}

// objection is why not to start a run, apart from the runs in flight.
func (m *Machine) objection(now Now, job string) string {
	switch {
	case !m.lease.valid(now.Boot):
		return "the lease has ended"
	case !m.jobs.serves(job):
		return "this worker is not registered for the job"
	case m.leaving == nil:
		return ""
	case now.Boot >= m.leaving.drainBy:
		return "the worker is leaving"
	case m.leaving.goodbye:
		// The coordinator hands back the runs that the records still assign to it: they may start elsewhere at any moment.
		return "the worker has said goodbye"
	default:
		return ""
	}
}

// ---- after every event

// settle sends what the coordinator does not know yet: level-triggered, so nothing depends on the event.
func (m *Machine) settle(now Now) {
	if m.link.state == live {
		for _, started := range m.runs.dueStarted() {
			m.send(&pb.SessionRequest{Frame: &pb.SessionRequest_RunStarted{RunStarted: started}})
		}
		for _, progress := range m.runs.dueProgress(now) {
			m.send(&pb.SessionRequest{Frame: &pb.SessionRequest_RunProgress{RunProgress: progress}})
		}
		for _, report := range m.runs.dueReports(m.link.stream, m.link.credits) {
			m.send(&pb.SessionRequest{Frame: &pb.SessionRequest_RunCompleted{RunCompleted: report}})
		}
	}
	if m.leaving != nil {
		m.settleLeaving(now)
	}
}

func (m *Machine) send(frame *pb.SessionRequest) {
	m.emit(Send{Stream: m.link.stream, Frame: frame})
}

func (m *Machine) finish(end End) {
	if m.link.state != down {
		m.emit(Close{Stream: m.link.stream})
	}
	m.link.state = over
	m.emit(Finish{End: end})
}
