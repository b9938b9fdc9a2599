//! The data of `sharding`: the whole assignment, and every right that was withdrawn, in one value.
//!
//! Everything that takes a right away rewrites this value, so that its version (the generation) grows and every start
//! that was decided before is refused. Hosts decide from it alone. It is kept far below the size limit of a registry
//! node: long ones are compressed by the registry's codec, see [`Sharding::decode`].

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use crate::id::{InstanceId, Item};
use crate::item::Missed;
use crate::job::JobConfig;
use crate::strategy::Assignment;
use crate::time::Time;

/// Longest data that is kept as readable JSON.
const PLAIN: usize = 16 * 1024;
/// The prefix of compressed data.
const PACKED: &[u8] = b"z:";
/// Longest text that is decompressed: foreign data may claim any size.
const LONGEST: u64 = 16 * 1024 * 1024;
/// How many raises of the count are remembered; every item has accounted for older ones long ago.
const MOST_RAISES: usize = 32;

/// Which instance owns which item, and which items and instances are excluded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sharding {
    /// The instances of the plan; `owners` refers to them by index.
    instances: Vec<InstanceId>,
    /// For each item the index of its owner in `instances`; -1: no owner.
    owners: Vec<i32>,
    /// Items that get no runs.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub disabled_items: BTreeSet<Item>,
    /// Instances that get no items.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub disabled_instances: BTreeSet<InstanceId>,
    /// When the job was created: it has no scheduled times before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<Time>,
    /// The numbering offset at that time: what was added to a transaction's number to make it a token.
    #[serde(skip_serializing_if = "is_zero")]
    pub numbered: u64,
    /// Counts withdrawals that change nothing else here (pause, disabled job or server, new config).
    pub withdrawals: u64,
    /// Scheduled times of the job up to here were not to be run: it was paused or disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// The same for single items.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gaps: BTreeMap<Item, Gap>,
    /// Items from each of these on were not part of the job until then, because its count was lower. Both grow.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub surplus: BTreeMap<Item, Time>,
    /// Where the current schedule begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// Where the schedules before it began, oldest first: those that some item has not accounted for yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub floors: Vec<Floor>,
    /// What `config` said when it was last written together with this; if it differs now, another tool has written it.
    /// `None`: written by a coordinator that did not keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stated: Option<Stated>,
}

/// The parts of a configuration whose previous values also matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stated {
    /// Expression and zone; `None`: manual triggers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<(String, String)>,
    /// The number of items.
    pub items: u32,
    /// It gets no runs.
    pub disabled: bool,
    /// Runs are kept in the record.
    pub monitor: bool,
    /// Crashed runs are run again.
    pub failover: bool,
}

impl Stated {
    /// The parts of this configuration.
    pub fn by(config: &JobConfig) -> Self {
        Self {
            schedule: config.cron.clone().map(|cron| (cron, config.zone().to_owned())),
            items: config.sharding_total_count,
            disabled: config.disabled,
            monitor: config.monitor_execution,
            failover: config.failover,
        }
    }

    /// Whether they are those of the configuration.
    pub fn is_by(&self, config: &JobConfig) -> bool {
        let schedule = self.schedule.as_ref().map(|(cron, zone)| (cron.as_str(), zone.as_str()));
        let rest = (config.sharding_total_count, config.disabled, config.monitor_execution, config.failover);
        schedule == config.cron.as_deref().map(|cron| (cron, config.zone()))
            && rest == (self.items, self.disabled, self.monitor, self.failover)
    }
}

/// How many changes of schedule are remembered; beyond that the oldest are forgotten.
const FLOORS: usize = 64;

/// The end of a period in which nothing was to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Its last moment.
    pub until: Time,
    /// Why.
    pub reason: Missed,
}

/// The moment from which a schedule counts, and the schedule before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// Scheduled times up to here belong to `before`.
    pub at: Time,
    /// The schedule until then: expression and zone; `None`: no scheduled times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<(String, String)>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Data of `sharding` that we did not write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the assignment cannot be read: {0}")]
