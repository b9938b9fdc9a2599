//! Once faults have stopped nothing belongs to dead processes: no attachment, no instance, no run without a live
//! worker, no crashed run without an instance although one has room. The same holds for items from when the job's count
//! was higher: their remaining runs have a live worker, and do not wait for an instance.
//!
//! Source: Elastic-Job #2429 and #467, #1754, marks of runs that stayed forever after a crash between two writes or a
//! lost answer; XXL-JOB #433, runs whose worker had died before it reported their end.

use rosterd_domain::id::{Item, Token};
use rosterd_domain::item::{Record, Running};
use rosterd_domain::view::Job;

use super::{AtRest, Resting};

/// How long a run may be without a live worker, or wait for an instance.
const MOMENT: u64 = 10;

/// Attachments of dead workers.
pub(super) fn of_the_world(rest: &AtRest<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (worker, attachment) in &rest.attachments {
        if !rest.workers.contains(worker) {
            found.push(format!("attachment of {worker}, which is dead (host {})", attachment.host));
        } else if !rest.sessions.contains_key(attachment.session.as_str()) {
            found.push(format!("{worker} is attached to session {}, which has expired", attachment.session));
        }
    }
    found
}

/// Instances and runs of dead workers.
pub(super) fn of_a_job(of: &Resting<'_>) -> Vec<String> {
    let (view, mut found) = (of.view, Vec::new());
    for instance in view.instances.keys().filter(|instance| !of.lives(instance)) {
        found.push(format!("{}: instance {instance} is dead", view.name));
    }
    for (item, (_, record)) in &of.snapshot.records {
        found.extend(run_of_nobody(of, *item, record));
        found.extend(crashed_for_nobody(of, *item, record));
    }
    found
}

fn run_of_nobody(of: &Resting<'_>, item: Item, record: &Record) -> Option<String> {
    let run = record.running()?;
    let (name, Token(token)) = (&of.view.name, record.token);
    let held = of.rest.in_user_code.contains(&(name.to_string(), item.0, token));
    if held || of.rest.now.since(run.since).as_secs() < MOMENT {
        return None;
    }
    let Running { instance, since, .. } = run;
    Some(format!("{name}: item {item}: run {token} on {instance} since {since} is orphaned"))
}

fn crashed_for_nobody(of: &Resting<'_>, item: Item, record: &Record) -> Option<String> {
    let crashed = record.crashed()?;
    let surplus = item.0 >= of.view.rules.items;
    // Without a live instance no coordinator handles the job.
    let somebody = of.is_served() && (surplus || has_room(of.rest, of.view));
    // An earlier run of it, from when the job did not use monitorExecution, may go on.
    let earlier = |token: u64| token < record.token.0;
    let name = of.view.name.to_string();
    let executes =
        of.rest.in_user_code.iter().any(|(job, of, token)| (job, *of) == (&name, item.0) && earlier(*token));
    if !somebody || executes || of.rest.now.since(crashed.since).as_secs() < MOMENT {
        return None;
    }
    let (name, fire, since) = (&of.view.name, crashed.fire, crashed.since);
    Some(format!("{name}: item {item}: the run of {fire} crashed at {since} and is not taken over"))
}

/// Whether an instance that may run items of the job has a free slot: without one a crashed run waits.
fn has_room(rest: &AtRest<'_>, view: &Job) -> bool {
    view.instances.iter().filter(|(instance, _)| view.is_enabled(instance)).any(|(instance, seen)| {
        let slots = seen.node.as_ref().map_or(0, |node| node.slots);
        let records = rest.jobs.values().flat_map(|job| job.records.values());
        let here = |run: &Running| Some(&run.worker) == instance.worker().as_ref();
        let taken = records.filter(|(_, record)| record.running().is_some_and(here)).count();
        taken < slots as usize
    })
}
