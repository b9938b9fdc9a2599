//! What people ask for, and registrations. Each operation is one transaction; whatever takes a right away
//! rewrites `sharding` in it, so that what was decided before is refused. Answered once durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, JobName, Token, TriggerId};
use rosterd_domain::item::Missed;
use rosterd_domain::job::{self, JobSpec};
use rosterd_domain::sharding::{Gap, Sharding};
use rosterd_domain::snapshot::TriggerNode;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Guard, Txn, Write};
use rosterd_domain::view::{self, Job};

use super::dispatch;
use super::event::{Effect, RequestId};
use super::handle::{Done, Happening, Operation, Target};
use super::job::{Asked, Intent, JobOperation, JobState, Registering};
use super::node::Node;
use crate::code::{Code, Refusal};
use crate::session::frame::{CancelReason, RunRef, ToWorker};

/// How often an operation is decided again when things change under it.
const MOST_TRIES: u32 = 20;

/// A request that waits for its parts.
#[derive(Debug, Default)]
pub(super) struct Pending {
    left: usize,
    done: Done,
    refusal: Option<Refusal>,
}

impl Node {
    pub(super) fn operate(&mut self, request: RequestId, operation: Operation) {
        if self.stopping {
            let refusal = Refusal::new(Code::Draining, "this coordinator is stopping: ask another one");
            return self.out.push(Effect::Reply(request, Err(refusal)));
        }
        let (job, operation) = match operation {
            Operation::Apply { text, dry_run } => return self.apply_file(request, &text, dry_run),
            Operation::Drain { instance, grace } => return self.drain_instance(request, &instance, grace),
            Operation::Trigger { job, items, after_current } => (job, JobOperation::Trigger { items, after_current }),
            Operation::Pause { job, paused } => (job, JobOperation::Pause(paused)),
            Operation::Enable { job, target, enabled, cancel } => (job, JobOperation::Enable { target, enabled, cancel }),
            Operation::Remove { job, cancel } => (job, JobOperation::Remove { cancel }),
            Operation::Cancel { job, item } => (job, JobOperation::Cancel { item }),
            Operation::Shutdown { job, instance } => (job, JobOperation::Shutdown { instance }),
        };
        self.requests.insert(request, Pending { left: 1, ..Pending::default() });
        self.ask(request, job, operation);
    }

    fn ask(&mut self, request: RequestId, name: JobName, operation: JobOperation) {
        let job = self.jobs.entry(name.clone()).or_default();
        job.operations.push_back(Asked { request, operation, tries: 0 });
        self.dirty.insert(name);
    }

    fn apply_file(&mut self, request: RequestId, text: &str, dry_run: bool) {
        let specs = match job::parse_file(text.as_bytes()).and_then(|specs| {
            specs.iter().try_for_each(view::validate)?;
            Ok(specs)
        }) {
            Ok(specs) => specs,
            Err(defects) => {
                let refusal = Refusal::new(Code::ConfigInvalid, defects.to_string());
                return self.out.push(Effect::Reply(request, Err(refusal)));
            }
        };
        if specs.is_empty() {
            let refusal = Refusal::new(Code::ConfigInvalid, "the file holds no job: it needs at least jobName and shardingTotalCount");
            return self.out.push(Effect::Reply(request, Err(refusal)));
        }
        self.requests.insert(request, Pending { left: specs.len(), ..Pending::default() });
        for spec in specs {
            let name = spec.config().job_name.clone();
            self.ask(request, name, JobOperation::Apply { spec: Box::new(spec), dry_run });
        }
    }

    fn drain_instance(&mut self, request: RequestId, instance: &InstanceId, grace: std::time::Duration) {
        let stream = self.workers.values().find(|worker| worker.instance == *instance).and_then(|worker| worker.stream);
        let reply = match stream {
            None => Err(Refusal::new(Code::InstanceUnknown, format!("instance {instance} has no stream at this coordinator"))),
            Some(stream) => {
                self.send(stream, ToWorker::Drain { message: "an operator asked for it".into(), grace });
                Ok(Done::default())
            }
        };
        self.out.push(Effect::Reply(request, reply));
    }

