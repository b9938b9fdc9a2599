//! The transactions of operations, as plain functions of the job's current state: each returns one transaction, and
//! what it changes. A change that takes a right away rewrites `sharding` in it.

use std::collections::BTreeMap;

use rosterd_domain::id::{InstanceId, Item, JobName, ServerAddress};
use rosterd_domain::item::{Missed, Source};
use rosterd_domain::job::JobSpec;
use rosterd_domain::sharding::{Gap, Sharding, Stated};
use rosterd_domain::snapshot::{Announced, Command, Stage};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Guard, Purpose, Txn, Write};
use rosterd_domain::view::Job;
use rosterd_domain::{job, mutants};
use rosterd_session::code::{Code, Refusal};

use crate::io::operation::{Change, ChangeEffect, FieldChange, Target};
use crate::job::commands::{named, nobody_is_asked_to_leave};
use crate::job::parts::cache::Torn;
use crate::job::state::JobState;
use crate::job::txn::{OperationStep, check_item, guarded, rewrite};

/// Adds the removal of instances that will not come back: their items are reassigned without waiting for them. Their
/// workers may be moving to other hosts, which find the commands and tell them.
pub(crate) fn evict_instances<'a>(
    txn: &mut Txn,
    view: &Job,
    instances: impl IntoIterator<Item = &'a InstanceId>,
) {
    let mut sharding = view.sharding.clone();
    for instance in instances {
        txn.write(Write::RemoveInstance(view.name.clone(), instance.clone()));
        let told = named("shutdown", instance);
        if let Some(name) = told.filter(|_| !mutants::is_on(mutants::SHUTDOWNS_ARE_ONLY_SAID)) {
            let command = Command::Shutdown { instance: instance.clone() };
            txn.write(Write::Command { job: view.name.clone(), name, command });
        }
        sharding = sharding.without(instance);
    }
    rewrite(txn, view, &sharding);
    txn.write(Write::RaiseNecessary(view.name.clone()));
}

pub(crate) fn apply(
    job: &JobState,
    view: &Job,
    spec: &JobSpec,
    (dry_run, expected): (bool, Option<&JobSpec>),
    now: Time,
) -> Result<OperationStep, Refusal> {
    let warnings = spec.notes();
    match change(job, view, spec, now)? {
        // Even if this very change was applied before, and its answer was lost.
        None => Ok(OperationStep::Unchanged(Change::unchanged("unchanged").warning(warnings))),
        Some(_) if expected.is_some_and(|expected| *expected != *view.spec) => {
            Err(other_than_expected(&view.name))
        }
        Some((_, fields)) if dry_run => {
            let line = format!("would change {}", names(&fields));
            Ok(OperationStep::Unchanged(Change {
                fields,
                warnings,
                ..Change::new(ChangeEffect::WouldChange, line)
            }))
        }
        Some((txn, fields)) => {
            let line = format!("changed {}", names(&fields));
            Ok(OperationStep::Commit(
                txn,
                Change { fields, warnings, ..Change::new(ChangeEffect::Changed, line) },
            ))
        }
    }
}

/// The refusal if the job was changed meanwhile.
pub(crate) fn other_than_expected(name: &JobName) -> Refusal {
    let what = format!("job {name} is not as it was when it was read: read it again, and change that");
    Refusal::new(Code::ConfigChanged, what)
}

/// The names of fields, for a line.
pub(crate) fn names(fields: &[FieldChange]) -> String {
    fields.iter().map(|change| change.field.as_str()).collect::<Vec<_>>().join(", ")
}

/// The time up to which all scheduled times of the job are accounted for, as far as the cache knows.
fn settled(job: &JobState, view: &Job) -> Time {
    // Records of surplus items count: their items may come back.
    let known = job.cache.records().values().map(|(_, record)| record.last_fire).min();
    let all = (0..view.rules.items).all(|item| job.cache.records().contains_key(&Item(item)));
    known.filter(|_| all).unwrap_or(Time(i64::MIN))
}

/// The job after `spec` has replaced it.
pub(crate) fn replaced_by(view: &Job, spec: &JobSpec) -> Result<JobSpec, Refusal> {
    let invalid = |e: job::Defects| Refusal::new(Code::ConfigInvalid, e.to_string());
    let config = spec.config().replacing(view.spec.config()).map_err(invalid)?;
    let policy = spec.policy().replacing(view.spec.policy());
    JobSpec::new(config, policy, spec.handler()).map_err(invalid)
}

