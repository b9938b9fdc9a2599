//! What people ask for: each operation is one transaction, decided again when things change under it, and
//! answered once durable.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, JobName, ServerAddress, TriggerId};
use rosterd_domain::job::JobSpec;
use rosterd_domain::snapshot::TriggerNode;
use rosterd_domain::time::Time;
use rosterd_domain::txn::Write;
use rosterd_domain::txn::{Commit, Guard, Purpose};
use rosterd_domain::view::Job;

use super::barrier::{Barrier, Passed};
use super::change::{
    Step, apply, check_item, enable, evict_instances, guarded, pause, remove, remove_machine,
    shut_down_machine,
};
use super::command::{give_up, stop};
use super::drain::drain;
use super::event::{Effect, RequestId};
use super::handle::{Action, Change, ChangeEffect, Done, Happening, MachineAction, Operation, Target};
use super::job::{Asked, Intent, JobOperation, JobState};
use super::node::Node;
use rosterd_session::code::{Code, Refusal};

/// How often an operation is decided again when things change under it.
const MOST_TRIES: u32 = 20;

/// Why a worker is told to stop something.
pub(super) const ASKED: &str = "an operator asked for it";

/// A request that waits for its parts.
#[derive(Debug, Default)]
pub(super) struct Pending {
    left: usize,
    done: Done,
    /// Why jobs were left as they are.
    refusals: Vec<(JobName, Refusal)>,
    /// The place of each job in the request, where there are several.
    places: BTreeMap<JobName, usize>,
    /// A job that refuses is a change like the others, rather than the answer.
    partial: bool,
}

impl Pending {
    /// The answer, in the order of the request. Of several refusals the first has the code.
    fn answer(mut self) -> Result<Done, Refusal> {
        let place = |name: &JobName| self.places.get(name).copied();
        self.refusals.sort_by_key(|(name, _)| place(name));
        self.done.changes.sort_by_key(|(name, _)| place(name));
        let code = self.refusals.first().map(|(_, refusal)| refusal.code);
        let messages: Vec<String> = self.refusals.into_iter().map(|(_, refusal)| refusal.message).collect();
        code.map_or(Ok(self.done), |code| Err(Refusal::new(code, messages.join("\n"))))
    }
}

impl Node {
    pub(super) fn operate(&mut self, request: RequestId, operation: Operation, by: Option<Arc<str>>) {
        if self.stopping {
            let refusal = Refusal::new(Code::Draining, "this coordinator is stopping: ask another one");
            return self.out.push(Effect::Reply(request, Err(refusal)));
        }
        let (job, operation) = match operation {
            Operation::Apply { specs, dry_run, expected } => {
                return self.apply_jobs(request, specs, (dry_run, expected), by);
            }
            Operation::Drain { instance, grace } => {
                return self.drain_instance(request, &instance, grace, by);
            }
            Operation::Machine { machine, jobs, action } => {
                return self.on_machine(request, &machine, jobs, action, by);
            }
            Operation::Trigger { job, items, after_current } => {
                (job, JobOperation::Trigger { items, after_current })
            }
            Operation::Pause { job, paused } => (job, JobOperation::Pause(paused)),
            Operation::Enable { job, target, enabled, cancel } => {
                (job, JobOperation::Enable { target, enabled, cancel })
            }
            Operation::Remove { job, cancel } => (job, JobOperation::Remove { cancel }),
            Operation::Cancel { job, item } => (job, JobOperation::Cancel { item }),
            Operation::Shutdown { job, instance } => (job, JobOperation::Shutdown { instance }),
        };
        self.requests.insert(request, Pending { left: 1, ..Pending::default() });
        self.ask(request, by, job, operation);
    }

    fn ask(&mut self, request: RequestId, by: Option<Arc<str>>, name: JobName, operation: JobOperation) {
        let job = self.jobs.entry(name.clone()).or_default();
        job.operations.push_back(Asked { request, by, operation, tries: 0, informed: false, barrier: None });
        self.run_queue.insert(name);
    }

