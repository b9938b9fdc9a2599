//! What people ask for at random, as values; what is taken away is given back later.

use std::time::Duration;

use rosterd_coordinator::handle::{Operation, Target};
use rosterd_domain::id::{InstanceId, Item, JobName, ServerAddress};
use serde::{Deserialize, Serialize};

use crate::log::JobPlan;
use crate::operator;
use crate::rng::Rng;
use crate::trouble::kinds;
use crate::world::{Later, Plan, World};

/// What somebody wants of a job, by its place among the world's jobs; `back`: after so many milliseconds it is taken
/// back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    pub job: usize,
    pub wants: Wants,
    pub back: u64,
}

/// What it is. An `instance` is one of those that own items, by its place among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wants {
    Pause,
    DisableJob {
        cancel: bool,
    },
    DisableItem {
        item: u32,
        cancel: bool,
    },
    DisableServer {
        desk: usize,
        cancel: bool,
    },
    DisableInstance {
        instance: usize,
        cancel: bool,
    },
    Trigger,
    Drain {
        instance: usize,
    },
    Shutdown {
        instance: usize,
    },
    /// Removed, and made again.
    MadeAgain,
    Cancel {
        item: u32,
    },
    Count {
        items: u32,
    },
    Period {
        seconds: u64,
    },
    Zone {
        zone: usize,
    },
    Strategy {
        strategy: usize,
    },
    FailoverTurned,
    MisfireTurned,
    MonitorTurned,
}

/// Strategies that are played.
pub const STRATEGIES: [&str; 4] = ["AVG_ALLOCATION", "ODEVITY", "ROUND_ROBIN", "STICKY"];

/// Zones that are played: at the hours of the worlds' beginnings some of them change their clocks.
pub const ZONES: [&str; 4] = ["UTC", "America/New_York", "Australia/Lord_Howe", "GMT+8:00"];

kinds! { Wants:
    Wants::Pause => "operator: pause",
    Wants::DisableJob { .. } => "operator: disable a job",
    Wants::DisableItem { .. } => "operator: disable an item",
    Wants::DisableServer { .. } => "operator: disable a server",
    Wants::DisableInstance { .. } => "operator: disable an instance",
    Wants::Trigger => "operator: trigger",
    Wants::Drain { .. } => "operator: drain a worker",
    Wants::Shutdown { .. } => "operator: shut an instance down",
    Wants::MadeAgain => "operator: remove and make again",
    Wants::Cancel { .. } => "operator: cancel a run",
    Wants::Count { .. } => "operator: another count",
    Wants::Period { .. } => "operator: another cron",
    Wants::Zone { .. } => "operator: another time zone",
    Wants::Strategy { .. } => "operator: another strategy",
    Wants::FailoverTurned => "operator: failover on or off",
    Wants::MisfireTurned => "operator: misfire on or off",
    Wants::MonitorTurned => "operator: monitorExecution on or off",
}

/// One at random.
pub fn any(rng: &mut Rng, plan: &Plan) -> Wish {
    let job = rng.index(plan.jobs.len());
    let items = u64::from(plan.jobs.get(job).map_or(1, |plan| plan.items));
    let mut small = |n: u64| u32::try_from(rng.below(n)).unwrap_or(0);
    let (item, count, kind) = (small(items), 1 + small(5), small(21));
    let (cancel, instance, desk) = (rng.permille(300), rng.index(16), rng.index(plan.workers));
    let wants = match kind {
        0 | 1 => Wants::Pause,
        2 => Wants::DisableJob { cancel },
        3 | 4 => Wants::DisableItem { item, cancel },
        5 => Wants::DisableServer { desk, cancel },
        6 => Wants::DisableInstance { instance, cancel },
        7..=9 => Wants::Trigger,
        10 => Wants::Drain { instance },
        11 if rng.permille(500) => Wants::Shutdown { instance },
        11 | 12 => Wants::MadeAgain,
        13 => Wants::Cancel { item },
        14 | 15 => Wants::Count { items: count },
        16 => Wants::Period { seconds: [1, 2, 3, 5][rng.index(4)] },
        17 => Wants::Zone { zone: rng.index(ZONES.len()) },
        18 => Wants::Strategy { strategy: rng.index(STRATEGIES.len()) },
        _ => {
            // What crashed is given up when failover is switched off in time, which is seldom.
            match rng.index(6) {
                0 => Wants::MisfireTurned,
                1 => Wants::MonitorTurned,
                _ => Wants::FailoverTurned,
            }
        }
    };
    Wish { job, wants, back: crate::trouble::millis(rng.millis(1000, 12_000)) }
}