/// The transaction that changes the job to `spec`; `None` if there is nothing to change.
pub(crate) fn change(
    job: &JobState,
    view: &Job,
    spec: &JobSpec,
    now: Time,
) -> Result<Option<(Txn, Vec<FieldChange>)>, Refusal> {
    let next = replaced_by(view, spec)?;
    let changes = job::diff(&view.spec, &next);
    if changes.is_empty() {
        return Ok(None);
    }
    if next.handler() != view.spec.handler() && !view.instances.is_empty() {
        let message = format!(
            "handler {:?} of job {} is not the registered {:?}, and {} instances run that one: stop them first",
            next.handler(),
            view.name,
            view.spec.handler(),
            view.instances.len()
        );
        return Err(Refusal::new(Code::HandlerConflict, message));
    }
    let (old, new) = (view.spec.config(), next.config());
    let (was, is) = (Stated::by(old), Stated::by(new));
    let same_gap = view.spec.policy().gap == next.policy().gap;
    let sharding = after(job, view, &was, &is, same_gap, now);
    let mut txn = guarded(Purpose::Apply, view);
    txn.guard(Guard::Config(view.name.clone(), view.config_version));
    txn.write(Write::Config(view.name.clone(), new.to_json().into()));
    txn.write(Write::Policy(view.name.clone(), next.policy().to_json().into()));
    if next.handler() != view.spec.handler() {
        txn.write(Write::HandlerType(view.name.clone(), next.handler().into()));
    }
    rewrite(&mut txn, view, &sharding);
    switched_off(&mut txn, job, view, &was, &is);
    let (was, is) = (&view.spec.policy().guarantee, &next.policy().guarantee);
    if is.completed && !was.completed {
        // Fires that completed before are not announced.
        let announced = Announced { fire: now, answered: true, ..Announced::default() };
        let (job, stage) = (view.name.clone(), Stage::Completed);
        txn.write(Write::Announced { job, stage, announced: Box::new(announced) });
    }
    if old.sharding_total_count != new.sharding_total_count || view.spec.strategy() != next.strategy() {
        txn.write(Write::RaiseNecessary(view.name.clone()));
    }
    Ok(Some((txn, changes)))
}

/// The transaction that adopts what another tool has written into `config`, as if it had been applied; `None` if there
/// is nothing to adopt. Without it a new schedule would also apply to the time before it, whose scheduled times would
/// then count as late.
pub(crate) fn restated(job: &JobState, view: &Job, now: Time) -> Option<Txn> {
    let config = view.spec.config();
    let was = view.sharding.stated.as_ref().filter(|stated| !stated.is_by(config))?;
    // A disable that keeps the generation does not write the rights either.
    let kept = mutants::is_on(mutants::DISABLE_KEEPS_GENERATION);
    if kept || mutants::is_on(mutants::FOREIGN_CONFIG_UNNOTICED) {
        return None;
    }
    let is = Stated::by(config);
    let mut txn = guarded(Purpose::ForeignConfig, view);
    txn.guard(Guard::Config(view.name.clone(), view.config_version));
    rewrite(&mut txn, view, &after(job, view, was, &is, true, now));
    switched_off(&mut txn, job, view, was, &is);
    if was.items != is.items {
        txn.write(Write::RaiseNecessary(view.name.clone()));
    }
    Some(txn)
}

/// The rights after the change to `is`: each scheduled time belongs to the schedule that was in force then.
fn after(job: &JobState, view: &Job, was: &Stated, is: &Stated, same_gap: bool, now: Time) -> Sharding {
    let mut sharding = view.sharding.withdrawn();
    if was.schedule != is.schedule || !same_gap {
        sharding = sharding.with_floor(now, was.schedule.clone(), settled(job, view));
    }
    if was.disabled && !is.disabled {
        sharding.gap = Some(Gap { until: now, reason: Missed::Disabled });
    }
    if is.items > was.items {
        sharding = sharding.raised(Item(was.items), now);
    }
    sharding.stated = Some(is.clone());
    sharding
}

/// Removes the mirrors of monitoring and failover if these are switched off; runs in flight continue.
fn switched_off(txn: &mut Txn, job: &JobState, view: &Job, was: &Stated, is: &Stated) {
    let name = &view.name;
    let unmonitored = was.monitor && !is.monitor;
    let no_failover = was.failover && !(is.failover && is.monitor);
    for (item, (_, record)) in job.cache.records() {
        let (job, item) = (name.clone(), *item);
        if record.running().is_some() && unmonitored {
            txn.write(Write::Running { job: job.clone(), item, instance: None });
        }
        if record.running().is_some_and(|run| run.source == Source::Failover) && no_failover {
            txn.write(Write::Failover { job: job.clone(), item, instance: None });
        }
        if record.crashed().is_some() && no_failover {
            txn.write(Write::FailoverItem { job, item, crashed: None });
        }
    }
}

