//! Operations that people request: each is one transaction, is decided again if the state changes, and is answered once
//! durable.

use std::collections::VecDeque;
use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, JobName, TriggerId};
use rosterd_domain::snapshot::TriggerNode;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Guard, Purpose, Write};
use rosterd_domain::view::Job;
use rosterd_session::code::{Code, Refusal};

use crate::io::cluster_event::{Action, ClusterEvent};
use crate::io::event::{Effect, RequestId};
use crate::io::operation::{ASKED, Change, ChangeEffect, Target};
use crate::job::JobTurn;
use crate::job::changes::{apply, enable, evict_instances, pause, remove, remove_machine, shut_down_machine};
use crate::job::commands::{drain, give_up, stop};
use crate::job::parts::barrier::{Barrier, Passed};
use crate::job::parts::operations::JobOperation;
use crate::job::parts::operations::PendingRequest;
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;
use crate::job::txn::{OperationStep, check_item, guarded};

/// How often an operation is decided again if the state changes.
const MOST_TRIES: u32 = 20;

impl JobTurn<'_> {
    pub(crate) fn reply(&mut self, request: RequestId, name: &JobName, part: Result<Change, Refusal>) {
        let Some(pending) = self.requests.get_mut(&request) else { return };
        if pending.take(name, part)
            && let Some(pending) = self.requests.remove(&request)
        {
            self.io.out.push(Effect::Reply(request, pending.answer()));
        }
    }

    /// Executes the next operation; true if a transaction is in flight.
    pub(crate) fn operations(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let mut waiting = VecDeque::new();
        let mut acts = false;
        while let Some(mut asked) = job.operations.pop_front() {
            // A limited number of times: a record that is missing for good must not hold the removal up.
            let lacks = asked.tries < MOST_TRIES && lacks_records(&asked, job, view);
            if Self::must_look(&asked) || lacks {
                asked.tries += u32::from(asked.informed);
                asked.informed = true;
                job.operations.push_front(asked);
                job.cache.records_went_stale();
                self.schedule.run_queue.insert(name.clone());
                acts = true;
                break;
            }
            if asked.barrier.is_none() && asked.waits_first() {
                asked.barrier = Some(Barrier::before(Target::Job));
            }
            let passed = match &mut asked.barrier {
                None => Passed::Yes(None),
                Some(barrier) => self.passes(name, job, view, barrier),
            };
            let step = match passed {
                Passed::No => {
                    waiting.push_back(asked);
                    continue;
                }
                Passed::Asks(txn) => Ok(OperationStep::Commit(txn, Change::unchanged(""))),
                Passed::Yes(Some(said)) => Ok(OperationStep::Unchanged(said)),
                Passed::Yes(None) => {
                    asked.barrier = None;
                    self.operation(name, job, view, &asked)
                }
            };
            match step {
                Err(refusal) => self.reply(asked.request, name, Err(refusal)),
                Ok(OperationStep::Unchanged(said)) => {
                    if let Some(next) = asked.next(&said, false) {
                        job.operations.push_front(next);
                    } else {
                        self.reply(asked.request, name, Ok(said));
                    }
                }
                Ok(OperationStep::Commit(txn, said)) => {
                    self.submit(name, job, txn, Intent::Operation { asked: Box::new(asked), said });
                    acts = true;
                    break;
                }
            }
        }
        waiting.append(&mut job.operations);
        job.operations = waiting;
        acts
    }

    fn operation(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Arc<Job>,
        asked: &PendingRequest,
    ) -> Result<OperationStep, Refusal> {
        match &asked.operation {
            JobOperation::Apply { spec, dry_run, expected } => {
                apply(job, view, spec, (*dry_run, expected.as_deref()), self.io.now.wall)
            }
            JobOperation::Trigger { items, after_current } => self.trigger(job, view, items, *after_current),
            JobOperation::Pause(paused) => Ok(pause(view, *paused, self.io.now.wall)),
            JobOperation::Enable { target, enabled, .. } => enable(view, target, *enabled, self.io.now.wall),
            JobOperation::Remove { cancel } => {
                remove(job, view, *cancel, self.io.settings.max_records_per_txn)
            }
            JobOperation::Cancel { item } => cancel_item(job, view, *item, self.io.now.wall),
            JobOperation::CancelAll { target, said } => Ok(self.cancel_all(name, job, view, target, said)),
            JobOperation::Drain { instance, grace } => drain(view, instance, *grace),
            JobOperation::Shutdown { instance } => self.shut_down(view, instance),
            JobOperation::ShutdownMachine(machine) => shut_down_machine(view, machine),
            JobOperation::RemoveMachine(machine) => remove_machine(view, machine),
        }
    }

    fn trigger(
        &mut self,
        job: &JobState,
        view: &Job,
        items: &[Item],
        after_current: bool,
    ) -> Result<OperationStep, Refusal> {
        let all: Vec<Item> = (0..view.rules.items).map(Item).collect();
        let items = if items.is_empty() { all } else { items.to_vec() };
        let (name, at) = (view.name.clone(), self.io.now.wall);
        if view.rules.disabled {
            return Err(Refusal::new(Code::Disabled, format!("job {name} is disabled: enable it first")));
        }
        let id =
            TriggerId::new((self.io.ids)()).map_err(|e| Refusal::new(Code::NameInvalid, e.to_string()))?;
        let mut txn = guarded(Purpose::Trigger, view);
        txn.guard(Guard::Generation(name.clone(), view.generation));
        for item in &items {
            check_item(view, *item)?;
            if view.sharding.disabled_items.contains(item) {
                return Err(Refusal::new(
                    Code::Disabled,
                    format!("item {item} of {name} is disabled: enable it first"),
                ));
            }
            if view.triggers.contains_key(item) {
                return Err(Refusal::new(
                    Code::TriggerWaiting,
                    format!("a trigger waits for item {item} of {name} already"),
                ));
            }
            let run = job.cache.record(*item).and_then(|(_, record)| Some((record.token, record.running()?)));
            if let Some((token, run)) = run.filter(|_| !after_current) {
                let message = format!(
                    "item {item} of {name} runs {} of {} (token {token}) on {} since {}: wait, cancel it, or ask for one run after it (--after-current)",
                    run.source, run.fire, run.instance, run.since
                );
                return Err(Refusal::new(Code::RunInFlight, message));
            }
            let node = TriggerNode { id: id.clone(), at };
            txn.write(Write::Trigger { job: name.clone(), item: *item, node });
        }
        let line = format!("triggered {} items as {id}", items.len());
        Ok(OperationStep::Commit(
            txn,
            Change { trigger: Some(id), ..Change::new(ChangeEffect::Requested, line) },
        ))
    }

    fn shut_down(&self, view: &Job, instance: &InstanceId) -> Result<OperationStep, Refusal> {
        let name = &view.name;
        if !view.instances.contains_key(instance) {
            return Err(Refusal::new(
                Code::InstanceUnknown,
                format!("job {name} has no instance {instance}"),
            ));
        }
        // If it is hosted elsewhere, its host finds it deleted and does the rest.
        let mut txn = guarded(Purpose::Shutdown, view);
        evict_instances(&mut txn, view, [instance]);
        let line = format!("{instance} is shut down for this job");
        Ok(OperationStep::Commit(txn, Change::new(ChangeEffect::Requested, line)))
    }

    pub(crate) fn operation_done(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        asked: PendingRequest,
        said: Change,
    ) {
        job.cache.went_stale();
        if asked.barrier.is_some() {
            // Hosts elsewhere have their commands now.
            job.operations.push_back(asked);
            return;
        }
        self.tell_asked(name, &asked, &said);
        if let Some(next) = asked.next(&said, true) {
            // Decided from the current records; its answer is the answer of the request.
            job.operations.push_front(next);
            return;
        }
        if let JobOperation::Shutdown { instance } = &asked.operation {
            self.release_instance(name, job, instance, ASKED);
        }
        self.reply(asked.request, name, Ok(said));
    }

    /// A row for the audit: the request is done, or the workers that it concerns were told.
    fn tell_asked(&mut self, name: &JobName, asked: &PendingRequest, said: &Change) {
        let (job, what, by) = (name.clone(), said.line.clone(), asked.by.clone());
        let action = asked.operation.action(said.effect);
        self.io.out.push(Effect::Publish(match action {
            Action::Cancel | Action::Drain => ClusterEvent::Asked { job: Some(job), action, what, by },
            _ => ClusterEvent::Job { job, action, what, by },
        }));
    }

    /// Cancels the runs of a target, wherever they are: those that are not cancelled yet, a limited number at a time.
    fn cancel_all(
        &self,
        name: &JobName,
        job: &JobState,
        view: &Job,
        target: &Target,
        said: &Change,
    ) -> OperationStep {
        let running = job.cache.records().iter().filter(|(item, (_, record))| {
            record.running().is_some_and(|run| target.has(**item, run) && !run.cancelled)
        });
        let mut txn = guarded(Purpose::Command, view);
        let mut runs = 0;
        for (item, (version, record)) in running.take(self.io.settings.max_records_per_txn) {
            stop(&mut txn, name, *item, *version, record);
            runs += 1;
        }
        match runs {
            0 => OperationStep::Unchanged(said.clone()),
            runs => {
                let line = format!("{runs} runs are asked to stop");
                OperationStep::Commit(txn, Change::new(ChangeEffect::Requested, line))
            }
        }
    }

    /// Whether an operation concerns runs, about which other hosts know more than is known here.
    fn must_look(asked: &PendingRequest) -> bool {
        let about_runs = matches!(
            asked.operation,
            JobOperation::Trigger { .. }
                | JobOperation::Remove { .. }
                | JobOperation::Cancel { .. }
                | JobOperation::CancelAll { .. }
                | JobOperation::Apply { .. }
        );
        // Even if no other coordinator is known: a new one is noticed later than its writes.
        (about_runs || asked.barrier.is_some()) && !asked.informed
    }

    pub(crate) fn operation_not_done(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        intent: Intent,
        commit: &Commit,
    ) {
        let Intent::Operation { asked, .. } = intent else { return };
        let mut asked = *asked;
        match commit {
            Commit::Conflict(_) if asked.tries < MOST_TRIES => {
                asked.tries += 1;
                asked.informed = true;
                asked.barrier = asked.barrier.map(Barrier::anew);
                job.operations.push_front(asked);
            }
            Commit::Conflict(what) => {
                let refusal = Refusal::new(
                    Code::Contended,
                    format!("things changed again and again under the request ({what}): repeat it"),
                );
                self.reply(asked.request, name, Err(refusal));
            }
            Commit::TooLarge(why) => {
                self.reply(asked.request, name, Err(Refusal::new(Code::MessageTooLarge, why.clone())));
            }
            Commit::Unavailable(why) => {
                self.reply(asked.request, name, Err(Refusal::new(Code::StoreUnavailable, why.clone())));
            }
            _ => {
                let refusal = Refusal::new(
                    Code::OutcomeUnknown,
                    "the store did not answer: look whether the change was made before you repeat it",
                );
                self.reply(asked.request, name, Err(refusal));
            }
        }
    }
}