    pub(super) fn reply(&mut self, request: RequestId, name: &JobName, part: Result<(String, Option<String>), Refusal>) {
        let Some(pending) = self.requests.get_mut(&request) else { return };
        match part {
            Ok((line, trigger)) => {
                pending.done.lines.push((name.clone(), line));
                pending.done.trigger = trigger;
            }
            Err(refusal) => pending.refusal = Some(refusal),
        }
        pending.left = pending.left.saturating_sub(1);
        if pending.left == 0
            && let Some(pending) = self.requests.remove(&request)
        {
            let reply = pending.refusal.map_or(Ok(pending.done), Err);
            self.out.push(Effect::Reply(request, reply));
        }
    }

    // ---- jobs that are not there

    /// The job does not exist or cannot be understood: it is made, or who asks is refused.
    pub(super) fn refuse_or_create(&mut self, name: &JobName, job: &mut JobState) {
        if let Some(why) = job.damaged.clone() {
            return self.refuse_all(name, job, &Refusal::new(Code::ConfigDamaged, why));
        }
        while let Some(asked) = job.operations.pop_front() {
            match &asked.operation {
                JobOperation::Apply { spec, dry_run: false } => {
                    let spec = spec.clone();
                    let said = "created".to_string();
                    return self.create(name, job, &spec, Intent::Operation { asked, said });
                }
                JobOperation::Apply { .. } => self.reply(asked.request, name, Ok(("would be created".into(), None))),
                _ => {
                    let refusal = Refusal::new(Code::JobUnknown, format!("job {name} does not exist: apply it first"));
                    self.reply(asked.request, name, Err(refusal));
                }
            }
        }
        while let Some(registering) = job.registering.pop_front() {
            let Some(text) = registering.config.clone() else {
                let message = format!("job {name} does not exist: register it with a config, or apply it first");
                self.refuse(name, &registering, Refusal::new(Code::JobUnknown, message));
                continue;
            };
            match parse_one(name, &text, &registering.handler_type) {
                Ok(spec) => {
                    job.registering.push_front(registering);
                    return self.create(name, job, &spec, Intent::Create);
                }
                Err(refusal) => self.refuse(name, &registering, refusal),
            }
        }
    }

    fn refuse_all(&mut self, name: &JobName, job: &mut JobState, refusal: &Refusal) {
        for registering in std::mem::take(&mut job.registering) {
            self.refuse(name, &registering, refusal.clone());
        }
        for asked in std::mem::take(&mut job.operations) {
            if let JobOperation::Remove { .. } = asked.operation {
                let mut txn = Txn::new("remove");
                txn.write(Write::EndJob(name.clone()));
                let said = "removed (it could not be understood)".to_string();
                return self.submit(name, job, txn, Intent::Operation { asked, said });
            }
            self.reply(asked.request, name, Err(refusal.clone()));
        }
    }

    fn refuse(&mut self, name: &JobName, registering: &Registering, refusal: Refusal) {
        self.send(registering.stream, ToWorker::Refused { job: name.to_string(), refusal });
    }

    fn create(&mut self, name: &JobName, job: &mut JobState, spec: &JobSpec, intent: Intent) {
        let mut txn = Txn::new("create");
        txn.guard(Guard::NoJob(name.clone()));
        txn.write(Write::CreateJob {
            job: name.clone(),
            incarnation: (self.ids)().into(),
            handler_type: spec.handler().into(),
            config: spec.config().to_json().into(),
            policy: spec.policy().to_json().into(),
            assignment: Sharding::default().encode().into(),
        });
        txn.write(Write::RaiseNecessary(name.clone()));
        self.submit(name, job, txn, intent);
    }

    // ---- registrations