pub(crate) fn pause(view: &Job, paused: bool, now: Time) -> OperationStep {
    if view.paused == paused {
        return OperationStep::Unchanged(Change::unchanged(if paused {
            "is paused already"
        } else {
            "is not paused"
        }));
    }
    let mut sharding = view.sharding.withdrawn();
    if !paused {
        sharding.gap = Some(Gap { until: now, reason: Missed::Paused });
    }
    let mut txn = guarded(Purpose::Pause, view);
    txn.write(Write::Paused(view.name.clone(), paused));
    if !paused || !mutants::is_on(mutants::PAUSE_KEEPS_GENERATION) {
        rewrite(&mut txn, view, &sharding);
    }
    OperationStep::Commit(txn, Change::new(ChangeEffect::Changed, if paused { "paused" } else { "resumed" }))
}

pub(crate) fn enable(
    view: &Job,
    target: &Target,
    enabled: bool,
    now: Time,
) -> Result<OperationStep, Refusal> {
    let (name, word) = (view.name.clone(), if enabled { "enabled" } else { "disabled" });
    let mut sharding = view.sharding.withdrawn();
    let mut txn = guarded(if enabled { Purpose::Enable } else { Purpose::Disable }, view);
    let gap = Gap { until: now, reason: Missed::Disabled };
    let said = match target {
        Target::Job if view.rules.disabled != enabled => {
            return Ok(OperationStep::Unchanged(Change::unchanged(format!("is {word} already"))));
        }
        Target::Job => {
            let config = view.spec.config().edit(|fields| fields.disabled = !enabled);
            let config = config.map_err(|e| Refusal::new(Code::ConfigInvalid, e.to_string()))?;
            txn.guard(Guard::Config(name.clone(), view.config_version));
            txn.write(Write::Config(name.clone(), config.to_json().into()));
            sharding.stated = Some(Stated::by(&config));
            sharding.gap = enabled.then_some(gap).or(sharding.gap);
            word.to_string()
        }
        Target::Item(item) => {
            check_item(view, *item)?;
            if enabled {
                sharding.disabled_items.remove(item);
                sharding.gaps.insert(*item, gap);
            } else {
                sharding.disabled_items.insert(*item);
            }
            txn.write(Write::ItemDisabled { job: name, item: *item, disabled: !enabled });
            format!("item {item} {word}")
        }
        Target::Machine(server) => {
            check_machine(view, server)?;
            txn.write(Write::Server { job: name.clone(), server: server.clone(), enabled: Some(enabled) });
            txn.write(Write::RaiseNecessary(name));
            format!("machine {server} {word}")
        }
        Target::Instance(instance) => {
            if !view.instances.contains_key(instance) {
                return Err(Refusal::new(
                    Code::InstanceUnknown,
                    format!("job {name} has no instance {instance}"),
                ));
            }
            if enabled {
                sharding.disabled_instances.remove(instance);
            } else {
                sharding.disabled_instances.insert(instance.clone());
            }
            txn.write(Write::RaiseNecessary(name));
            format!("instance {instance} {word}")
        }
    };
    if enabled || !mutants::is_on(mutants::DISABLE_KEEPS_GENERATION) {
        rewrite(&mut txn, view, &sharding);
    }
    Ok(OperationStep::Commit(txn, Change::new(ChangeEffect::Changed, said)))
}

/// Shuts down every instance on a machine. Their hosts find the commands and tell the workers.
pub(crate) fn shut_down_machine(view: &Job, machine: &ServerAddress) -> Result<OperationStep, Refusal> {
    check_machine(view, machine)?;
    let instances: Vec<&InstanceId> = instances_on(view, machine).collect();
    if instances.is_empty() {
        return Ok(OperationStep::Unchanged(Change::unchanged(format!("machine {machine} has no instance"))));
    }
    let mut txn = guarded(Purpose::Shutdown, view);
    evict_instances(&mut txn, view, instances.iter().copied());
    let line = format!("machine {machine}: {} instances are shut down for this job", instances.len());
    Ok(OperationStep::Commit(txn, Change::new(ChangeEffect::Requested, line)))
}

