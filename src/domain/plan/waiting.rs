//! Items that wait for a slot of a worker, and the order in which slots are offered.

use crate::id::{Item, JobName, TriggerId};
use crate::time::Time;

/// The order in which a freed slot is offered. There are only as many crashed runs as there were crashes; misfires
/// recur while there is more work than slots, and may delay everything behind them without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A crashed run.
    Failover,
    /// The misfire that waited.
    Misfire,
    /// A scheduled time or a trigger.
    Fire,
}

/// An item that waits for a slot of its worker. Ordered: the smallest gets the slot first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// Its class.
    pub class: Class,
    /// Its scheduled time.
    pub fire: Time,
    /// Its job.
    pub job: JobName,
    /// The item.
    pub item: Item,
}

#[derive(Debug, Clone)]
pub(super) enum StartKind {
    Due,
    Misfire,
    Manual(TriggerId),
    Failover,
}

/// What could be started, and how.
pub(super) type Wanted = (Waiting, StartKind);
