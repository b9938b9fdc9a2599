//! Who owns which item, from when to when, and why: the words for each change of owner.
//!
//! The leader records them with its plan ([`Assigned::causes`](crate::plan::Assigned)), every other coordinator as far
//! as the job's nodes show them. The history keeps them, and `explain` repeats them. Nothing is decided from them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::candidates::Candidates;
use crate::id::{Generation, InstanceId, Item, JobName};
use crate::sharding::Sharding;
use crate::view::Job;

/// Whether an instance may own items of a job, or why not. In a text it follows the instance's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It may own items.
    Enabled,
    /// It is not among the instances, but its worker's attachment exists: it may return.
    Away,
    /// Its worker is draining.
    Leaving,
    /// Its machine is disabled for the job.
    MachineDisabled,
    /// It is disabled for the job.
    Disabled,
    /// An instance of Elastic-Job, which takes no items from us.
    Foreign,
    /// It no longer exists.
    Gone,
}

impl Standing {
    /// Whether it may own items.
    pub fn may_own(self) -> bool {
        matches!(self, Self::Enabled | Self::Away)
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enabled => "may own items",
            Self::Away => "is away and may come back",
            Self::Leaving => "is leaving",
            Self::MachineDisabled => "is on a disabled machine",
            Self::Disabled => "is disabled",
            Self::Foreign => "is not an instance of rosterd",
            Self::Gone => "has gone",
        })
    }
}

/// The standing of an instance in the job; `candidates`: what is known beyond the job's nodes.
pub fn standing(job: &Job, instance: &InstanceId, candidates: &Candidates) -> Standing {
    if candidates.leaving.contains(instance) {
        return Standing::Leaving;
    }
    let seen = match job.instances.get(instance) {
        None if !candidates.absent.contains(instance) => return Standing::Gone,
        seen => seen,
    };
    if job.servers.get(instance.address()).is_some_and(|enabled| !enabled) {
        return Standing::MachineDisabled;
    }
    match seen {
        _ if !job.is_enabled(instance) => Standing::Disabled,
        None => Standing::Away,
        Some(seen) if seen.node.is_none() => Standing::Foreign,
        Some(_) => Standing::Enabled,
    }
}

/// Why an item has a new owner: why the previous one lost it, and why the next one got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// No item of the job ever had an owner.
    First,
    /// The item had no owner.
    Unowned,
    /// The owner may no longer own items.
    Owner(InstanceId, Standing),
    /// The number of items has changed.
    Items { before: u32, now: u32 },
    /// The strategy distributes the items differently; only the leader knows why it was asked.
    Shared { strategy: &'static str, why: Option<Why> },
    /// The job was removed.
    Removed,
    /// It changed while this coordinator was not watching.
    Found,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("first assignment"),
            Self::Unowned => f.write_str("it had no owner"),
            Self::Owner(instance, standing) => write!(f, "{instance} {standing}"),
            Self::Items { before, now } => {
                let why = Why::Items { before: *before, now: *now };
                write!(f, "{why}")
            }
            Self::Shared { strategy, why: Some(why) } => write!(f, "shared anew by {strategy}: {why}"),
            Self::Shared { strategy, why: None } => write!(f, "shared anew by {strategy}"),
            Self::Removed => f.write_str("the job was removed"),
            Self::Found => f.write_str("found so when the coordinator looked again"),
        }
    }
}

/// Why each item whose owner differs between `before` and `after` has changed owners. `job`: its current state.
pub fn causes(
    job: &Job,
    before: &Sharding,
    after: &Sharding,
    candidates: &Candidates,
    why: Option<&Why>,
) -> BTreeMap<Item, Cause> {
    let first = before.owned().next().is_none();
    let (had, has) = (before.items(), after.items());
    let cause = |item: Item| match before.owner(item) {
        None if first => Cause::First,
        None if item.0 >= had => Cause::Items { before: had, now: has },
        None => Cause::Unowned,
        Some(_) if item.0 >= has => Cause::Items { before: had, now: has },
        Some(owner) => match standing(job, owner, candidates) {
            standing if !standing.may_own() => Cause::Owner(owner.clone(), standing),
            _ => Cause::Shared { strategy: job.rules.strategy.name(), why: why.cloned() },
        },
    };
    let items = (0..had.max(has)).map(Item);
    let moved = items.filter(|item| before.owner(*item) != after.owner(*item));
    moved.map(|item| (item, cause(item))).collect()
}

/// All owners of a job's items from a moment on, for the history. It is complete: its receiver needs no earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The job.
    pub job: JobName,
    /// Identifies the job among those of that name.
    pub incarnation: Arc<str>,
    /// Grows with every change of it.
    pub generation: Generation,
    /// Every owner with its items.
    pub owners: Vec<(InstanceId, Vec<Item>)>,
    /// Why items have changed owners, as far as this coordinator saw it.
    pub causes: BTreeMap<Item, Cause>,
    /// The cause of all other changes.
    pub otherwise: Cause,
    /// It comes from the leader, whose plan it was.
    pub led: bool,
}

impl Owned {
    /// The current owners of a job. `before`: the job as last seen; `planned`: the leader's reasons.
    pub fn of(job: &Job, before: Option<&Job>, planned: Option<(&Why, &BTreeMap<Item, Cause>)>) -> Self {
        let (nothing, why) = (Candidates::default(), planned.map(|(why, _)| why));
        let mut causes = before
            .map(|before| causes(job, &before.sharding, &job.sharding, &nothing, why))
            .unwrap_or_default();
        for (item, cause) in planned.into_iter().flat_map(|(_, causes)| causes) {
            causes.entry(*item).and_modify(|known| known.clone_from(cause));
        }
        let mut owners: BTreeMap<&InstanceId, Vec<Item>> = BTreeMap::new();
        for (item, owner) in job.sharding.owned() {
            owners.entry(owner).or_default().push(item);
        }
        Self {
            job: job.name.clone(),
            incarnation: job.incarnation.clone(),
            generation: job.generation,
            owners: owners.into_iter().map(|(owner, items)| (owner.clone(), items)).collect(),
            causes,
            otherwise: Cause::Found,
            led: planned.is_some(),
        }
    }

    /// A removed job: its items have no owners.
    pub fn removed(job: &Job) -> Self {
        Self {
            job: job.name.clone(),
            incarnation: job.incarnation.clone(),
            generation: Generation(job.generation.0.saturating_add(1)),
            owners: Vec::new(),
            causes: BTreeMap::new(),
            otherwise: Cause::Removed,
            led: false,
        }
    }

    /// Every owned item with its owner.
    pub fn by_item(&self) -> BTreeMap<Item, &InstanceId> {
        let pairs =
            self.owners.iter().flat_map(|(owner, items)| items.iter().map(move |item| (*item, owner)));
        pairs.collect()
    }

    /// Why an item has changed owners.
    pub fn cause(&self, item: Item) -> &Cause {
        self.causes.get(&item).unwrap_or(&self.otherwise)
    }
}

/// Why a new assignment is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The number of items differs from that of the assignment.
    Items { before: u32, now: u32 },
    /// An instance with items is gone, or may no longer own any.
    Gone(InstanceId, Standing),
    /// There is a new instance, without items.
    Come(InstanceId),
    /// A new assignment was requested.
    Requested,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items { before, now } => write!(f, "{now} items instead of {before}"),
            Self::Gone(instance, standing) => write!(f, "{instance} {standing}"),
            Self::Come(instance) => write!(f, "{instance} has come"),
            Self::Requested => f.write_str("resharding requested"),
        }
    }
}
