//! The coordinator's lifecycle: it starts, serves, is suspended while the store does not answer, drains, stops.

use rosterd_domain::mutants;
use rosterd_domain::txn::Commit;
use rosterd_registry::SessionState;

use super::{Cluster, Stage};
use crate::io::Io;
use crate::io::event::Effect;
use crate::io::operation::Health;

impl Cluster {
    pub(crate) fn start(&mut self, io: &mut Io) {
        self.clock.up_since = io.now.wall;
        self.proof.proved_at = io.now.mono;
        self.prove_if_idle(io);
    }

    pub(crate) fn health(&self) -> Health {
        self.life.health
    }

    pub(crate) fn set_health(&mut self, io: &mut Io, health: Health) {
        let again = (self.life.health, health) == (Health::Suspended, Health::Serving);
        if again && mutants::is_on(mutants::OUTAGE_NEVER_ENDS) {
            return;
        }
        if self.life.health != health {
            if health == Health::Suspended {
                self.prove_in(io, io.settings.store_retry);
            }
            self.life.health = health;
            io.out.push(Effect::Health(self.health_shown(io)));
        }
    }

    /// A transaction has ended. True: the store writes again after an outage, and nothing else queues the jobs that
    /// have waited for that. While some transactions still fail, the outage lasts: a store that is overloaded writes
    /// one and refuses the next.
    pub(crate) fn store_answered(&mut self, io: &mut Io, commit: &Commit) -> bool {
        match commit {
            Commit::Unavailable(why) => {
                if self.life.health != Health::Suspended {
                    tracing::error!("the store cannot write: {why}");
                }
                self.life.store_failed_at = io.now.mono;
                self.set_health(io, Health::Suspended);
                false
            }
            Commit::Committed(_) if self.life.health == Health::Suspended && !self.is_stopping() => {
                let is_over = io.now.mono.since(self.life.store_failed_at) >= io.settings.store_retry;
                if is_over {
                    self.set_health(io, Health::Serving);
                }
                is_over
            }
            _ => false,
        }
    }

    /// The write of this coordinator's own node ended. True: the node exists, so no other coordinator considers the
    /// host dead.
    pub(crate) fn registration_written(&mut self, io: &mut Io, committed: bool) -> bool {
        self.life.registered |= committed;
        if self.life.registered {
            self.compare_clock(io);
        } else {
            self.prove_in(io, io.settings.store_retry);
        }
        self.life.registered
    }

    /// Whether workers can attach: this coordinator's node exists, and the time is known.
    pub(crate) fn is_open(&self, io: &Io) -> bool {
        self.life.registered && !self.clock_is_unknown(io)
    }

    /// The store's client reports the session's state. True: it is connected, and changes in the meantime gave no
    /// hints.
    pub(crate) fn session_changed(&mut self, io: &mut Io, state: SessionState) -> bool {
        let health = match state {
            SessionState::Connected => Health::Serving,
            SessionState::Suspended if !mutants::is_on(mutants::SUSPENDED_IS_GONE) => Health::Suspended,
            SessionState::Suspended | SessionState::Gone => {
                tracing::error!("the store's session is over: this coordinator gives up everything");
                self.stop_at_once(io);
                return false;
            }
        };
        self.set_health(io, health);
        state == SessionState::Connected
    }

    /// Returns the health to show.
    pub(crate) fn health_shown(&self, io: &Io) -> Health {
        let good = self.calendar_is_good(io.settings.max_clock_difference);
        if self.life.health == Health::Serving && !good { Health::ClockOff } else { self.life.health }
    }

    /// Attachments were read, so that leases may expire; false: they were before.
    pub(crate) fn attachments_read(&mut self) -> bool {
        !std::mem::replace(&mut self.life.synced, true)
    }

    /// Whether the coordinator is stopping, or has stopped.
    pub(crate) fn is_stopping(&self) -> bool {
        self.life.stage >= Stage::Stopping
    }

    /// Whether the session has ended: heartbeats are no longer acknowledged, since other coordinators count leases from
    /// its end.
    pub(crate) fn session_ended(&self) -> bool {
        self.life.stage == Stage::Stopped && !mutants::is_on(mutants::OVER_AND_LISTENS)
    }

    /// Starts to stop; false: it is stopping already.
    pub(crate) fn stop(&mut self, io: &mut Io) -> bool {
        let first = !self.is_stopping();
        if first {
            self.life.stage = Stage::Stopping;
            self.set_health(io, Health::Draining);
        }
        first
    }

    pub(crate) fn stop_at_once(&mut self, io: &mut Io) {
        self.life.stage = Stage::Stopped;
        self.set_health(io, Health::Suspended);
        io.out.push(Effect::Stopped);
    }

    /// Stops once nothing is in flight and no job waits for this coordinator.
    pub(crate) fn stop_if_done(&mut self, io: &mut Io, jobs_wait: impl FnOnce() -> bool) {
        if self.life.stage == Stage::Stopping && io.txns.is_empty() && !jobs_wait() {
            self.life.stage = Stage::Stopped;
            io.out.push(Effect::Stopped);
        }
    }
}