pub struct ShardingError(String);

impl Sharding {
    /// For a job that is created now: no item has an owner.
    pub fn made_at(now: Time) -> Self {
        Self { made: Some(now), ..Self::default() }
    }

    /// A copy with this numbering offset.
    #[must_use]
    pub fn numbered_by(self, numbered: u64) -> Self {
        Self { numbered, ..self }
    }

    /// Parses the data of `sharding`; empty data (as Elastic-Job leaves it) assigns nothing.
    pub fn decode(data: &[u8]) -> Result<Self, ShardingError> {
        if data.is_empty() {
            return Ok(Self::default());
        }
        let unpacked;
        let text = match data.strip_prefix(PACKED) {
            None => data,
            Some(packed) => {
                unpacked = unpack(packed).map_err(|e| ShardingError(e.to_string()))?;
                &unpacked
            }
        };
        // serde would also accept a list of the fields' values, which nobody has ever written.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err(ShardingError("it is not an object".into()));
        }
        let read: Self = serde_json::from_slice(text).map_err(|e| ShardingError(e.to_string()))?;
        let known = i32::try_from(read.instances.len()).unwrap_or(i32::MAX);
        if let Some(stray) = read.owners.iter().find(|owner| **owner >= known) {
            return Err(ShardingError(format!("an item belongs to instance {stray} of {known}")));
        }
        Ok(read)
    }

    /// The data to write.
    pub fn encode(&self) -> Vec<u8> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        if text.len() <= PLAIN { text } else { pack(&text) }
    }

    /// A copy with the same rights and this assignment of `items` items.
    #[must_use]
    pub fn with_assignment(&self, assignment: &Assignment, items: u32) -> Self {
        let instances: Vec<InstanceId> = assignment.iter().map(|(instance, _)| instance.clone()).collect();
        let mut owners = vec![-1; items as usize];
        for (place, (_, owned)) in (0_i32..).zip(assignment.iter()) {
            for item in owned {
                if let Some(owner) = owners.get_mut(item.0 as usize) {
                    *owner = place;
                }
            }
        }
        Self { instances, owners, ..self.clone() }
    }

    /// A copy that was written together with this configuration.
    #[must_use]
    pub fn stating(&self, stated: Stated) -> Self {
        Self { stated: Some(stated), ..self.clone() }
    }

    /// A copy with one more withdrawal, so that whatever was decided before is refused.
    #[must_use]
    pub fn withdrawn(&self) -> Self {
        Self { withdrawals: self.withdrawals + 1, ..self.clone() }
    }

    /// A copy without an instance: its items have no owner until the leader assigns them.
    #[must_use]
    pub fn without(&self, instance: &InstanceId) -> Self {
        let mut next = self.withdrawn();
        let Some(place) = next.instances.iter().position(|known| known == instance) else { return next };
        next.instances.remove(place);
        let place = i32::try_from(place).unwrap_or(i32::MAX);
        for owner in &mut next.owners {
            *owner = match (*owner).cmp(&place) {
                Ordering::Less => *owner,
                Ordering::Equal => -1,
                Ordering::Greater => *owner - 1,
            };
        }
        next
    }

    /// A copy in which the items from `from` on are part of the job since `until`, and not before.
    #[must_use]
    pub fn raised(&self, from: Item, until: Time) -> Self {
        let mut next = self.clone();
        next.surplus.retain(|known, _| *known < from);
        let until = next.surplus.values().next_back().map_or(until, |last| until.max(*last));
        next.surplus.insert(from, until);
        while next.surplus.len() > MOST_RAISES {
            next.surplus.pop_first();
        }
        next
    }

    /// Until when an item was not part of the job, if it ever was not.
    pub fn surplus_until(&self, item: Item) -> Option<Time> {
        self.surplus.range(..=item).next_back().map(|(_, until)| *until)
    }

    /// A copy with another schedule in force from `at` on; the previous one was `before`. All scheduled times up to
    /// `settled` are accounted for.
    #[must_use]
    pub fn with_floor(&self, at: Time, before: Option<(String, String)>, settled: Time) -> Self {
        let mut next = self.clone();
        next.floors.extend(next.floor.take());
        // Schedules that would begin later, by a clock that was ahead, are dropped; otherwise two would hold at one
        // time.
        let began = next.floors.iter().position(|floor| floor.at >= at).unwrap_or(next.floors.len());
        let before = next.floors.drain(began..).next().map_or(before, |floor| floor.before);
        next.floor = Some(Floor { at, before });
        next.floors.retain(|floor| floor.at > settled);
        let surplus = next.floors.len().saturating_sub(FLOORS);
        next.floors.drain(..surplus);
        next
    }

    /// The beginnings of all schedules but the first, oldest first.
    pub fn floors(&self) -> impl Iterator<Item = &Floor> {
        self.floors.iter().chain(&self.floor)
    }

    /// The gap that covers the scheduled time `due` of an item.
    pub fn gap_of(&self, item: Item, due: Time) -> Option<Gap> {
        let own = self.gaps.get(&item).copied();
        let surplus = || self.surplus_until(item).map(|until| Gap { until, reason: Missed::NoWorker });
        let covers = |gap: &Gap| due <= gap.until;
        own.filter(covers).or(self.gap.filter(covers)).or_else(|| surplus().filter(covers))
    }

    /// How many items the plan covers.
    pub fn items(&self) -> u32 {
        u32::try_from(self.owners.len()).unwrap_or(u32::MAX)
    }

    /// The item's owner.
    pub fn owner(&self, item: Item) -> Option<&InstanceId> {
        self.instances.get(self.owner_place(item)?)
    }

    /// The index of the item's owner in [`Self::instances`].
    pub fn owner_place(&self, item: Item) -> Option<usize> {
        usize::try_from(*self.owners.get(item.0 as usize)?).ok()
    }

    /// The instances of the plan, including those without an item.
    pub fn instances(&self) -> &[InstanceId] {
        &self.instances
    }

    /// Every owned item with its owner, ascending.
    pub fn owned(&self) -> impl Iterator<Item = (Item, &InstanceId)> {
        (0..self.items()).map(Item).filter_map(|item| Some((item, self.owner(item)?)))
    }

    /// The items of one instance, ascending.
    pub fn items_of(&self, instance: &InstanceId) -> Vec<Item> {
        let Some(place) = self.instances.iter().position(|known| known == instance) else {
            return Vec::new();
        };
        let place = i32::try_from(place).unwrap_or(i32::MAX);
        let owners = self.owners.iter().enumerate();
        owners.filter(|(_, owner)| **owner == place).map(|(item, _)| Item(item as u32)).collect()
    }

    /// Whether both assign the same items to the same instances.
    pub fn assigns_like(&self, other: &Self) -> bool {
        let same = self.instances == other.instances && self.owners == other.owners;
        same || self.assignment() == other.assignment()
    }

    /// The assignment as strategies see it.
    pub fn assignment(&self) -> Assignment {
        let mut lists: BTreeMap<InstanceId, Vec<Item>> =
            self.instances.iter().map(|instance| (instance.clone(), Vec::new())).collect();
        for (item, owner) in self.owned() {
            lists.entry(owner.clone()).or_default().push(item);
        }
        Assignment::try_from(lists).unwrap_or_default()
    }
}