    fn apply_jobs(
        &mut self,
        request: RequestId,
        specs: Vec<JobSpec>,
        (dry_run, expected): (bool, Option<Box<JobSpec>>),
        by: Option<Arc<str>>,
    ) {
        if specs.is_empty() {
            let why = "there is no job to apply: name at least one";
            return self.out.push(Effect::Reply(request, Err(Refusal::new(Code::ConfigInvalid, why))));
        }
        let names = specs.iter().map(|spec| spec.config().job_name.clone());
        let places = names.enumerate().map(|(place, name)| (name, place)).collect();
        self.requests.insert(request, Pending { left: specs.len(), places, ..Pending::default() });
        for spec in specs {
            let name = spec.config().job_name.clone();
            let (spec, expected) = (Box::new(spec), expected.clone());
            self.ask(request, by.clone(), name, JobOperation::Apply { spec, dry_run, expected });
        }
    }

    /// Asks each of the jobs for its part.
    fn on_machine(
        &mut self,
        request: RequestId,
        machine: &ServerAddress,
        jobs: Vec<JobName>,
        action: MachineAction,
        by: Option<Arc<str>>,
    ) {
        if jobs.is_empty() {
            let why = format!("no job has a machine \"{machine}\": see rosterd machines");
            return self.out.push(Effect::Reply(request, Err(Refusal::new(Code::MachineUnknown, why))));
        }
        let places = jobs.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
        self.requests
            .insert(request, Pending { left: jobs.len(), places, partial: true, ..Pending::default() });
        for name in jobs {
            let operation = match action {
                MachineAction::Enable { enabled, cancel } => {
                    JobOperation::Enable { target: Target::Machine(machine.clone()), enabled, cancel }
                }
                MachineAction::Shutdown => JobOperation::ShutdownMachine(machine.clone()),
                MachineAction::Remove => JobOperation::RemoveMachine(machine.clone()),
            };
            self.ask(request, by.clone(), name, operation);
        }
    }

    /// Asks one job alone.
    pub(super) fn ask_alone(
        &mut self,
        request: RequestId,
        by: Option<Arc<str>>,
        name: JobName,
        operation: JobOperation,
    ) {
        self.requests.insert(request, Pending { left: 1, ..Pending::default() });
        self.ask(request, by, name, operation);
    }

    pub(super) fn reply(&mut self, request: RequestId, name: &JobName, part: Result<Change, Refusal>) {
        let Some(pending) = self.requests.get_mut(&request) else { return };
        match part {
            Ok(change) => pending.done.changes.push((name.clone(), change)),
            Err(Refusal { code, message }) if pending.partial => {
                pending.done.changes.push((name.clone(), Change::new(ChangeEffect::Refused(code), message)));
            }
            Err(refusal) => pending.refusals.push((name.clone(), refusal)),
        }
        pending.left = pending.left.saturating_sub(1);
        if pending.left == 0
            && let Some(pending) = self.requests.remove(&request)
        {
            self.out.push(Effect::Reply(request, pending.answer()));
        }
    }

