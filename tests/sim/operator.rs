//! People: what they ask for, and whether what they were told stands in the store.

use std::time::Duration;

use rosterd::coordinator::handle::{Handle, Operation, Target};
use rosterd_domain::id::{InstanceId, Item, JobName, ServerAddress};

use crate::world::{Later, World};

/// Asks for something at random; what is taken away is given back later.
pub fn bother(world: &mut World) {
    let Some(plan) = world.rng.pick(&world.plan.jobs.clone()).cloned() else { return };
    let Ok(job) = JobName::new(plan.name) else { return };
    let back = world.rng.millis(1000, 12_000);
    let operation = match world.rng.below(12) {
        0 => Operation::Pause { job: job.clone(), paused: true },
        1 => disable(world, &job, Target::Job),
        2 | 3 => {
            let item = Item(u32::try_from(world.rng.below(u64::from(plan.items))).unwrap_or(0));
            disable(world, &job, Target::Item(item))
        }
        4 => {
            let desk = world.rng.index(world.desks.len());
            let Ok(server) = ServerAddress::new(format!("10.0.0.{desk}")) else { return };
            disable(world, &job, Target::Server(server))
        }
        5 => {
            let Some(instance) = some_instance(world) else { return };
            disable(world, &job, Target::Instance(instance))
        }
        6 | 7 => Operation::Trigger { job: job.clone(), items: Vec::new(), after_current: true },
        8 => {
            let Some(instance) = some_instance(world) else { return };
            Operation::Drain { instance, grace: Duration::from_secs(2) }
        }
        9 if world.rng.permille(400) => {
            let text = plan.config();
            world.later(back, Later::Operate(Operation::Apply { text, dry_run: false }));
            Operation::Remove { job: job.clone(), cancel: true }
        }
        9 => Operation::Cancel { job: job.clone(), item: Item(0) },
        _ => {
            let mut changed = plan.clone();
            match world.rng.below(4) {
                0 => changed.items = 1 + u32::try_from(world.rng.below(5)).unwrap_or(0),
                1 => changed.period = [1, 2, 3, 5][world.rng.index(4)],
                2 => {
                    changed.strategy =
                        ["AVG_ALLOCATION", "ODEVITY", "ROUND_ROBIN", "STICKY"][world.rng.index(4)]
                }
                _ => changed.failover = !changed.failover,
            }
            Operation::Apply { text: changed.config(), dry_run: false }
        }
    };
    let undo = match &operation {
        Operation::Pause { job, .. } => Some(Operation::Pause { job: job.clone(), paused: false }),
        Operation::Enable { job, target, .. } => {
            Some(Operation::Enable { job: job.clone(), target: target.clone(), enabled: true, cancel: false })
        }
        _ => None,
    };
    if let Some(undo) = undo {
        world.later(back, Later::Operate(undo));
    }
    ask(world, operation);
}

fn disable(world: &mut World, job: &JobName, target: Target) -> Operation {
    Operation::Enable { job: job.clone(), target, enabled: false, cancel: world.rng.permille(300) }
}

fn some_instance(world: &mut World) -> Option<InstanceId> {
    let jobs = world.watch.lock().shadow.jobs.clone();
    let instances: Vec<InstanceId> =
        jobs.values().flat_map(|job| job.sharding.instances().iter().cloned()).collect();
    world.rng.pick(&instances).cloned()
}

/// The transaction that an operation makes, and its job.
fn effect(operation: &Operation) -> Option<(JobName, &'static str)> {
    Some(match operation {
        Operation::Trigger { job, .. } => (job.clone(), "trigger"),
        Operation::Pause { job, .. } => (job.clone(), "pause"),
        Operation::Enable { job, enabled: true, .. } => (job.clone(), "enable"),
        Operation::Enable { job, enabled: false, .. } => (job.clone(), "disable"),
        Operation::Remove { job, .. } => (job.clone(), "remove"),
        Operation::Shutdown { job, .. } => (job.clone(), "shutdown"),
        Operation::Apply { .. } | Operation::Cancel { .. } | Operation::Drain { .. } => return None,
    })
}

/// Asks any coordinator that is up; its word is held against the store.
pub fn ask(world: &mut World, operation: Operation) {
    let hosts = world.net.hosts();
    let Some((url, handle)) = world.rng.pick(&hosts).cloned() else {
        return world.later(Duration::from_secs(1), Later::Operate(operation));
    };
    ask_of(world, url, handle, operation);
}

/// Asks this coordinator.
pub fn ask_of(world: &World, url: String, handle: Handle, operation: Operation) {
    let (watch, coverage) = (world.watch.clone(), world.coverage.clone());
    let mut asked = format!("{operation:?}");
    asked.truncate(120);
    let asked = asked.replace('\n', " ");
    watch.note(|| format!("asked of {url}: {asked}"));
    let before = watch.lock().applied;
    tokio::spawn(async move {
        let effect = effect(&operation);
        let word = format!("{operation:?}").split([' ', '{']).next().unwrap_or_default().to_owned();
        // Who asks does not wait for ever.
        let answer = tokio::time::timeout(Duration::from_secs(15), handle.operate(operation)).await;
        let Ok(answer) = answer else {
            coverage.count(format!("operation {word}: no answer"));
            return watch.note(|| format!("{url} does not answer {asked}"));
        };
        let code = answer.as_ref().map_or_else(|refusal| refusal.code.as_str(), |_| "done");
        coverage.count(format!("operation {word}: {code}"));
        watch.note(|| format!("{url} answers {code} to {asked}"));
        let Ok(done) = answer else { return };
        let changed =
            done.lines.iter().any(|(_, line)| !line.contains("already") && !line.starts_with("is "));
        if let (Some((job, purpose)), true) = (effect, changed) {
            let mut watch = watch.lock();
            let latest = watch.purposes.get(&(job.to_string(), purpose)).copied().unwrap_or(0);
            if latest <= before {
                watch.broke(
                    "nothing_acknowledged_is_lost",
                    format!("{asked} is answered, and not in the store"),
                );
            }
        }
    });
}
