//! Rows for people: jobs, items, workers and coordinators.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{CoordinatorId, InstanceId, Item, JobName, ServerAddress, Token};
use rosterd_domain::item::{Counters, Ended, State};
use rosterd_domain::time::Time;

use crate::cluster::members::Member;
use crate::io::operation::JobStatus;

/// A job in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    pub name: JobName,
    pub handler_type: String,
    pub cron: Option<String>,
    pub time_zone: String,
    pub items: u32,
    pub description: String,
    pub status: JobStatus,
    pub instances: u32,
    pub running: u32,
    pub leader: Option<String>,
    pub next_fire: Option<Time>,
    /// When it was created, if that is known.
    pub made: Option<Time>,
    pub counters: Counters,
    /// It is without monitorExecution.
    pub unmonitored: bool,
    /// Machines know it, and it is disabled on all of them.
    pub disabled_everywhere: bool,
}

/// Distinguishes a job from earlier ones of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Birth {
    /// Its incarnation.
    pub incarnation: Arc<str>,
    /// All tokens of its runs are at or above it.
    pub first: Token,
}

/// A job in full.
#[derive(Debug, Clone, PartialEq)]
pub struct JobDetail {
    pub row: JobRow,
    /// As it would be applied again, YAML.
    pub spec: String,
    pub generation: u64,
    pub epoch: u64,
    pub upcoming: Vec<Time>,
}

/// An item in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemRow {
    pub item: Item,
    pub parameter: String,
    /// The live instance that owns it.
    pub owner: Option<InstanceId>,
    pub disabled: bool,
    /// It is beyond the job's count, which was lowered; its record is kept.
    pub surplus: bool,
    pub state: State,
    pub token: Token,
    pub last_fire: Time,
    pub misfire: Option<Time>,
    pub last: Option<Ended>,
    pub counters: Counters,
    pub status: ItemStatus,
}

/// The status of an item: the first of these that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemStatus {
    Running,
    /// Its run crashed and waits for failover.
    Crashed,
    /// It is beyond the job's count.
    Surplus,
    Disabled,
    /// No live instance owns it.
    Unassigned,
    /// It has run, and no scheduled time, misfire or trigger is left.
    Completed,
    /// It waits for its next scheduled time, or for a trigger.
    Pending,
}

/// An instance in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceRow {
    pub instance: InstanceId,
    pub job: JobName,
    pub address: String,
    pub host: String,
    pub slots: u32,
    pub items: u32,
    pub enabled: bool,
    pub client: String,
    pub labels: BTreeMap<String, String>,
    /// Runs of the job in flight on it.
    pub running: u32,
}

/// A machine in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    pub server: ServerAddress,
    pub job: JobName,
    pub enabled: bool,
    pub instances: u32,
}

/// A machine in a list, over all jobs that know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineRow {
    pub machine: ServerAddress,
    pub jobs: u32,
    pub disabled_jobs: u32,
    /// Worker processes, each counted once.
    pub instances: u32,
}

/// A coordinator in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    pub id: CoordinatorId,
    /// It is the coordinator that was asked.
    pub asked: bool,
    /// What it last wrote about itself.
    pub member: Member,
    /// How long ago one of its writes proved that its session is alive: exact for the coordinator that was asked, for
    /// others as far as their own nodes show it; `None`: not known.
    pub proved_ago: Option<Duration>,
}

/// All jobs of the namespace.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// By name.
    pub jobs: Vec<Surveyed>,
    /// Worker processes that work for any of them.
    pub workers: u64,
}

/// An overview of one job.
#[derive(Debug, Clone)]
pub struct Surveyed {
    /// As in a list.
    pub row: JobRow,
    /// Enabled items without an enabled owner.
    pub without_owner: u32,
    /// The oldest scheduled time that has passed, and is neither run nor recorded.
    pub waits_since: Option<Time>,
    /// Items whose crashed run waits for failover, with the time since the first of them waits.
    pub crashed: Vec<(Item, Time)>,
    /// Items whose last run did not succeed, and how it ended; without those that were cancelled on request.
    pub unsuccessful: Vec<(Item, Ended)>,
}
