package machine

import (
	"fmt"
	"log/slog"
	"time"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

func (m *Machine) askedToLeave(now Now, asked Leave) {
	if asked.Signalled {
		m.emit(waitsFor(m.runs.working(), m.settings.DrainTimeout))
	}
	grace := m.settings.DrainTimeout
	if asked.Grace >= 0 {
		grace = asked.Grace
	}
	m.leave(now, grace, "the worker was asked to stop", End{})
}

func (m *Machine) drain(now Now, drain *pb.Drain) {
	grace := m.settings.DrainTimeout
	if drain.GetGrace() != nil {
		grace = max(0, drain.GetGrace().AsDuration())
	}
	m.leave(now, grace, "the coordinator asks to leave: "+drain.GetMessage(), End{})
}

func (m *Machine) shutdown(now Now, shutdown *pb.Shutdown) {
	if shutdown.GetJob() != "" {
		m.jobs.shutDown(shutdown.GetJob(), shutdown.GetMessage())
		m.leaveWithoutJobs(now)
		return
	}
	m.leave(now, m.settings.DrainTimeout, "an operator shut this worker down: "+shutdown.GetMessage(), End{})
}

func (m *Machine) leaveWithoutJobs(now Now) {
	if m.jobs.noneLeft() {
		m.leave(now, m.settings.DrainTimeout, "no job is left", m.jobs.end())
	}
}

func (m *Machine) leave(now Now, grace time.Duration, why string, end End) {
	drainBy := after(now.Boot, grace)
	if m.leaving != nil {
		// The earliest of several deadlines applies.
		m.leaving.drainBy = min(m.leaving.drainBy, drainBy)
		return
	}
	m.note(slog.LevelInfo, fmt.Sprintf("leaving: %s", why))
	m.leaving = &leaving{drainBy: drainBy, end: end}
	m.jobs.offerNoMore()
	m.emit(Departing{})
}

func (m *Machine) nothingInFlight() bool {
	return m.runs.empty() && !m.callbacks.any()
}

// farewellBy is when to try another coordinator.
func (m *Machine) farewellBy() time.Duration {
	if m.link.state != live {
		return never
	}
	return m.leaving.farewellBy()
}

func (m *Machine) settleLeaving(now Now) {
	m.leaving.rest(now.Boot, m.nothingInFlight())
	if m.identity.workerID == "" && (m.link.state == down || m.link.state == opening) {
		// Never attached: there is no coordinator to say goodbye to.
		m.finish(m.leaving.end)
		return
	}
	if m.link.state != live {
		return
	}
	if m.leaving.ask(now.Boot) {
		m.send(&pb.SessionRequest{Frame: &pb.SessionRequest_DrainRequest{DrainRequest: &pb.DrainRequest{}}})
	}
	if m.leaving.resting && m.leaving.sayGoodbye(now.Boot) {
		m.send(&pb.SessionRequest{Frame: &pb.SessionRequest_Goodbye{Goodbye: &pb.Goodbye{}}})
	}
}