    /// Carries out the next operation; true when a transaction is under way.
    pub(super) fn operations(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let mut waiting = VecDeque::new();
        let mut acts = false;
        while let Some(mut asked) = job.operations.pop_front() {
            if Self::must_look(&asked) {
                asked.informed = true;
                job.operations.push_front(asked);
                job.stale_records = true;
                self.run_queue.insert(name.clone());
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
                Passed::Asks(txn) => Ok(Step::Commit(txn, Change::unchanged(""))),
                Passed::Yes(Some(said)) => Ok(Step::Said(said)),
                Passed::Yes(None) => {
                    asked.barrier = None;
                    self.operation(name, job, view, &asked)
                }
            };
            match step {
                Err(refusal) => self.reply(asked.request, name, Err(refusal)),
                Ok(Step::Said(said)) => {
                    if let Some(next) = asked.next(&said, false) {
                        job.operations.push_front(next);
                    } else {
                        self.reply(asked.request, name, Ok(said));
                    }
                }
                Ok(Step::Commit(txn, said)) => {
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
        asked: &Asked,
    ) -> Result<Step, Refusal> {
        match &asked.operation {
            JobOperation::Apply { spec, dry_run, expected } => {
                apply(job, view, spec, (*dry_run, expected.as_deref()), self.now.wall)
            }
            JobOperation::Trigger { items, after_current } => self.trigger(job, view, items, *after_current),
            JobOperation::Pause(paused) => Ok(pause(view, *paused, self.now.wall)),
            JobOperation::Enable { target, enabled, .. } => enable(view, target, *enabled, self.now.wall),
            JobOperation::Remove { cancel } => remove(job, view, *cancel, self.settings.max_records_per_txn),
            JobOperation::Cancel { item } => cancel_item(job, view, *item, self.now.wall),
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
    ) -> Result<Step, Refusal> {
        let all: Vec<Item> = (0..view.rules.items).map(Item).collect();
        let items = if items.is_empty() { all } else { items.to_vec() };
        let (name, at) = (view.name.clone(), self.now.wall);
        if view.rules.disabled {
            return Err(Refusal::new(Code::Disabled, format!("job {name} is disabled: enable it first")));
        }
        let id = TriggerId::new((self.ids)()).map_err(|e| Refusal::new(Code::NameInvalid, e.to_string()))?;
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
            let run = job.records.get(item).and_then(|(_, record)| Some((record.token, record.running()?)));
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
        Ok(Step::Commit(txn, Change { trigger: Some(id), ..Change::new(ChangeEffect::Requested, line) }))
    }

    fn shut_down(&self, view: &Job, instance: &InstanceId) -> Result<Step, Refusal> {
        let name = &view.name;
        if !view.instances.contains_key(instance) {
            return Err(Refusal::new(
                Code::InstanceUnknown,
                format!("job {name} has no instance {instance}"),
            ));
        }
        // Where it is hosted elsewhere, its host finds it deleted and does the rest.
        let mut txn = guarded(Purpose::Shutdown, view);
        evict_instances(&mut txn, view, [instance]);
        let line = format!("{instance} is shut down for this job");
        Ok(Step::Commit(txn, Change::new(ChangeEffect::Requested, line)))
    }

    pub(super) fn operation_done(&mut self, name: &JobName, job: &mut JobState, asked: Asked, said: Change) {
        job.stale = true;
        if asked.barrier.is_some() {
            // Hosts elsewhere are asked now.
            job.operations.push_back(asked);
            return;
        }
        self.tell_asked(name, &asked, &said);
        if let Some(next) = asked.next(&said, true) {
            // Decided from the records as they are now; it is what is answered.
            job.operations.push_front(next);
            return;
        }
        if let JobOperation::Shutdown { instance } = &asked.operation {
            self.release_instance(name, job, instance, ASKED);
        }
        self.reply(asked.request, name, Ok(said));
    }

    /// A line for the audit: what was asked for is done, or those whom it concerns were told.
    fn tell_asked(&mut self, name: &JobName, asked: &Asked, said: &Change) {
        let (job, what, by) = (name.clone(), said.line.clone(), asked.by.clone());
        let action = asked.operation.action(said.effect);
        self.out.push(Effect::Tell(match action {
            Action::Cancel | Action::Drain => Happening::Asked { job: Some(job), action, what, by },
            _ => Happening::Job { job, action, what, by },
        }));
    }

    /// Stops the runs of a target, wherever they are: those that are not asked to, so many at a time.
    fn cancel_all(&self, name: &JobName, job: &JobState, view: &Job, target: &Target, said: &Change) -> Step {
        let running = job.records.iter().filter(|(item, (_, record))| {
            record.running().is_some_and(|run| target.has(**item, run) && !run.cancelled)
        });
        let mut txn = guarded(Purpose::Command, view);
        let mut runs = 0;
        for (item, (version, record)) in running.take(self.settings.max_records_per_txn) {
            stop(&mut txn, name, *item, *version, record);
            runs += 1;
        }
        match runs {
            0 => Step::Said(said.clone()),
            runs => {
                let line = format!("{runs} runs are asked to stop");
                Step::Commit(txn, Change::new(ChangeEffect::Requested, line))
            }
        }
    }

    /// Whether an operation is about runs, of which other hosts know more than is known here.
    fn must_look(asked: &Asked) -> bool {
        let about_runs = matches!(
            asked.operation,
            JobOperation::Trigger { .. }
                | JobOperation::Remove { .. }
                | JobOperation::Cancel { .. }
                | JobOperation::CancelAll { .. }
                | JobOperation::Apply { .. }
        );
        // Also where no other coordinator is known: one that comes is seen later than what it writes.
        (about_runs || asked.barrier.is_some()) && !asked.informed
    }

    pub(super) fn operation_not_done(
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

/// Asks for the run of one item to be stopped. One that crashed and waits to be run again is given up.
fn cancel_item(job: &JobState, view: &Job, item: Item, now: Time) -> Result<Step, Refusal> {
    check_item(view, item)?;
    let (name, mut txn) = (&view.name, guarded(Purpose::Command, view));
    let said = match job.records.get(&item) {
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
    Ok(Step::Commit(txn, Change::new(ChangeEffect::Requested, said)))
}
