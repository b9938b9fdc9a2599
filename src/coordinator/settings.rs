//! Every timeout and limit of the coordinator, by name.

use std::time::Duration;

use rosterd_domain::id::{CoordinatorId, Namespace};

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
    /// How much earlier than its session's end a coordinator stops acknowledging heartbeats: the store's own
    /// reckoning is no finer than this. At most a fifth of the session.
    pub session_margin: Duration,
    /// How long before the lease's end a worker stops its runs (K).
    pub stop_budget: Duration,
    /// How much two clocks may differ in rate (ρ), in parts of a thousand.
    pub drift_permille: u32,
    /// Reports of one worker that may be unacknowledged.
    pub max_reports: usize,
    /// Jobs of one worker.
    pub max_jobs_per_worker: usize,
    /// Runs that one worker may have in hand.
    pub max_slots: u32,
    /// Records that one transaction writes.
    pub max_records_per_txn: usize,
    /// How long to wait before trying again what the store could not write.
    pub store_retry: Duration,
    /// How often a job that another coordinator should lead, but does not, is looked at.
    pub election_patience: Duration,
    /// How far a record's last fire may lie in the future before it is set back.
    pub max_clock_difference: Duration,
    /// How old the oldest of a server's marks may be before the server is forgotten, once nobody uses it.
    pub server_retention: Duration,
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
            session_margin: Duration::from_secs(2),
            stop_budget: Duration::from_millis(500),
            drift_permille: 5,
            max_reports: 8192,
            max_jobs_per_worker: 10_000,
            max_slots: 4096,
            max_records_per_txn: 1000,
            store_retry: Duration::from_secs(1),
            election_patience: Duration::from_secs(1),
            max_clock_difference: Duration::from_secs(2),
            server_retention: Duration::from_secs(24 * 3600),
        }
    }

    /// How long after it was last heard a worker is surely stopped, by the host's clock: L(1 + ρ).
    pub fn verdict_after(&self, lease: Duration) -> Duration {
        lease + lease * self.drift_permille / 1000
    }
}
