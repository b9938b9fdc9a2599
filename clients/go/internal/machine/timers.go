package machine

import (
	"log/slog"
	"time"
)

// Deadline is when to call with a Tick, on the boot clock.
func (m *Machine) Deadline() time.Duration {
	if m.link.state == over {
		return never
	}
	isLive := m.link.state == live
	next := min(m.link.by, m.runs.deadline(isLive), m.callbacks.deadline())
	if m.runs.hasUnstopped() {
		next = min(next, m.lease.stopsAt())
	}
	if isLive {
		next = min(next, m.deadAt(), m.link.lastHeartbeat+m.lease.interval(), m.jobs.nextOffer())
	}
	if m.leaving == nil {
		return next
	}
	if m.runs.hasUnstopped() || m.callbacks.any() {
		next = min(next, m.leaving.drainBy)
	}
	return min(next, m.leaving.limit(m.settings.LeaveTimeout), m.farewellBy())
}

// expire handles what is due. The lease first: nothing below may rely on an expired right.
func (m *Machine) expire(now Now) {
	valid := m.lease.valid(now.Boot)
	if !valid {
		m.runs.stopAll(now, StopLease)
	}
	m.runs.expire(now, valid)
	m.callbacks.expire(now.Boot)
	if m.leaving != nil {
		m.expireLeaving(now)
	}
	switch {
	case m.link.state == down && now.Boot >= m.link.by:
		m.open(now)
	case (m.link.state == opening || m.link.state == greeting) && now.Boot >= m.link.by:
		m.lost(now, "", "no answer in time")
	case m.link.state == live && now.Boot >= m.deadAt():
		m.lost(now, "", "silent for too long")
	case m.link.state == live:
		if now.Boot >= m.link.lastHeartbeat+m.lease.interval() {
			m.heartbeat(now)
		}
		m.jobs.offerAgain(now.Boot)
	}
}

func (m *Machine) expireLeaving(now Now) {
	if now.Boot >= m.leaving.drainBy {
		m.runs.stopAll(now, StopLeaving)
		m.callbacks.abandon()
	}
	switch {
	case now.Boot >= m.leaving.limit(m.settings.LeaveTimeout):
		m.note(slog.LevelError, "left without a goodbye: no coordinator has answered in time")
		m.finish(End{How: Unacknowledged})
	case now.Boot >= m.farewellBy():
		m.lost(now, "", "no answer to the goodbye")
	}
}
