//! Who owns which item, from when to when, and why: the words for each change of owner.
//!
//! The leader's plan says them where it decides ([`Assigned::causes`](crate::plan::Assigned)), every other coordinator as far as
//! the job's nodes tell. The history keeps them, and `explain` repeats them. Nothing is decided from them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::id::{Generation, InstanceId, Item, JobName};
use crate::plan::{Candidates, Why};
use crate::sharding::Sharding;
use crate::view::Job;

/// How an instance stands with a job, as far as owning items goes. In words it follows the instance's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It may own items.
    Enabled,
    /// It is not among the instances, but its worker lives: it may come back.
    Away,
    /// Its worker leaves.
    Leaving,
    /// All instances on its machine are out of service for the job.
    MachineDisabled,
    /// It is out of service for the job.
    Disabled,
    /// Elastic-Job's own, which takes no items from here.
    Foreign,
    /// It is not there any more.
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

/// How an instance stands with the job; `candidates`: what is known of it beside the job's nodes.
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

/// Why an item has another owner than before: why the one before lost it, and why the next one got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Nobody had owned an item of the job.
    First,
    /// Nobody owned it.
    Unowned,
    /// Who owned it may own nothing any more.
    Owner(InstanceId, Standing),
    /// The job has another number of items.
    Items { before: u32, now: u32 },
    /// The strategy shares the items another way; why it was asked is known to the leader alone.
    Shared { strategy: &'static str, why: Option<Why> },
    /// The job was removed.
    Removed,
    /// It changed while the coordinator that tells it did not look.
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

/// Why each item that `after` gives to another owner than `before` changes hands. `job`: as it is now.
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

/// All owners of a job's items from a moment on, for the history. It is whole: who is told of it needs to know of none before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The job.
    pub job: JobName,
    /// Which job of that name.
    pub incarnation: Arc<str>,
    /// Grows with every change of it.
    pub generation: Generation,
    /// Every owner with its items.
    pub owners: Vec<(InstanceId, Vec<Item>)>,
    /// Why items have changed hands, as far as who tells it saw that.
    pub causes: BTreeMap<Item, Cause>,
    /// Why any other has.
    pub otherwise: Cause,
    /// The leader tells it, whose plan it was.
    pub led: bool,
}

impl Owned {
    /// The owners of a job as it is. `before`: as it was seen last; `planned`: what the leader says why.
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

    /// A job that has gone: nobody owns any of its items.
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

    /// Why an item has changed hands.
    pub fn cause(&self, item: Item) -> &Cause {
        self.causes.get(&item).unwrap_or(&self.otherwise)
    }
}