/// Removes a machine. If it comes back it is registered again, and enabled.
pub(crate) fn remove_machine(view: &Job, machine: &ServerAddress) -> Result<OperationStep, Refusal> {
    check_machine(view, machine)?;
    let instances = instances_on(view, machine).count();
    if instances > 0 {
        let message = format!(
            "machine {machine} has {instances} instances of job {}: shut them down first (rosterd machines shutdown {machine})",
            view.name
        );
        return Err(Refusal::new(Code::MachineInUse, message));
    }
    let mut txn = guarded(Purpose::RemoveMachine, view);
    txn.write(Write::RemoveServer(view.name.clone(), machine.clone()));
    Ok(OperationStep::Commit(txn, Change::new(ChangeEffect::Changed, format!("machine {machine} removed"))))
}

fn instances_on<'a>(view: &'a Job, machine: &'a ServerAddress) -> impl Iterator<Item = &'a InstanceId> {
    view.instances.keys().filter(|instance| instance.address() == machine.as_str())
}

fn check_machine(view: &Job, machine: &ServerAddress) -> Result<(), Refusal> {
    if view.servers.contains_key(machine) {
        return Ok(());
    }
    Err(Refusal::new(Code::MachineUnknown, format!("job {} has no machine \"{machine}\"", view.name)))
}

/// Without `cancel` no run may be in flight, and none may have started since the records were read. The number of
/// records in one transaction is limited: in a larger job, a run that starts at this very moment is fenced.
pub(crate) fn remove(
    job: &JobState,
    view: &Job,
    cancel: bool,
    most: usize,
) -> Result<OperationStep, Refusal> {
    let running: BTreeMap<Item, &InstanceId> = job
        .cache
        .records()
        .iter()
        .filter_map(|(item, (_, record))| Some((*item, &record.running()?.instance)))
        .collect();
    if let Some((item, instance)) = running.first_key_value().filter(|_| !cancel) {
        let message = format!(
            "{} runs of job {} are in flight (item {item} on {instance}): wait, or remove it with --cancel",
            running.len(),
            view.name
        );
        return Err(Refusal::new(Code::RunInFlight, message));
    }
    nobody_is_asked_to_leave(view)?;
    let mut txn = guarded(Purpose::Remove, view);
    if job.cache.records().len() <= most && !mutants::is_on(mutants::REMOVAL_IGNORES_RECORDS) {
        for (item, (version, _)) in job.cache.records() {
            txn.guard(Guard::Record(view.name.clone(), *item, *version));
        }
    }
    rewrite(&mut txn, view, &view.sharding.withdrawn());
    txn.write(Write::EndJob(view.name.clone()));
    Ok(OperationStep::Commit(txn, Change::new(ChangeEffect::Removed, "removed")))
}

/// Removes a job that cannot be decoded, whatever is running.
pub(crate) fn remove_torn(name: &JobName, torn: &Torn) -> OperationStep {
    let mut txn = Txn::new(Purpose::Remove);
    txn.guard(Guard::Incarnation(name.clone(), torn.incarnation.clone()));
    txn.write(Write::EndJob(name.clone()));
    OperationStep::Commit(txn, Change::new(ChangeEffect::Removed, "removed (it could not be understood)"))
}

/// Replaces a job that cannot be decoded by `spec`. Scheduled times until now are counted as missed.
pub(crate) fn mend(name: &JobName, torn: &Torn, spec: &JobSpec, now: Time) -> OperationStep {
    let known = Sharding::decode(&torn.assignment);
    let mut sharding = known.map_or_else(|_| Sharding::made_at(now), |known| known.withdrawn());
    sharding.gap = Some(Gap { until: now, reason: Missed::Disabled });
    sharding.stated = Some(Stated::by(spec.config()));
    let mut txn = Txn::new(Purpose::Apply);
    txn.guard(Guard::Incarnation(name.clone(), torn.incarnation.clone()));
    txn.guard(Guard::Config(name.clone(), torn.config_version));
    txn.write(Write::Config(name.clone(), spec.config().to_json().into()));
    txn.write(Write::Policy(name.clone(), spec.policy().to_json().into()));
    txn.write(Write::HandlerType(name.clone(), spec.handler().into()));
    let data = sharding.encode().into();
    txn.write(Write::Assignment { job: name.clone(), expect: torn.generation, data });
    txn.write(Write::RaiseNecessary(name.clone()));
    OperationStep::Commit(txn, Change::new(ChangeEffect::Changed, "changed what could not be understood"))
}