fn pack(text: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::DeflateEncoder::new(PACKED.to_vec(), flate2::Compression::default());
    match packer.write_all(text).and_then(|()| packer.finish()) {
        Ok(packed) => packed,
        Err(_) => text.to_vec(),
    }
}

fn unpack(packed: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    flate2::read::DeflateDecoder::new(packed).take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharding(instances: u32, items: u32) -> Sharding {
        let mut lists: BTreeMap<InstanceId, Vec<Item>> = BTreeMap::new();
        for item in 0..items {
            let instance = InstanceId::new(format!("10.0.0.{}@-@w{0}", item % instances)).unwrap();
            lists.entry(instance).or_default().push(Item(item));
        }
        Sharding::default().with_assignment(&Assignment::try_from(lists).unwrap(), items)
    }

    #[test]
    fn without_an_instance_its_items_are_nobodys_and_the_others_keep_theirs() {
        let names = ["a", "b", "c"].map(|name| InstanceId::new(format!("{name}@-@w")).unwrap());
        let assignment = Assignment::from_owners(&names, (0..6).map(|item| item % 3));
        let all = Sharding::default().with_assignment(&assignment, 6);
        let fewer = all.without(&names[1]);
        assert_eq!(
            fewer.owned().map(|(item, owner)| (item.0, owner.clone())).collect::<Vec<_>>(),
            [(0, names[0].clone()), (2, names[2].clone()), (3, names[0].clone()), (5, names[2].clone()),]
        );
        assert_eq!((fewer.instances(), fewer.items()), (&[names[0].clone(), names[2].clone()][..], 6));
        assert_eq!(fewer.withdrawals, all.withdrawals + 1);
        let stranger = InstanceId::new("d@-@w").unwrap();
        assert_eq!(all.without(&stranger), all.withdrawn());
    }

    #[test]
    fn items_that_are_added_again_are_so_since_then_and_none_before_those_below() {
        let until = |sharding: &Sharding, item| sharding.surplus_until(Item(item)).map(|until| until.0);
        let once = Sharding::default().raised(Item(5), Time(10));
        assert_eq!([4, 5, 9].map(|item| until(&once, item)), [None, Some(10), Some(10)]);
        // Set by a clock that was ahead, and no longer is.
        assert_eq!(until(&once.raised(Item(5), Time(3)), 5), Some(3));
        let twice = once.raised(Item(7), Time(3));
        assert_eq!([5, 7].map(|item| until(&twice, item)), [Some(10), Some(10)]);
    }

    #[test]
    fn a_schedule_that_began_when_all_was_accounted_for_is_the_first_that_counts() {
        let before = |cron: &str| Some((cron.to_owned(), String::new()));
        let two = |settled| {
            let one = Sharding::default().with_floor(Time(10), before("a"), Time(0));
            one.with_floor(Time(20), before("b"), Time(settled)).floors().count()
        };
        assert_eq!([9, 10, 11].map(two), [2, 1, 1]);
    }

    #[test]
    fn what_is_written_is_read_and_long_ones_are_packed() {
        for (items, packed) in [(0, false), (9, false), (100_000, true)] {
            let written = sharding(50, items);
            let data = written.encode();
            assert_eq!(data.starts_with(PACKED), packed, "{items} items");
            assert!(data.len() < 512 * 1024, "{items} items take {} bytes", data.len());
            assert_eq!(Sharding::decode(&data).unwrap(), written);
            assert_eq!(written.owned().count(), items as usize);
        }
    }

    /// Text that an older version can read is not compressed, and what we compress it can read.
    #[test]
    fn data_is_packed_above_16_kib_and_read_up_to_16_mib() {
        let data = |length: usize| {
            let cron = |length| Some(("x".repeat(length), String::new()));
            let bare = Sharding::default().with_floor(Time(0), cron(0), Time(0)).encode().len();
            Sharding::default().with_floor(Time(0), cron(length - bare), Time(0)).encode()
        };
        assert_eq!((data(16_384).len(), data(16_384).starts_with(b"{")), (16_384, true));
        assert!(data(16_385).starts_with(PACKED));
        let packed = |length: usize| pack(format!("{{{}}}", " ".repeat(length - 2)).as_bytes());
        assert_eq!(Sharding::decode(&packed(16_777_216)), Ok(Sharding::default()));
        assert!(Sharding::decode(&packed(16_777_217)).is_err());
    }

    #[test]
    fn an_assignment_is_who_owns_what_however_it_is_written() {
        let read = |text: &str| Sharding::decode(text.as_bytes()).unwrap();
        let one = read(r#"{"instances":["a","b"],"owners":[0,1,-1,1]}"#);
        assert!(one.assigns_like(&one.withdrawn()));
        assert!(one.assigns_like(&read(r#"{"instances":["b","a"],"owners":[1,0,-1,0]}"#)));
        for other in [
            r#"{"instances":["a","b"],"owners":[1,0,-1,0]}"#,
            r#"{"instances":["b","a"],"owners":[0,1,-1,1]}"#,
            r#"{"instances":["a","b"],"owners":[0,1,1,1]}"#,
        ] {
            assert!(!one.assigns_like(&read(other)), "{other}");
        }
        let items = |name: &str| one.items_of(&InstanceId::new(name).unwrap());
        assert_eq!([items("a"), items("b"), items("c")], [vec![Item(0)], vec![Item(1), Item(3)], vec![]]);
    }

    #[test]
    fn a_new_job_has_no_scheduled_times_before_its_creation() {
        assert_eq!(Sharding::made_at(Time(5)), Sharding { made: Some(Time(5)), ..Sharding::default() });
    }

    #[test]
    fn foreign_data_is_refused_not_believed() {
        assert_eq!(Sharding::decode(b"").unwrap(), Sharding::default());
        for bad in [&b"{"[..], b"z:rubbish", br#"{"instances":["a"],"owners":[1]}"#, b"[]"] {
            assert!(Sharding::decode(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_schedule_that_was_to_begin_later_gives_way_to_the_next() {
        let at = Time::from_seconds;
        let cron = |cron: &str| Some((cron.to_owned(), "UTC".to_owned()));
        let two =
            Sharding::default().with_floor(at(10), cron("a"), at(0)).with_floor(at(30), cron("b"), at(0));
        let floors = |sharding: &Sharding| -> Vec<(Time, Option<(String, String)>)> {
            sharding.floors().map(|floor| (floor.at, floor.before.clone())).collect()
        };
        assert_eq!(floors(&two), [(at(10), cron("a")), (at(30), cron("b"))]);
        let behind = two.with_floor(at(20), cron("c"), at(0));
        assert_eq!(floors(&behind), [(at(10), cron("a")), (at(20), cron("b"))]);
        let first = behind.with_floor(at(5), cron("d"), at(0));
        assert_eq!(floors(&first), [(at(5), cron("a"))]);
    }

    #[test]
    fn an_item_is_surplus_until_the_count_was_last_raised_over_it() {
        let at = Time::from_seconds;
        let raised = sharding(2, 4).raised(Item(4), at(10)).raised(Item(6), at(20));
        let until = |sharding: &Sharding| [3, 4, 5, 6, 9].map(|item| sharding.surplus_until(Item(item)));
        assert_eq!(until(&raised), [None, Some(at(10)), Some(at(10)), Some(at(20)), Some(at(20))]);
        let again = raised.raised(Item(5), at(30));
        assert_eq!(until(&again), [None, Some(at(10)), Some(at(30)), Some(at(30)), Some(at(30))]);
        assert_eq!(again.gap_of(Item(5), at(30)).map(|gap| gap.reason), Some(Missed::NoWorker));
        assert_eq!(again.gap_of(Item(5), at(31)), None);
        assert_eq!(Sharding::decode(&again.encode()).unwrap(), again);
        let many = (0..100).fold(again, |sharding, n| sharding.raised(Item(100 + n), at(100 + i64::from(n))));
        assert_eq!(many.surplus.len(), MOST_RAISES);
    }

    #[test]
    fn an_item_without_an_owner_belongs_to_no_one() {
        let mut sharding = sharding(2, 4);
        sharding.owners[1] = -1;
        assert_eq!(sharding.owner(Item(1)), None);
        assert_eq!(sharding.owned().count(), 3);
        assert_eq!(sharding.assignment().owner(Item(1)), None);
        assert_eq!(sharding.owner(Item(9)), None);
    }
}