/// Whether a removal does not know the record of an item that has an owner. Such a record was written before the
/// assignment, and a removal must be guarded by it: its runs would otherwise start after the removal.
fn lacks_records(asked: &PendingRequest, job: &JobState, view: &Job) -> bool {
    let is_owned = |item: &Item| view.sharding.owner(*item).is_some();
    let mut owned = (0..view.sharding.items()).map(Item).filter(is_owned);
    matches!(asked.operation, JobOperation::Remove { .. })
        && owned.any(|item| job.cache.record(item).is_none())
}

/// Cancels the run of one item. If it crashed and waits for failover, it is given up.
fn cancel_item(job: &JobState, view: &Job, item: Item, now: Time) -> Result<OperationStep, Refusal> {
    check_item(view, item)?;
    let (name, mut txn) = (&view.name, guarded(Purpose::Command, view));
    let said = match job.cache.record(item) {
        Some((version, record)) if record.running().is_some() => {
            stop(&mut txn, name, item, *version, record);
            let instance = record.running().map(|run| run.instance.to_string()).unwrap_or_default();
            format!("item {item}: run {} on {instance} is asked to stop", record.token)
        }
        Some((version, record)) if record.crashed().is_some() => {
            give_up(&mut txn, name, item, *version, record, now);
            format!("item {item}: run {} has crashed, and is not run again", record.token)
        }
        _ => return Err(Refusal::new(Code::RunUnknown, format!("item {item} of {name} is not running"))),
    };
    Ok(OperationStep::Commit(txn, Change::new(ChangeEffect::Requested, said)))
}