    /// Answers registrations whose instance is put; those that are refused; applies a config that overwrites.
    pub(super) fn answer_registrations(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) {
        let mut waiting = std::collections::VecDeque::new();
        while let Some(registering) = job.registering.pop_front() {
            let Some(worker) = self.workers.get(&registering.worker) else { continue };
            if worker.stream != Some(registering.stream) || !worker.present() {
                continue;
            }
            let wanted = &registering.handler_type;
            if !wanted.is_empty() && **wanted != *view.handler_type {
                let message = format!(
                    "handler_type {wanted:?} of job {name} is not the registered {:?}: use that one, or another job name",
                    &*view.handler_type
                );
                self.refuse(name, &registering, Refusal::new(Code::HandlerConflict, message));
                continue;
            }
            if registering.overwrite && let Some(text) = registering.config.clone() {
                match parse_one(name, &text, &registering.handler_type).and_then(|spec| change(view, &spec, self.now.wall, settled(job, view))) {
                    Err(refusal) => {
                        self.refuse(name, &registering, refusal);
                        continue;
                    }
                    Ok(Some((txn, _))) if job.writing.is_none() => {
                        waiting.push_back(registering);
                        self.submit(name, job, txn, Intent::Overwrite);
                        continue;
                    }
                    Ok(_) => {}
                }
            }
            let (instance, id) = (worker.instance.clone(), worker.id.clone());
            if job.hosted.insert(instance.clone(), id).is_none() {
                // It may have runs here from before that only its last host has seen.
                job.stale_records = true;
            }
            job.leaving.remove(&instance);
            if view.instances.get(&instance).is_some_and(|seen| seen.mine) {
                self.registered(name, job, view, &registering);
            } else {
                waiting.push_back(registering);
            }
        }
        job.registering = waiting;
    }

    fn registered(&mut self, name: &JobName, job: &mut JobState, view: &Job, registering: &Registering) {
        let Some(worker) = self.workers.get_mut(&registering.worker) else { return };
        worker.jobs.insert(name.clone());
        let grace = view.spec.policy().disconnect_grace.unwrap_or(worker.lease);
        let lease = worker.lease.min(grace);
        let instance = worker.instance.clone();
        let heartbeat = self.heartbeat_for(lease);
        let (items, kind) = (view.rules.items, dispatch::kind(view.spec.policy().kind));
        self.send(registering.stream, ToWorker::Registered { job: name.clone(), items, kind, lease, heartbeat });
        job.told.remove(&instance);
        self.tell_assignments(name, job, view, None);
        self.dirty.insert(name.clone());
    }

    // ---- operations

    /// Carries out the next operation; true when a transaction is under way.
    pub(super) fn operations(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        while let Some(asked) = job.operations.pop_front() {
            match self.operation(name, job, view, &asked) {
                Err(refusal) => self.reply(asked.request, name, Err(refusal)),
                Ok(Step::Said(said)) => self.reply(asked.request, name, Ok((said, None))),
                Ok(Step::Commit(txn, said)) => {
                    self.submit(name, job, txn, Intent::Operation { asked, said });
                    return true;
                }
            }
        }
        false
    }

    fn operation(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>, asked: &Asked) -> Result<Step, Refusal> {
        match &asked.operation {
            JobOperation::Apply { spec, dry_run } => apply(job, view, spec, *dry_run, self.now.wall),
            JobOperation::Trigger { items, after_current } => self.trigger(job, view, items, *after_current),
            JobOperation::Pause(paused) => Ok(pause(view, *paused, self.now.wall)),
            JobOperation::Enable { target, enabled, .. } => enable(view, target, *enabled, self.now.wall),
            JobOperation::Remove { cancel } => remove(job, view, *cancel),
            JobOperation::Cancel { item } => self.cancel_item(name, job, view, *item),
            JobOperation::Shutdown { instance } => self.shut_down(name, job, view, instance),
        }
    }

