//! Operators: their requests, and whether the answers match the store.

use std::time::Duration;

use rosterd_coordinator::handle::{ChangeEffect, Handle, Operation};
use rosterd_domain::id::JobName;
use rosterd_domain::txn::Purpose;

use crate::invariants::barrier::forbids;
use crate::oracle::planted_secrets;
use crate::world::{Later, World};

/// The transaction that an operation makes, and its job.
fn effect(operation: &Operation) -> Option<(JobName, Purpose)> {
    Some(match operation {
        Operation::Trigger { job, .. } => (job.clone(), Purpose::Trigger),
        Operation::Pause { job, .. } => (job.clone(), Purpose::Pause),
        Operation::Enable { job, enabled: true, .. } => (job.clone(), Purpose::Enable),
        Operation::Enable { job, enabled: false, .. } => (job.clone(), Purpose::Disable),
        Operation::Remove { job, .. } => (job.clone(), Purpose::Remove),
        Operation::Shutdown { job, .. } => (job.clone(), Purpose::Shutdown),
        Operation::Apply { .. }
        | Operation::Cancel { .. }
        | Operation::Drain { .. }
        | Operation::Machine { .. } => return None,
    })
}

/// Asks any coordinator that is up, and compares its answer with the store. Returns whether there is one: if not, the
/// request is repeated later.
pub fn ask(world: &mut World, operation: Operation) -> bool {
    let hosts = world.net.hosts();
    let host = world.rng.pick(&hosts).cloned();
    match host {
        Some((url, handle)) => {
            ask_of(world, url, handle, operation);
            true
        }
        None => {
            world.later(Duration::from_secs(1), Later::Operate(operation));
            false
        }
    }
}

/// Asks this coordinator.
pub fn ask_of(world: &World, url: String, handle: Handle, operation: Operation) {
    let (observer, coverage) = (world.observer.clone(), world.coverage.clone());
    let mut asked = format!("{operation:?}");
    asked.truncate(120);
    let asked = asked.replace('\n', " ");
    observer.note(|| format!("asked of {url}: {asked}"));
    let before = observer.lock().applied;
    let asked_at = (observer.lock().shadow.in_flight(), before);
    tokio::spawn(async move {
        let (effect, forbids) = (effect(&operation), forbids(&operation));
        let (asked_to_leave, shut_down) = match &operation {
            Operation::Drain { instance, .. } => (instance.worker(), None),
            Operation::Shutdown { job, instance } => (None, Some((job.clone(), instance.clone()))),
            _ => (None, None),
        };
        let word = format!("{operation:?}").split([' ', '{']).next().unwrap_or_default().to_owned();
        // The caller does not wait forever.
        let answer = tokio::time::timeout(Duration::from_secs(15), handle.operate(operation)).await;
        let Ok(answer) = answer else {
            coverage.count(format!("operation {word}: no answer"));
            return observer.note(|| format!("{url} does not answer {asked}"));
        };
        let code = answer.as_ref().map_or_else(|refusal| refusal.code.as_str(), |_| "done");
        coverage.count(format!("operation {word}: {code}"));
        observer.note(|| format!("{url} answers {code} to {asked}"));
        let answered = format!("{answer:?}");
        if planted_secrets::leaks_secret(&answered) {
            observer.lock().broke("no_secret", format!("{asked} is answered {answered}"));
        }
        let Ok(done) = answer else { return };
        {
            let mut observer = observer.lock();
            observer.asked_to_leave.extend(asked_to_leave);
            let of = |(job, instance)| {
                let shadow = observer.shadow.jobs.get(&job)?;
                Some((job, shadow.incarnation.clone(), instance))
            };
            let shut_down = shut_down.and_then(of);
            observer.shut_down.extend(shut_down);
            if let Some(forbids) = &forbids {
                observer.acknowledged(&asked, forbids, &done.changes, &asked_at);
            }
        }
        let changed = done.changes.iter().any(|(_, change)| change.effect != ChangeEffect::Unchanged);
        if let (Some((job, purpose)), true) = (effect, changed) {
            let mut observer = observer.lock();
            let latest = observer.purposes.get(&(job.to_string(), purpose)).copied().unwrap_or(0);
            if latest <= before {
                observer.broke(
                    "nothing_acknowledged_is_lost",
                    format!("{asked} is answered, and not in the store"),
                );
            }
        }
    });
}