/// Asks for it, and for it to be taken back later; whether there was somebody to ask, and something to ask for.
pub fn ask(world: &mut World, wish: &Wish) -> bool {
    let plans = world.plan.jobs.len().max(1);
    let Some(plan) = world.plan.jobs.get(wish.job % plans).cloned() else { return false };
    let Ok(job) = JobName::new(plan.name) else { return false };
    let Some(operation) = operation(world, &plan, &job, &wish.wants) else { return false };
    let undo = match &operation {
        Operation::Pause { job, .. } => Some(Operation::Pause { job: job.clone(), paused: false }),
        Operation::Enable { job, target, .. } => {
            Some(Operation::Enable { job: job.clone(), target: target.clone(), enabled: true, cancel: false })
        }
        Operation::Remove { .. } => Some(apply(&plan)),
        _ => None,
    };
    if let Some(undo) = undo {
        world.later(Duration::from_millis(wish.back), Later::Operate(undo));
    }
    operator::ask(world, operation)
}

fn operation(world: &World, plan: &JobPlan, job: &JobName, wants: &Wants) -> Option<Operation> {
    let disable = |target, cancel| Operation::Enable { job: job.clone(), target, enabled: false, cancel };
    Some(match *wants {
        Wants::Pause => Operation::Pause { job: job.clone(), paused: true },
        Wants::DisableJob { cancel } => disable(Target::Job, cancel),
        Wants::DisableItem { item, cancel } => disable(Target::Item(Item(item)), cancel),
        Wants::DisableServer { desk, cancel } => {
            disable(Target::Machine(ServerAddress::new(format!("10.0.0.{desk}")).ok()?), cancel)
        }
        Wants::DisableInstance { instance, cancel } => {
            disable(Target::Instance(owner(world, None, instance)?), cancel)
        }
        Wants::Trigger => Operation::Trigger { job: job.clone(), items: Vec::new(), after_current: true },
        Wants::Drain { instance } => {
            Operation::Drain { instance: owner(world, None, instance)?, grace: Duration::from_secs(2) }
        }
        Wants::Shutdown { instance } => {
            Operation::Shutdown { job: job.clone(), instance: owner(world, Some(job), instance)? }
        }
        Wants::MadeAgain => Operation::Remove { job: job.clone(), cancel: true },
        Wants::Cancel { item } => Operation::Cancel { job: job.clone(), item: Item(item) },
        Wants::Count { items } => changed(JobPlan { items, ..plan.clone() })?,
        Wants::Period { seconds } => changed(JobPlan { period: seconds, ..plan.clone() })?,
        Wants::Zone { zone } => {
            changed(JobPlan { zone: ZONES.get(zone % ZONES.len()).copied(), ..plan.clone() })?
        }
        Wants::Strategy { strategy } => {
            let strategy = STRATEGIES[strategy % STRATEGIES.len()];
            changed(JobPlan { strategy, ..plan.clone() })?
        }
        Wants::FailoverTurned => changed(JobPlan { failover: !plan.failover, ..plan.clone() })?,
        Wants::MisfireTurned => changed(JobPlan { misfire: !plan.misfire, ..plan.clone() })?,
        // Neither failover nor misfire goes without it.
        Wants::MonitorTurned => {
            let (failover, misfire) = (plan.failover && !plan.monitor, plan.misfire && !plan.monitor);
            changed(JobPlan { monitor: !plan.monitor, failover, misfire, ..plan.clone() })?
        }
    })
}

/// A change that the job does not take is nothing to ask for.
fn changed(plan: JobPlan) -> Option<Operation> {
    Operation::apply(&plan.config(), false).ok()
}

pub fn apply(plan: &JobPlan) -> Operation {
    Operation::apply(&plan.config(), false).unwrap_or_else(|refusal| unreachable!("{refusal}"))
}

/// An instance that owns items: of this job, or of any.
pub fn owner(world: &World, job: Option<&JobName>, at: usize) -> Option<InstanceId> {
    let watch = world.watch.lock();
    let jobs = watch.shadow.jobs.iter().filter(|(name, _)| job.is_none_or(|job| job == *name));
    let instances: Vec<&InstanceId> = jobs.flat_map(|(_, job)| job.sharding.instances()).collect();
    let len = instances.len().max(1);
    instances.get(at % len).map(|instance| (*instance).clone())
}
