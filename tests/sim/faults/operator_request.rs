//! Random operator requests, as values; a restriction is lifted later.

use std::time::Duration;

use rosterd_coordinator::handle::{Operation, Target};
use rosterd_domain::id::{InstanceId, Item, JobName, ServerAddress};
use serde::{Deserialize, Serialize};

use crate::faults::disruption::kinds;
use crate::rng::Rng;
use crate::world::handlers::JobPlan;
use crate::world::operator;
use crate::world::{Later, World, WorldPlan};

/// A request for a job, by its index among the world's jobs; `back`: it is reverted after this many milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorRequest {
    pub job: usize,
    pub action: OperatorAction,
    pub undo_after: u64,
}

/// The action. An `instance` is one of those that own items, by its index among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorAction {
    Pause,
    DisableJob {
        cancel: bool,
    },
    DisableItem {
        item: u32,
        cancel: bool,
    },
    DisableMachine {
        machine: usize,
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
    /// Removed, and created again.
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

kinds! { OperatorAction:
    OperatorAction::Pause => "operator: pause",
    OperatorAction::DisableJob { .. } => "operator: disable a job",
    OperatorAction::DisableItem { .. } => "operator: disable an item",
    OperatorAction::DisableMachine { .. } => "operator: disable a server",
    OperatorAction::DisableInstance { .. } => "operator: disable an instance",
    OperatorAction::Trigger => "operator: trigger",
    OperatorAction::Drain { .. } => "operator: drain a worker",
    OperatorAction::Shutdown { .. } => "operator: shut an instance down",
    OperatorAction::MadeAgain => "operator: remove and make again",
    OperatorAction::Cancel { .. } => "operator: cancel a run",
    OperatorAction::Count { .. } => "operator: another count",
    OperatorAction::Period { .. } => "operator: another cron",
    OperatorAction::Zone { .. } => "operator: another time zone",
    OperatorAction::Strategy { .. } => "operator: another strategy",
    OperatorAction::FailoverTurned => "operator: failover on or off",
    OperatorAction::MisfireTurned => "operator: misfire on or off",
    OperatorAction::MonitorTurned => "operator: monitorExecution on or off",
}

/// One at random.
pub fn any(rng: &mut Rng, plan: &WorldPlan) -> OperatorRequest {
    let job = rng.index(plan.jobs.len());
    let items = u64::from(plan.jobs.get(job).map_or(1, |plan| plan.items));
    let mut small = |n: u64| u32::try_from(rng.below(n)).unwrap_or(0);
    let (item, count, kind) = (small(items), 1 + small(5), small(21));
    let (cancel, instance, machine) = (rng.permille(300), rng.index(16), rng.index(plan.workers));
    let action = match kind {
        0 | 1 => OperatorAction::Pause,
        2 => OperatorAction::DisableJob { cancel },
        3 | 4 => OperatorAction::DisableItem { item, cancel },
        5 => OperatorAction::DisableMachine { machine, cancel },
        6 => OperatorAction::DisableInstance { instance, cancel },
        7..=9 => OperatorAction::Trigger,
        10 => OperatorAction::Drain { instance },
        11 if rng.permille(500) => OperatorAction::Shutdown { instance },
        11 | 12 => OperatorAction::MadeAgain,
        13 => OperatorAction::Cancel { item },
        14 | 15 => OperatorAction::Count { items: count },
        16 => OperatorAction::Period { seconds: [1, 2, 3, 5][rng.index(4)] },
        17 => OperatorAction::Zone { zone: rng.index(ZONES.len()) },
        18 => OperatorAction::Strategy { strategy: rng.index(STRATEGIES.len()) },
        _ => {
            // A crashed run is given up if failover is switched off in time, which is rare.
            match rng.index(6) {
                0 => OperatorAction::MisfireTurned,
                1 => OperatorAction::MonitorTurned,
                _ => OperatorAction::FailoverTurned,
            }
        }
    };
    OperatorRequest { job, action, undo_after: crate::faults::disruption::millis(rng.millis(1000, 12_000)) }
}

/// Sends it, and schedules its reversal. Returns whether there was a coordinator to ask, and a target.
pub fn ask(world: &mut World, request: &OperatorRequest) -> bool {
    let plans = world.plan.jobs.len().max(1);
    let Some(plan) = world.plan.jobs.get(request.job % plans).cloned() else { return false };
    let Ok(job) = JobName::new(plan.name) else { return false };
    let Some(operation) = operation(world, &plan, &job, &request.action) else { return false };
    let undo = match &operation {
        Operation::Pause { job, .. } => Some(Operation::Pause { job: job.clone(), paused: false }),
        Operation::Enable { job, target, .. } => {
            Some(Operation::Enable { job: job.clone(), target: target.clone(), enabled: true, cancel: false })
        }
        Operation::Remove { .. } => Some(apply(&plan)),
        _ => None,
    };
    if let Some(undo) = undo {
        world.later(Duration::from_millis(request.undo_after), Later::Operate(undo));
    }
    operator::ask(world, operation)
}

fn operation(world: &World, plan: &JobPlan, job: &JobName, action: &OperatorAction) -> Option<Operation> {
    let disable = |target, cancel| Operation::Enable { job: job.clone(), target, enabled: false, cancel };
    Some(match *action {
        OperatorAction::Pause => Operation::Pause { job: job.clone(), paused: true },
        OperatorAction::DisableJob { cancel } => disable(Target::Job, cancel),
        OperatorAction::DisableItem { item, cancel } => disable(Target::Item(Item(item)), cancel),
        OperatorAction::DisableMachine { machine, cancel } => {
            disable(Target::Machine(ServerAddress::new(format!("10.0.0.{machine}")).ok()?), cancel)
        }
        OperatorAction::DisableInstance { instance, cancel } => {
            disable(Target::Instance(owner(world, None, instance)?), cancel)
        }
        OperatorAction::Trigger => {
            Operation::Trigger { job: job.clone(), items: Vec::new(), after_current: true }
        }
        OperatorAction::Drain { instance } => {
            Operation::Drain { instance: owner(world, None, instance)?, grace: Duration::from_secs(2) }
        }
        OperatorAction::Shutdown { instance } => {
            Operation::Shutdown { job: job.clone(), instance: owner(world, Some(job), instance)? }
        }
        OperatorAction::MadeAgain => Operation::Remove { job: job.clone(), cancel: true },
        OperatorAction::Cancel { item } => Operation::Cancel { job: job.clone(), item: Item(item) },
        OperatorAction::Count { items } => changed(JobPlan { items, ..plan.clone() })?,
        OperatorAction::Period { seconds } => changed(JobPlan { period: seconds, ..plan.clone() })?,
        OperatorAction::Zone { zone } => {
            changed(JobPlan { zone: ZONES.get(zone % ZONES.len()).copied(), ..plan.clone() })?
        }
        OperatorAction::Strategy { strategy } => {
            let strategy = STRATEGIES[strategy % STRATEGIES.len()];
            changed(JobPlan { strategy, ..plan.clone() })?
        }
        OperatorAction::FailoverTurned => changed(JobPlan { failover: !plan.failover, ..plan.clone() })?,
        OperatorAction::MisfireTurned => changed(JobPlan { misfire: !plan.misfire, ..plan.clone() })?,
        // Both failover and misfire require it.
        OperatorAction::MonitorTurned => {
            let (failover, misfire) = (plan.failover && !plan.monitor, plan.misfire && !plan.monitor);
            changed(JobPlan { monitor: !plan.monitor, failover, misfire, ..plan.clone() })?
        }
    })
}

/// A change that the job does not accept is not requested.
fn changed(plan: JobPlan) -> Option<Operation> {
    Operation::apply(&plan.config(), false).ok()
}

pub fn apply(plan: &JobPlan) -> Operation {
    Operation::apply(&plan.config(), false).unwrap_or_else(|refusal| unreachable!("{refusal}"))
}

/// An instance that owns items: of this job, or of any.
pub fn owner(world: &World, job: Option<&JobName>, at: usize) -> Option<InstanceId> {
    let observer = world.observer.lock();
    let jobs = observer.shadow.jobs.iter().filter(|(name, _)| job.is_none_or(|job| job == *name));
    let instances: Vec<&InstanceId> = jobs.flat_map(|(_, job)| job.sharding.instances()).collect();
    let len = instances.len().max(1);
    instances.get(at % len).map(|instance| (*instance).clone())
}
