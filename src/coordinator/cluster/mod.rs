//! This coordinator within the cluster: which others exist, whether its own session is alive, what time it is, and
//! whether it may act at all. It knows no worker and no job.

pub(crate) mod calendar_watch;
pub(crate) mod lifecycle;
pub mod members;
pub(crate) mod membership;
pub(crate) mod session_proof;
pub(crate) mod wall_clock;

use std::time::Duration;

use rosterd_domain::time::{Mono, Time};

use crate::io::event::Numbered;
use crate::io::operation::Health;
use calendar_watch::CalendarWatch;
use members::Members;

/// This coordinator within the cluster.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    life: Lifecycle,
    members: Members,
    proof: SessionProof,
    clock: WallClock,
    /// How tokens are numbered; set before anything is read.
    numbering: Numbered,
    /// The load of this coordinator, as of the last count.
    counts: Counts,
    /// The longest delay from a scheduled time to its Trigger since this coordinator's own node was written.
    longest_lag: Duration,
}

/// The state of the coordinator's lifecycle.
#[derive(Debug)]
struct Lifecycle {
    health: Health,
    stage: Stage,
    /// This coordinator's own node exists: without it others consider this coordinator dead.
    registered: bool,
    /// Attachments were read: no lease expires before that.
    synced: bool,
    /// When the store last failed to write.
    store_failed_at: Mono,
}

/// How far the coordinator's shutdown has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    /// It hands its jobs and workers over to other coordinators.
    Stopping,
    /// Nothing is left to do, or its session has ended.
    Stopped,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            health: Health::Starting,
            stage: Stage::Running,
            registered: false,
            synced: false,
            store_failed_at: Mono::default(),
        }
    }
}

/// The writes that proved the session.
#[derive(Debug, Default)]
struct SessionProof {
    /// When the last committed transaction was submitted: the session was alive at that time.
    proved_at: Mono,
    /// When this coordinator's own node was last written.
    written_at: Mono,
}

/// The wall clock, as far as it is trusted.
#[derive(Debug, Default)]
struct WallClock {
    watch: CalendarWatch,
    /// How far the wall clock is ahead of the trusted time, in milliseconds.
    ahead: i64,
    up_since: Time,
}

/// The load of this coordinator, as the others see it.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    leads: u64,
    workers: u64,
}

impl Cluster {
    /// Returns the live coordinators.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// Returns how tokens are numbered.
    pub(crate) fn numbering(&self) -> Numbered {
        self.numbering
    }

    /// Sets how tokens are numbered, before anything is read.
    pub(crate) fn set_numbering(&mut self, numbering: Numbered) {
        self.numbering = numbering;
    }

    /// Sets the load of this coordinator: how many jobs it leads, and how many workers it hosts.
    pub(crate) fn count(&mut self, leads: u64, workers: u64) {
        self.counts = Counts { leads, workers };
    }
}
