//! Proves by writes that this coordinator's session is alive.

use std::time::Duration;

use rosterd_domain::time::Mono;
use rosterd_domain::txn::{Purpose, Txn, Write};

use super::Cluster;
use crate::io::Io;
use crate::io::operation::Health;
use crate::io::pending::TxnFor;
use crate::io::settings::Settings;
use crate::io::timers::Timer;

/// How often a coordinator updates its own node, at least.
const TELLS_EVERY: Duration = Duration::from_secs(10);

impl Cluster {
    /// Writes this coordinator's own node if no other write has proved its session lately.
    pub(crate) fn prove_if_idle(&mut self, io: &mut Io) {
        let every = io.settings.session.map_or(TELLS_EVERY, Settings::proof_every);
        let now = io.now.mono;
        let due = now.since(self.proof.proved_at) >= every || now.since(self.proof.written_at) >= TELLS_EVERY;
        if (due || self.life.health != Health::Serving || !self.is_open(io)) && !self.is_proving(io) {
            self.prove(io);
        }
        let well = self.life.health == Health::Serving && self.is_open(io);
        // A proof since the last check is valid only for its time.
        let left = every.saturating_sub(now.since(self.proof.proved_at));
        let next = if left.is_zero() { every } else { left };
        self.prove_in(io, if well { next } else { io.settings.store_retry });
    }

    /// Schedules the next check of the proof, and cancels the one before.
    pub(crate) fn prove_in(&mut self, io: &mut Io, after: Duration) {
        io.timers.retain(|(_, timer)| *timer != Timer::Proof);
        io.set_timer(after, Timer::Proof);
    }

    /// Whether a write of this coordinator's own node is in flight.
    pub(crate) fn is_proving(&self, io: &Io) -> bool {
        io.txns.values().any(|(whom, _)| matches!(whom, TxnFor::Own))
    }

    /// Whether the session is certainly alive: one of our writes proved it recently enough. Answers to pings and reads
    /// prove nothing, since a follower that is cut off gives them too.
    pub(crate) fn proven(&self, io: &Io) -> bool {
        let Some(session) = io.settings.session else { return true };
        io.now.mono < self.proof.proved_at.plus(io.settings.believed(session))
    }

    /// A transaction that was submitted at `sent` was committed. True: the session was in doubt, and is proved now.
    pub(crate) fn proved(&mut self, io: &Io, sent: Mono) -> bool {
        let waited = !self.proven(io);
        self.proof.proved_at = self.proof.proved_at.max(sent);
        waited && self.proven(io)
    }

    /// Returns when the session was last proved, in milliseconds; for views.
    pub(crate) fn proved_at(&self) -> u64 {
        u64::try_from(self.proof.proved_at.0.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn prove(&mut self, io: &mut Io) {
        self.proof.written_at = io.now.mono;
        self.clock_is_written();
        let data = self.myself(io);
        let mut txn = Txn::new(Purpose::Coordinator);
        txn.write(Write::Coordinator { id: io.settings.id.clone(), data });
        io.commit(TxnFor::Own, txn);
    }

    /// Whether nothing may start: the store does not answer, or this coordinator is draining.
    pub(crate) fn no_starts(&self, io: &Io) -> bool {
        self.is_stopping()
            || !self.life.synced
            || self.clock_is_unknown(io)
            || self.life.health == Health::Suspended
            || !self.proven(io)
    }
}