    fn trigger(&mut self, job: &JobState, view: &Job, items: &[Item], after_current: bool) -> Result<Step, Refusal> {
        let all: Vec<Item> = (0..view.rules.items).map(Item).collect();
        let items = if items.is_empty() { all } else { items.to_vec() };
        let (name, at) = (view.name.clone(), self.now.wall);
        if view.rules.disabled {
            return Err(Refusal::new(Code::Disabled, format!("job {name} is disabled: enable it first")));
        }
        let id = TriggerId::new((self.ids)()).map_err(|e| Refusal::new(Code::NameInvalid, e.to_string()))?;
        let mut txn = guarded("trigger", view);
        txn.guard(Guard::Generation(name.clone(), view.generation));
        for item in &items {
            check_item(view, *item)?;
            if view.sharding.disabled_items.contains(item) {
                return Err(Refusal::new(Code::Disabled, format!("item {item} of {name} is disabled: enable it first")));
            }
            if view.triggers.contains_key(item) {
                return Err(Refusal::new(Code::TriggerWaiting, format!("a trigger waits for item {item} of {name} already")));
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
        Ok(Step::Commit(txn, format!("triggered {} items as {id}", items.len())))
    }

    fn cancel_item(&mut self, name: &JobName, job: &JobState, view: &Job, item: Item) -> Result<Step, Refusal> {
        check_item(view, item)?;
        let run = job.records.get(&item).and_then(|(_, record)| Some((record.token, record.running()?.clone())));
        let Some((token, run)) = run else {
            return Err(Refusal::new(Code::RunUnknown, format!("item {item} of {name} is not running")));
        };
        if !self.workers.contains_key(&run.worker) {
            let message = format!("item {item} of {name} runs on {}, whose stream ends at another coordinator", run.instance);
            return Err(Refusal::new(Code::RunUnknown, message));
        }
        self.cancel_run(name, item, token, &run.worker);
        Ok(Step::Said(format!("item {item}: run {token} on {} is asked to stop", run.instance)))
    }

    fn cancel_run(&mut self, name: &JobName, item: Item, token: Token, worker: &rosterd_domain::id::WorkerId) {
        let run = RunRef { job: name.clone(), item, token };
        self.cancel(worker, run, CancelReason::Operator, "an operator asked for it");
    }

    fn shut_down(&mut self, name: &JobName, job: &mut JobState, view: &Job, instance: &InstanceId) -> Result<Step, Refusal> {
        if !view.instances.contains_key(instance) {
            return Err(Refusal::new(Code::InstanceUnknown, format!("{instance} is no instance of {name}")));
        }
        let mut txn = guarded("shutdown", view);
        txn.write(Write::RemoveInstance(name.clone(), instance.clone()));
        txn.write(Write::RaiseNecessary(name.clone()));
        if let Some(worker) = job.hosted.remove(instance).and_then(|id| self.workers.get_mut(&id)) {
            worker.jobs.remove(name);
            if let Some(stream) = worker.stream {
                let message = "an operator asked for it".to_string();
                self.send(stream, ToWorker::Shutdown { job: Some(name.clone()), message });
            }
        }
        Ok(Step::Commit(txn, format!("{instance} is shut down for this job")))
    }

    pub(super) fn operation_done(&mut self, name: &JobName, job: &mut JobState, asked: Asked, said: String) {
        job.stale = true;
        let (job_name, what) = (name.clone(), said.clone());
        self.out.push(Effect::Tell(Happening::Job { job: job_name, what }));
        let cancel = match &asked.operation {
            JobOperation::Enable { target, enabled: false, cancel: true } => Some(target.clone()),
            JobOperation::Remove { cancel: true } => Some(Target::Job),
            _ => None,
        };
        if let Some(target) = cancel {
            self.cancel_target(name, job, &target);
        }
        let trigger = match &asked.operation {
            JobOperation::Trigger { .. } => said.rsplit(' ').next().map(str::to_string),
            _ => None,
        };
        self.reply(asked.request, name, Ok((said, trigger)));
    }

    fn cancel_target(&mut self, name: &JobName, job: &JobState, target: &Target) {
        let runs: Vec<_> = job
            .records
            .iter()
            .filter_map(|(item, (_, record))| Some((*item, record.token, record.running()?.clone())))
            .filter(|(item, _, run)| match target {
                Target::Job => true,
                Target::Item(wanted) => item == wanted,
                Target::Server(server) => run.instance.address() == server.as_str(),
                Target::Instance(instance) => run.instance == *instance,
            })
            .collect();
        for (item, token, run) in runs {
            self.cancel_run(name, item, token, &run.worker);
        }
    }

    pub(super) fn operation_not_done(&mut self, name: &JobName, job: &mut JobState, intent: Intent, commit: &Commit) {
        let Intent::Operation { mut asked, .. } = intent else { return };
        match commit {
            Commit::Conflict(_) if asked.tries < MOST_TRIES => {
                asked.tries += 1;
                job.operations.push_front(asked);
            }
            Commit::Conflict(what) => {
                let refusal = Refusal::new(Code::Contended, format!("things changed again and again under the request ({what}): repeat it"));
                self.reply(asked.request, name, Err(refusal));
            }
            Commit::Unavailable(why) => {
                self.reply(asked.request, name, Err(Refusal::new(Code::StoreUnavailable, why.clone())));
            }
            _ => {
                let refusal = Refusal::new(Code::OutcomeUnknown, "the registry did not answer: look whether the change was made before you repeat it");
                self.reply(asked.request, name, Err(refusal));
            }
        }
    }
}

enum Step {
    Commit(Txn, String),
    Said(String),
}

fn guarded(purpose: &'static str, view: &Job) -> Txn {
    let mut txn = Txn::new(purpose);
    txn.guard(Guard::Incarnation(view.name.clone(), view.incarnation.clone()));
    txn
}

/// Adds the rewriting of `sharding`: whatever was decided before is refused.
fn rewrite(txn: &mut Txn, view: &Job, sharding: &Sharding) {
    let (job, expect, data) = (view.name.clone(), view.generation, sharding.encode().into());
    txn.write(Write::Assignment { job, expect, data });
}

fn check_item(view: &Job, item: Item) -> Result<(), Refusal> {
    let items = view.rules.items;
    if item.0 < items {
        return Ok(());
    }
    let message = format!("item {item} of {} does not exist: its items are 0 to {}", view.name, items - 1);
    Err(Refusal::new(Code::ItemUnknown, message))
}

/// The one job of a registration's config.
fn parse_one(name: &JobName, text: &str, handler: &str) -> Result<JobSpec, Refusal> {
    let invalid = |why: String| Refusal::new(Code::ConfigInvalid, why);
    let specs = job::parse_file(text.as_bytes()).map_err(|e| invalid(e.to_string()))?;
    let [spec] = &specs[..] else {
        return Err(invalid(format!("config holds {} jobs: it must hold one, {name}", specs.len())));
    };
    if spec.config().job_name != *name {
        return Err(invalid(format!("jobName is {}: it must be the registered job, {name}", spec.config().job_name)));
    }
    view::validate(spec).map_err(|e| invalid(e.to_string()))?;
    let named = if handler.is_empty() { spec.handler() } else { handler };
    JobSpec::new(spec.config().clone(), spec.policy().clone(), named).map_err(|e| invalid(e.to_string()))
}

fn apply(job: &JobState, view: &Job, spec: &JobSpec, dry_run: bool, now: Time) -> Result<Step, Refusal> {
    match change(view, spec, now, settled(job, view))? {
        None => Ok(Step::Said("unchanged".into())),
        Some((_, said)) if dry_run => Ok(Step::Said(format!("would change {said}"))),
        Some((txn, said)) => Ok(Step::Commit(txn, format!("changed {said}"))),
    }
}

/// Up to when every due time of the job is accounted for, as far as the cache knows.
fn settled(job: &JobState, view: &Job) -> Time {
    // Records of surplus items count: their items may come back.
    let known = job.records.values().map(|(_, record)| record.last_fire).min();
    known.filter(|_| (0..view.rules.items).all(|item| job.records.contains_key(&Item(item)))).unwrap_or(Time(i64::MIN))
}

/// The transaction that makes the job as `spec` says; `None` where it is so already.
fn change(view: &Job, spec: &JobSpec, now: Time, settled: Time) -> Result<Option<(Txn, String)>, Refusal> {
    let invalid = |e: job::Defects| Refusal::new(Code::ConfigInvalid, e.to_string());
    let config = spec.config().replacing(view.spec.config()).map_err(invalid)?;
    let next = JobSpec::new(config, spec.policy().clone(), spec.handler()).map_err(invalid)?;
    let changes = job::diff(&view.spec, &next);
    if changes.is_empty() {
        return Ok(None);
    }
    if next.handler() != view.spec.handler() && !view.instances.is_empty() {
        let message = format!(
            "handler {:?} of job {} is not the registered {:?}, and {} instances run that one: stop them first",
            next.handler(), view.name, view.spec.handler(), view.instances.len()
        );
        return Err(Refusal::new(Code::HandlerConflict, message));
    }
    let mut sharding = view.sharding.withdrawn();
    let (old, new) = (view.spec.config(), next.config());
    let same_schedule = (&old.cron, old.zone(), view.spec.policy().gap) == (&new.cron, new.zone(), next.policy().gap);
    if !same_schedule {
        let before = old.cron.clone().map(|cron| (cron, old.zone().to_string()));
        sharding = sharding.with_floor(now, before, settled);
    }
    if old.disabled && !new.disabled {
        sharding.gap = Some(Gap { until: now, reason: Missed::Disabled });
    }
    let mut txn = guarded("apply", view);
    txn.guard(Guard::Config(view.name.clone(), view.config_version));
    txn.write(Write::Config(view.name.clone(), new.to_json().into()));
    txn.write(Write::Policy(view.name.clone(), next.policy().to_json().into()));
    if next.handler() != view.spec.handler() {
        txn.write(Write::HandlerType(view.name.clone(), next.handler().into()));
    }
    rewrite(&mut txn, view, &sharding);
    if old.sharding_total_count != new.sharding_total_count || view.spec.strategy() != next.strategy() {
        txn.write(Write::RaiseNecessary(view.name.clone()));
    }
    let fields: Vec<String> = changes.iter().map(|change| change.field.to_string()).collect();
    Ok(Some((txn, fields.join(", "))))
}

fn pause(view: &Job, paused: bool, now: Time) -> Step {
    if view.paused == paused {
        return Step::Said(if paused { "is paused already" } else { "is not paused" }.into());
    }
    let mut sharding = view.sharding.withdrawn();
    if !paused {
        sharding.gap = Some(Gap { until: now, reason: Missed::Paused });
    }
    let mut txn = guarded("pause", view);
    txn.write(Write::Paused(view.name.clone(), paused));
    rewrite(&mut txn, view, &sharding);
    Step::Commit(txn, if paused { "paused" } else { "resumed" }.into())
}

fn enable(view: &Job, target: &Target, enabled: bool, now: Time) -> Result<Step, Refusal> {
    let (name, word) = (view.name.clone(), if enabled { "enabled" } else { "disabled" });
    let mut sharding = view.sharding.withdrawn();
    let mut txn = guarded(if enabled { "enable" } else { "disable" }, view);
    let gap = Gap { until: now, reason: Missed::Disabled };
    let said = match target {
        Target::Job if view.rules.disabled != enabled => return Ok(Step::Said(format!("is {word} already"))),
        Target::Job => {
            let config = view.spec.config().edit(|fields| fields.disabled = !enabled);
            let config = config.map_err(|e| Refusal::new(Code::ConfigInvalid, e.to_string()))?;
            txn.guard(Guard::Config(name.clone(), view.config_version));
            txn.write(Write::Config(name.clone(), config.to_json().into()));
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
        Target::Server(server) => {
            if !view.servers.contains_key(server) {
                return Err(Refusal::new(Code::ServerUnknown, format!("{server} is no server of {name}")));
            }
            txn.write(Write::Server { job: name.clone(), server: server.clone(), enabled: Some(enabled) });
            txn.write(Write::RaiseNecessary(name));
            format!("server {server} {word}")
        }
        Target::Instance(instance) => {
            if !view.instances.contains_key(instance) {
                return Err(Refusal::new(Code::InstanceUnknown, format!("{instance} is no instance of {name}")));
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
    rewrite(&mut txn, view, &sharding);
    Ok(Step::Commit(txn, said))
}

fn remove(job: &JobState, view: &Job, cancel: bool) -> Result<Step, Refusal> {
    let running: BTreeMap<Item, &InstanceId> = job
        .records
        .iter()
        .filter_map(|(item, (_, record))| Some((*item, &record.running()?.instance)))
        .collect();
    if let Some((item, instance)) = running.first_key_value().filter(|_| !cancel) {
        let message = format!(
            "{} runs of job {} are in flight (item {item} on {instance}): wait, or remove it with --cancel",
            running.len(), view.name
        );
        return Err(Refusal::new(Code::RunInFlight, message));
    }
    let mut txn = guarded("remove", view);
    rewrite(&mut txn, view, &view.sharding.withdrawn());
    txn.write(Write::EndJob(view.name.clone()));
    Ok(Step::Commit(txn, "removed".into()))
}
