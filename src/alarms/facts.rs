//! What is known of a job, and of this coordinator, at one moment: all that a rule sees.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::item::Outcome;
use rosterd_domain::time::Time;

/// A job as it is, from one reading of the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    #[allow(missing_docs)]
    pub name: JobName,
    /// This coordinator speaks for it: it leads it, or nobody does and it is the first of those that live.
    pub speaks: bool,
    /// It is enabled, not paused, readable, and not about to be removed.
    pub in_service: bool,
    /// An enabled instance works for it.
    pub has_worker: bool,
    /// The zone of its schedule.
    pub zone: String,
    /// Its items, but for those beyond its count and those that are disabled.
    pub items: Vec<Item>,
    /// What became of all its items' fires, those of every item that ever was.
    pub crashed: u64,
    /// Scheduled times that were not run, but for those that somebody wanted not to be run: paused, disabled.
    pub missed: u64,
    /// What its Elastic-Job configuration says of errors: a type, and its properties.
    pub handler: Option<(String, BTreeMap<String, String>)>,
}

/// An item as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    #[allow(missing_docs)]
    pub item: u32,
    /// The first scheduled time that has passed and is neither run nor recorded.
    pub waits: Option<Time>,
    /// The scheduled time that is being run, or whose run crashed and waits to be run again.
    pub unfinished: Option<Time>,
    /// Runs that failed or timed out, ever.
    pub failed: u64,
    /// Runs that succeeded, ever.
    pub succeeded: u64,
    /// How the last run ended.
    pub last: Option<Outcome>,
}

/// This coordinator as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinator {
    /// The same after a restart and in every session of the store: its address.
    pub name: String,
    /// Its clock is off.
    pub clock_off: bool,
    /// The store does not answer.
    pub store_lost: bool,
    /// When the first of the certificates that it shows is over.
    pub certificate_ends: Option<Time>,
}

/// A run that began late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateStart {
    #[allow(missing_docs)]
    pub job: JobName,
    #[allow(missing_docs)]
    pub item: u32,
    /// How long after its scheduled time.
    pub by: Duration,
    /// When.
    pub at: Time,
}
