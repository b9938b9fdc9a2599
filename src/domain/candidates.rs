//! Which instances may get items, as the leader knows beyond the job's nodes: input of an assignment and of its
//! reasons.

use std::collections::BTreeSet;

use crate::id::InstanceId;
use crate::time::Time;

/// Instances that an item may be assigned to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Missing in `instances`, but their worker's attachment exists: they may return before they are marked dead.
    pub absent: BTreeSet<InstanceId>,
    /// Present, but draining: they get no items.
    pub leaving: BTreeSet<InstanceId>,
    /// The current time: items that return with a raised count owe nothing for the time before.
    pub now: Time,
}
