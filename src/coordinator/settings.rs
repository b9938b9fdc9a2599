//! Every timeout and limit of the coordinator, by name.

use std::time::Duration;

use rosterd_domain::id::{CoordinatorId, Namespace};
use rosterd_domain::mutants;

/// How a coordinator behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The one namespace that is served.
    pub namespace: Namespace,
    /// Who this is.
    pub id: CoordinatorId,
    /// Where others and workers reach it (URL), written to its own node.
    pub advertise: String,
    /// How long a worker is believed after it was last heard (L).
    pub lease: Duration,
    /// How often a worker is to be heard.
    pub heartbeat: Duration,
    /// How long before the lease's end a worker stops its runs (K).
    pub stop_budget: Duration,
    /// How long after its timeout a run is taken away from a worker that does not end it.
    pub timeout_grace: Duration,
    /// How much two clocks may differ in rate (ρ), in parts of a thousand.
    pub drift_permille: u32,
    /// After how long of silence the registry ends this coordinator's session (S); `None`: never.
    pub session: Option<Duration>,
    /// How much of the session, in parts of a thousand, is not believed in after a write has proved it. See
    /// [`Settings::believed`].
    pub session_margin_permille: u32,
    /// Reports of one worker that may be unacknowledged.
    pub max_reports: usize,
    /// Jobs of one worker.
    pub max_jobs_per_worker: usize,
    /// Runs that one worker may have in flight.
    pub max_slots: u32,
    /// Frames that may wait to be sent on one stream; one more ends it.
    pub max_outbox_frames: usize,
    /// How long before a scheduled time its runs are decided and written, at the least and at the most: longer where
    /// the store has lately been too slow for it.
    pub ahead: (Duration, Duration),
    /// Records that one transaction writes.
    pub max_records_per_txn: usize,
    /// How long to wait before trying again what the store could not write.
    pub store_retry: Duration,
    /// How often a job that another coordinator should lead, but does not, is looked at.
    pub election_patience: Duration,
    /// How far the calendar may be off before nothing is fired by it.
    pub max_clock_difference: Duration,
    /// How long a calendar that has jumped must go on steadily to be believed again.
    pub clock_settles: Duration,
    /// How far a record's last fire may lie in the future before it is set back. Below that an item is silent
    /// until then, so that a clock that was set back repeats no fire.
    pub longest_silence: Duration,
    /// How old the oldest of a server's marks may be before the server is forgotten, once nobody uses it.
    pub server_retention: Duration,
    /// What reconcileIntervalMinutes counts: a minute, but for tests that cannot wait for one.
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

    /// How often at least a session is proved by a write.
    pub fn proof_every(session: Duration) -> Duration {
        session / 6
    }

    /// How long after a committed write was sent the session surely lives.
    ///
    /// A write proves that it lived then, not that its end was put off. A server of ZooKeeper that follows passes writes on
    /// at once, but tells whom it has heard only when the leader asks, each half tick (`LearnerHandler` touches sessions
    /// for PING, not for REQUEST); then the leader counts anew, and rounds up. Cut off right after the write it tells no
    /// more. So the end is counted from the last time that the leader asked before the write and was told something:
    /// half a tick before it, or as long as there was nothing to tell, which is as often as a proof is due. A session is
    /// two ticks at least, so that a quarter of it is the longest. The rest of the margin is for the way there.
    pub fn believed(&self, session: Duration) -> Duration {
        let not = session * (self.drift_permille + self.session_margin_permille) / 1000;
        session.saturating_sub(not)
    }

    /// How long after it was last heard a worker is surely stopped, by the host's clock: L(1 + ρ).
    pub fn verdict_after(&self, lease: Duration) -> Duration {
        if mutants::is_on(mutants::VERDICT_BEFORE_LEASE_END) {
            return lease / 2;
        }
        lease + lease * self.drift_permille / 1000
    }
}
