//! Every timeout and limit of the coordinator, by name.

use std::time::Duration;

use rosterd_domain::id::{CoordinatorId, Namespace};
use rosterd_domain::mutants;

/// The settings of a coordinator.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The coordinator's namespace.
    pub namespace: Namespace,
    /// The identity of this coordinator.
    pub id: CoordinatorId,
    /// Where others and workers reach it (URL), written to its own node.
    pub advertise: String,
    /// How long after its last heartbeat a worker's lease lasts (L).
    pub lease: Duration,
    /// How often workers send a heartbeat.
    pub heartbeat: Duration,
    /// How long before the lease's end a worker stops its runs (K).
    pub stop_budget: Duration,
    /// How long after its timeout a run is taken away from a worker that does not end it.
    pub timeout_grace: Duration,
    /// How much two clocks may differ in rate (ρ), in parts of a thousand.
    pub drift_permille: u32,
    /// After how much silence the store ends this coordinator's session (S); `None`: never.
    pub session: Option<Duration>,
    /// The part of the session, in thousandths, for which a proof by a write is not valid. See [`Settings::believed`].
    pub session_margin_permille: u32,
    /// Reports of one worker that may be unacknowledged.
    pub max_reports: usize,
    /// Jobs of one worker.
    pub max_jobs_per_worker: usize,
    /// Runs that one worker may have in flight.
    pub max_slots: u32,
    /// Frames that may wait to be sent on one stream; one more ends it.
    pub max_outbox_frames: usize,
    /// How long before a scheduled time its runs are decided and written, at least and at most: longer if the store has
    /// lately been too slow.
    pub ahead: (Duration, Duration),
    /// How many records one transaction may write.
    pub max_records_per_txn: usize,
    /// How long to wait before retrying what the store could not write.
    pub store_retry: Duration,
    /// How long a coordinator waits, for each better-ranked one, before it campaigns itself.
    pub election_patience: Duration,
    /// How far the wall clock may be off before nothing fires.
    pub max_clock_difference: Duration,
    /// How long a wall clock that has jumped must advance steadily to be trusted again.
    pub clock_settles: Duration,
    /// How far a record's last fire may lie in the future before it is set back. Up to that the item is silent until
    /// then, so that no fire is repeated after a clock was set back.
    pub longest_silence: Duration,
    /// How old the oldest of a server's marks may be before the server is removed, once it is unused.
    pub server_retention: Duration,
    /// The unit of reconcileIntervalMinutes: a minute, except in tests that cannot wait that long.
    pub minute: Duration,
}

impl Settings {
    /// The defaults for `id` in `namespace`.
    pub fn new(namespace: Namespace, id: CoordinatorId) -> Self {
        Self {
            namespace,
            id,
            advertise: String::new(),
            lease: Duration::from_secs(5),
            heartbeat: Duration::from_secs(1),
            stop_budget: Duration::from_millis(500),
            timeout_grace: Duration::from_secs(10),
            drift_permille: 5,
            session: None,
            session_margin_permille: 300,
            max_reports: 8192,
            max_jobs_per_worker: 10_000,
            max_slots: 4096,
            max_outbox_frames: 16_384,
            ahead: (Duration::from_millis(30), Duration::from_millis(500)),
            max_records_per_txn: 500,
            store_retry: Duration::from_secs(1),
            election_patience: Duration::from_secs(1),
            max_clock_difference: Duration::from_secs(2),
            clock_settles: Duration::from_secs(60),
            longest_silence: Duration::from_secs(3 * 3600),
            server_retention: Duration::from_secs(24 * 3600),
            minute: Duration::from_secs(60),
        }
    }

    /// How often a session is proved by a write, at least.
    pub fn proof_every(session: Duration) -> Duration {
        session / 6
    }

    /// How long after a committed write was sent the session is certainly alive.
    ///
    /// A write proves that the session was alive then, not that its timeout was extended. A follower of ZooKeeper
    /// forwards writes at once, but reports the sessions that it has heard from only when the leader asks, each half
    /// tick (`LearnerHandler` touches sessions for PING, not for REQUEST); then the leader restarts the timeout, and
    /// rounds up. If the follower is cut off right after the write, it reports nothing more. So the timeout counts from
    /// the last time before the write at which the leader asked and got a report: half a tick earlier, or longer if
    /// there was nothing to report, up to the interval between proofs. A session is at least two ticks, so that is at
    /// most a quarter of it. The rest of the margin is for the network.
    pub fn believed(&self, session: Duration) -> Duration {
        let not = session * (self.drift_permille + self.session_margin_permille) / 1000;
        session.saturating_sub(not)
    }

    /// How long after its last heartbeat a worker has certainly stopped, by the host's clock: L(1 + ρ).
    pub fn verdict_after(&self, lease: Duration) -> Duration {
        if mutants::is_on(mutants::EXPIRY_BEFORE_LEASE_END) {
            return lease / 2;
        }
        lease + lease * self.drift_permille / 1000
    }

    /// How often a worker with this lease sends a heartbeat.
    pub(crate) fn heartbeat_for(&self, lease: Duration) -> Duration {
        self.heartbeat.min(lease / 3)
    }
}
