//! What follows a transaction's end and a read's. Persist, then speak: workers are told only here, after the
//! commit. What was refused, or may have been applied, is read again and decided again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, JobName, Revision, WorkerId};
use rosterd_domain::item::Outcome;
use rosterd_domain::mutants;
use rosterd_domain::plan::{Entry, Plan};
use rosterd_domain::snapshot::{JobNodes, Snapshot};
use rosterd_domain::txn::Commit;
use rosterd_domain::view::Job;

use super::background::BackgroundBudget;
use super::change::names;
use super::event::{Effect, Query, TxnId};
use super::handle::{Action, Happening, Health, WorkerChange};
use super::job::{Damaged, Intent, JobState, Told, Torn};
use super::node::{Node, ReadFor, TxnFor};
use rosterd_registry::ReadError;
use rosterd_session::frame::ToWorker;

/// Transactions of a job that may be refused one after the other before the next one waits, and how long it then
/// waits at first.
const AT_ONCE: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// Why a job with a config and without an incarnation is left alone.
const UNFINISHED: &str = "it has a config and no incarnation: it is being imported, an import of it did not end (run \
                          that again), or it is Elastic-Job's own (`rosterd import elastic-job` takes it over)";

impl Node {
    pub(super) fn committed(&mut self, id: TxnId, mut commit: Commit) {
        if commit == Commit::Unknown && mutants::is_on(mutants::UNKNOWN_TAKEN_FOR_DONE) {
            commit = Commit::Committed(Revision::default());
        }
        if commit == Commit::Fenced {
            // The session is over, and every right with it.
            tracing::error!("the store session is over: this coordinator gives up everything");
            return self.hint_gone();
        }
        if let Commit::TooLarge(why) = &commit {
            tracing::error!("{why}");
        }
        if let Commit::Unavailable(why) = &commit {
            tracing::error!("the store cannot write: {why}");
            self.set_health(Health::Suspended);
        } else if self.health == Health::Suspended && matches!(commit, Commit::Committed(_)) && !self.stopping
        {
            self.set_health(Health::Serving);
            self.run_queue.extend(self.jobs.keys().cloned());
        }
        let Some((whom, sent)) = self.txns.remove(&id) else { return };
        if matches!(commit, Commit::Committed(_)) {
            let waited = !self.proven();
            self.session_proved_at = self.session_proved_at.max(sent);
            if waited && self.proven() {
                // Elections and plans that came up meanwhile waited for this. Nothing else brings them up again.
                self.run_queue.extend(self.jobs.keys().cloned());
            }
        }
        match whom {
            TxnFor::Job(job) => self.job_committed(&job, commit),
            TxnFor::Attach { stream, hello, worker, key } => {
                self.attached(stream, &hello, *worker, key, commit);
            }
            TxnFor::Draining(worker) => self.drained(&worker, commit),
            TxnFor::AskToLeave { worker, grace_ms, requester } => {
                self.asked_to_leave(&worker, grace_ms, requester, commit);
            }
            TxnFor::Lease(worker) => self.lease_stated(&worker, commit),
            TxnFor::Expire(worker) => self.expiry_committed(&worker, commit),
            TxnFor::Goodbye(worker) => self.said_goodbye(&worker, commit),
            TxnFor::ExpireRemote(worker) => self.remote_expired(&worker, commit),
            TxnFor::Own => self.listed(matches!(commit, Commit::Committed(_))),
        }
    }

    fn hint_gone(&mut self) {
        self.txns.clear();
        for job in self.jobs.values_mut() {
            job.writing = None;
        }
        self.background = BackgroundBudget::default();
        self.stop_at_once();
    }

    fn job_committed(&mut self, name: &JobName, commit: Commit) {
        let Some(mut job) = self.jobs.remove(name) else { return };
        if let Some(intent) = job.writing.take() {
            self.background.ended(&intent);
            if let (Commit::Unknown, Intent::Host { reserved, .. }) = (&commit, &intent) {
                // These runs may have started: their slots are taken until the records say whether.
                job.slots_in_doubt.push(reserved.clone());
            } else if let Intent::Host { reserved, .. } = &intent {
                self.release_slots(reserved);
            }
            match &commit {
                Commit::Committed(_) => self.done(name, &mut job, intent),
                other => self.not_done(name, &mut job, intent, other),
            }
        }
        self.jobs.insert(name.clone(), job);
        self.run_queue.insert(name.clone());
        self.look_at_leavers = true;
    }

    /// Workers on their way out may be a step further.
    pub(super) fn look_at_leavers(&mut self) {
        self.look_at_leavers = false;
        for id in self.leavers.clone() {
            if self.workers.contains_key(&id) {
                self.confirm_draining(&id);
                self.finish_goodbye(&id);
            } else {
                self.leavers.remove(&id);
            }
        }
    }

    fn release_slots(&mut self, reserved: &BTreeMap<WorkerId, u32>) {
        for (worker, starts) in reserved {
            if let Some(worker) = self.workers.get_mut(worker) {
                worker.reserved = worker.reserved.saturating_sub(*starts);
            }
        }
    }

    fn not_done(&mut self, name: &JobName, job: &mut JobState, intent: Intent, commit: &Commit) {
        if let Commit::Unavailable(_) | Commit::TooLarge(_) = commit {
            job.retry_at = Some(self.now.mono.plus(self.settings.store_retry));
            return self.operation_not_done(name, job, intent, commit);
        }
        tracing::debug!(job = %name, "a transaction was not applied: {commit:?}");
        job.stale = true;
        job.stale_records = true;
        if let Commit::Conflict(_) = commit {
            self.refused(job, &intent);
        }
        self.operation_not_done(name, job, intent, commit);
    }

    /// What a job's cache says is read again in any case. That a worker is another's, or dead, it does not say;
    /// and whoever is refused again and again waits a little longer each time.
    fn refused(&mut self, job: &mut JobState, intent: &Intent) {
        let involved: Vec<WorkerId> = match intent {
            Intent::Host { reserved, .. } => {
                let left = job.reports.values().filter(|report| report.ended.spoken_for().is_some());
                reserved.keys().chain(left.map(|report| &report.worker)).cloned().collect()
            }
            Intent::Instances { put, marked, .. } => put.iter().chain(marked).cloned().collect(),
            Intent::Dismiss { worker, .. } => vec![worker.clone()],
            _ => Vec::new(),
        };
        for id in involved {
            if self.workers.get(&id).is_some_and(|worker| !worker.writing) {
                self.read(ReadFor::Own(id.clone()), Query::Attachment(id));
            }
        }
        if mutants::is_on(mutants::REFUSED_IS_DROPPED) {
            job.retry_at = Some(self.now.mono.plus(self.settings.lease));
        }
        job.refused += 1;
        if job.refused > AT_ONCE {
            let wait = FIRST_WAIT * 2_u32.pow((job.refused - AT_ONCE).min(6));
            job.retry_at = Some(self.now.mono.plus(wait.min(self.settings.store_retry)));
        }
    }

    fn done(&mut self, name: &JobName, job: &mut JobState, intent: Intent) {
        job.refused = 0;
        match intent {
            Intent::Host { plan, ahead, .. } => {
                if let Some(due) = ahead {
                    self.lead_time.written(due, self.now.wall);
                }
                self.host_done(name, job, *plan);
            }
            Intent::NewRecords(records) => {
                for (item, (version, record)) in records {
                    self.put_record(name, job, item, version, record);
                }
            }
            Intent::Mirrors(items) => {
                for item in items {
                    job.mirrors.remove(&item);
                }
            }
            Intent::Instances { put, removed, marked } => {
                job.stale |= !self.drop_hints;
                for instance in removed {
                    job.leaving.remove(&instance);
                }
                self.answer_unregistering(name, job);
                for id in put {
                    self.moved(&id, name);
                }
                job.unmarked.retain(|id| !marked.contains(id));
            }
            Intent::Assign(planned) => {
                job.stale = true;
                job.stale_records |= has_surplus(job);
                tracing::info!(job = %name, "items reassigned: {}", planned.why);
                job.planned = Some(planned);
            }
            Intent::Elect => {
                job.stale = true;
                job.switches_stale = true;
                // What others hold was nothing to this one before.
                job.stale_records |= job.view.as_ref().is_some_and(|view| view.rules.announces());
                self.reconcile_later(name, job);
            }
            Intent::Dismiss { instance, .. } => {
                self.release_instance(name, job, &instance, "its instance was deleted")
            }
            Intent::Servers
            | Intent::ForeignTriggers
            | Intent::Switches
            | Intent::Restated
            | Intent::FailoverItems
            | Intent::Commands => job.stale = true,
            Intent::Create { by } => {
                self.told_by_worker(name, job, Action::Create, "created by a registration".into(), by);
            }
            Intent::Overwrite { fields, by } => {
                let what = format!("changed {} by a registration", names(&fields));
                self.told_by_worker(name, job, Action::Change, what, by);
            }
            Intent::Sweep | Intent::Abdicate | Intent::Announce => job.stale = true,
            Intent::Release(items) => self.released(name, job, &items),
            Intent::Operation { asked, said } => self.operation_done(name, job, *asked, said),
        }
        if job.ending {
            job.stale = true;
        }
    }

    /// A worker made or changed the job: a line for the audit.
    fn told_by_worker(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        action: Action,
        what: String,
        by: Option<Arc<str>>,
    ) {
        job.stale = true;
        self.out.push(Effect::Tell(Happening::Job { job: name.clone(), action, what, by }));
    }

    fn host_done(&mut self, name: &JobName, job: &mut JobState, mut plan: Plan) {
        let touched: Vec<Item> = plan.records.keys().copied().collect();
        for (item, written) in std::mem::take(&mut plan.records) {
            self.put_written(name, job, item, written);
        }
        self.progress_written(name, job, std::mem::take(&mut plan.offsets), plan.more);
        // The triggers that were taken are still in the cached decision state: they must not start again.
        job.stale |= plan
            .entries
            .iter()
            .any(|entry| matches!(entry, Entry::Started { run, .. } if run.trigger.is_some()));
        for entry in plan.entries {
            self.note_taken_away(name, &entry);
            self.tell_given_up(name, job, &entry);
            self.tell_entry(name, job, entry);
        }
        self.answer_reports(name, job);
        for (item, token, run) in plan.unmonitored {
            self.send_unmonitored(name, job, item, token, run);
        }
        for item in touched {
            self.dispatch(name, job, item);
        }
    }

    /// A worker's instance of this job is put: a move is a step further. Where the worker asked for that, the job is its once
    /// it is told so.
    fn moved(&mut self, id: &WorkerId, name: &JobName) {
        if let Some(worker) = self.workers.get_mut(id).filter(|worker| !worker.registering.contains(name)) {
            worker.jobs.insert(name.clone());
        }
    }

    // ---- reads

    pub(super) fn nodes_read(&mut self, name: JobName, read: Result<Option<JobNodes>, ReadError>) {
        let Some(mut job) = self.jobs.remove(&name) else { return };
        job.reading = false;
        match read {
            Ok(nodes) => {
                let before = job.view.clone();
                self.take_nodes(&name, &mut job, nodes);
                job.stale_records |= records_are_behind(&job, before.as_deref());
                job.stale |= mutants::is_on(mutants::FOLLOWERS_POLL) && !job.leads();
            }
            Err(error) => self.read_failed(&name, &mut job, &error),
        }
        self.jobs.insert(name.clone(), job);
        // Who leaves waits for every read of its jobs, this one too.
        self.look_at_leavers = true;
        self.run_queue.insert(name);
    }

    pub(super) fn job_read(&mut self, name: JobName, read: Result<Option<Snapshot>, ReadError>) {
        let Some(mut job) = self.jobs.remove(&name) else { return };
        job.reading = false;
        // Who came meanwhile waits for the next reading; this one is good for those who came before it.
        let came_meanwhile = std::mem::take(&mut job.stale_records);
        if read.is_ok() {
            for reserved in std::mem::take(&mut job.slots_in_doubt) {
                self.release_slots(&reserved);
            }
        }
        match read {
            Ok(None) => self.take_nodes(&name, &mut job, None),
            Ok(Some(snapshot)) => {
                let gone: Vec<Item> =
                    job.records.keys().filter(|item| !snapshot.records.contains_key(item)).copied().collect();
                for item in gone {
                    self.drop_record(&name, &mut job, item);
                }
                for (item, (version, record)) in snapshot.records {
                    self.put_record(&name, &mut job, item, version, record);
                }
                self.take_nodes(&name, &mut job, Some(snapshot.nodes));
                self.look_at_runs(&name, &mut job);
            }
            Err(error) => self.read_failed(&name, &mut job, &error),
        }
        let (read, exists) = (job.loaded && !job.stale_records, job.view.is_some());
        job.stale_records |= came_meanwhile;
        let readers = self.covered_by_read.remove(&name).unwrap_or_default();
        if !job.existed {
            job.named_by.extend(readers.iter().cloned());
        }
        self.jobs.insert(name.clone(), job);
        if read {
            self.moved_in_all(readers, &name, exists);
        } else if !readers.is_empty() {
            self.awaiting_read.entry(name.clone()).or_default().extend(readers);
        }
        self.look_at_leavers = true;
        self.run_queue.insert(name);
    }

    fn moved_in_all(&mut self, readers: BTreeSet<WorkerId>, name: &JobName, exists: bool) {
        for id in readers {
            self.moved_in(&id, name, exists);
        }
    }

    /// The records of a job were read after the worker's attachment was written.
    fn moved_in(&mut self, id: &WorkerId, name: &JobName, exists: bool) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        if worker.moving.remove(name) {
            let brings = worker.taken_over && worker.runs.iter().any(|(of, _)| of == name);
            if let Some(job) = self.jobs.get_mut(name).filter(|_| brings) {
                job.unmarked.insert(id.clone());
            }
            let hosted = self.jobs.get(name).is_some_and(|job| job.hosted.contains_key(&worker.instance));
            if hosted && exists {
                worker.jobs.insert(name.clone());
            }
            self.welcome_if_moved(id);
        }
    }

    pub(super) fn read_failed(&mut self, name: &JobName, job: &mut JobState, error: &ReadError) {
        job.stale = true;
        job.stale_records = true;
        if let ReadError::Damaged { .. } = error {
            tracing::error!(job = %name, "{error}: the job is left alone until that node is mended or deleted");
            job.loaded = true;
            job.existed = true;
            job.view = None;
            job.damaged = Some(Damaged { why: format!("{error}: mend that node, or delete it"), torn: None });
            job.stale = false;
            job.stale_records = false;
            return;
        }
        job.retry_at = Some(self.now.mono.plus(self.settings.store_retry));
    }

    fn drop_record(&mut self, name: &JobName, job: &mut JobState, item: Item) {
        if let Some((_, record)) = job.records.remove(&item)
            && let Some(worker) = record.running().and_then(|run| self.workers.get_mut(&run.worker))
        {
            worker.runs.remove(&(name.clone(), item));
        }
    }

    fn take_nodes(&mut self, name: &JobName, job: &mut JobState, nodes: Option<JobNodes>) {
        let first = !job.loaded;
        job.loaded = true;
        job.damaged = None;
        let was_ending = std::mem::take(&mut job.ending);
        let before = job.view.take();
        let is_there = nodes.as_ref().is_some_and(|nodes| nodes.config.is_some());
        if let Some(gone) = before.as_deref().filter(|_| !is_there) {
            self.tell_no_owners(gone);
        }
        let Some(nodes) = nodes else {
            // Its end may have been seen in two steps.
            return self.job_has_gone(name, job, before.is_some() || was_ending);
        };
        job.existed = true;
        let configured = nodes.config.is_some();
        let torn = torn(&nodes);
        match Job::decode_after(name, nodes, before.as_deref()) {
            Ok(Some(view)) => {
                let other = before.as_ref().is_some_and(|before| before.incarnation != view.incarnation);
                let again = other || was_ending;
                if again {
                    job.stale_records = true;
                    job.offsets.clear();
                    // The nodes of the removed job went with it: nobody has shut these instances down.
                    job.published_instances.clear();
                }
                let view = Arc::new(view);
                self.take_view(name, job, before.filter(|_| !again), view);
            }
            // What was removed has neither. What has a config alone is not ours to sweep.
            Ok(None) if !configured => job.ending = true,
            found => {
                let why = found.err().unwrap_or_else(|| UNFINISHED.to_owned());
                tracing::error!(job = %name, "the job cannot be understood and is left alone: {why}");
                job.damaged = Some(Damaged { why, torn });
            }
        }
        if first && job.view.is_some() {
            self.look_at_runs(name, job);
        }
    }

    fn job_has_gone(&mut self, name: &JobName, job: &mut JobState, was_there: bool) {
        self.end_runs_of_removed(name, job);
        let records: Vec<Item> = job.records.keys().copied().collect();
        for item in records {
            self.drop_record(name, job, item);
        }
        job.offsets.clear();
        job.owned_since.clear();
        job.last_assignment_sent.clear();
        for id in job.hosted.values().filter(|_| was_there) {
            if let Some(stream) = self.workers.get(id).and_then(|worker| worker.stream) {
                let message = "the job was removed".to_string();
                self.send(stream, ToWorker::Shutdown { job: Some(name.clone()), message });
            }
        }
        for id in std::mem::take(&mut job.hosted).into_values() {
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.jobs.remove(name);
            }
        }
    }

    /// Runs that were in flight here end with their job: their reports find no record any more.
    fn end_runs_of_removed(&mut self, name: &JobName, job: &JobState) {
        let at = self.now.wall;
        for (item, (_, record)) in &job.records {
            let Some(run) = record.running().filter(|run| self.workers.contains_key(&run.worker)) else {
                continue;
            };
            let (item, token, run, outcome) = (*item, record.token, run.clone(), Outcome::Cancelled);
            let entry = Entry::Ended { item, token, run, outcome, at, requeued: false };
            self.out.push(Effect::Record { job: name.clone(), at, entry, detail: None });
        }
    }

    fn take_view(&mut self, name: &JobName, job: &mut JobState, before: Option<Arc<Job>>, view: Arc<Job>) {
        let hosted = view.sharding.owned().filter(|(_, owner)| job.hosted.contains_key(*owner));
        let mine = hosted.map(|(item, _)| item);
        let generation_moved = before.as_ref().is_none_or(|before| before.generation != view.generation);
        if generation_moved {
            // Who gains an item whose owner has gone has it since now, also where it stood under the dead one until then.
            let goes_on = |item| {
                let owner = before.as_ref().map(|before| before.sharding.owner(item));
                owner.is_none_or(|owner| owner.is_some_and(|owner| job.hosted.contains_key(owner)))
                    || mutants::is_on(mutants::DEAD_OWNERS_COUNT)
            };
            let known = |item: &Item| job.owned_since.get(item).copied().filter(|_| goes_on(*item));
            let since = |item| known(&item).unwrap_or(self.now.wall);
            job.owned_since = mine.map(|item| (item, since(item))).collect();
        }
        job.view = Some(view.clone());
        self.follow_interval(name, job, before.as_deref());
        self.tell_assignments(name, job, &view);
        self.tell_owners(name, job, &view, before.as_deref());
    }

    pub(super) fn tell_assignments(&mut self, name: &JobName, job: &mut JobState, view: &Job) {
        let mut owned: BTreeMap<&InstanceId, Vec<Item>> = BTreeMap::new();
        for (item, owner) in view.sharding.owned() {
            owned.entry(owner).or_default().push(item);
        }
        if *job.props != view.spec.config().props {
            job.props = Arc::new(view.spec.config().props.clone());
        }
        for (instance, id) in &job.hosted {
            let items = owned.get(instance).cloned().unwrap_or_default();
            let Some(worker) = self.workers.get(id) else { continue };
            if !worker.jobs.contains(name) || worker.phase != super::worker::Phase::Attached {
                continue;
            }
            let Some(stream) = worker.stream else { continue };
            let told = Told { stream, items, props: job.props.clone() };
            if job.last_assignment_sent.get(instance).is_some_and(|before| before.is(&told)) {
                continue;
            }
            job.last_assignment_sent.insert(instance.clone(), told.clone());
            let (generation, total) = (view.generation.0, view.rules.items);
            let Told { items, props, .. } = told;
            self.send(stream, ToWorker::Assignment { job: name.clone(), items, generation, total, props });
        }
    }

    /// Runs in the records: those of workers here are sent if unknown, those of nobody are looked into.
    fn look_at_runs(&mut self, name: &JobName, job: &mut JobState) {
        let runs: Vec<(Item, WorkerId)> = job
            .records
            .iter()
            .filter_map(|(item, (_, record))| Some((*item, record.running()?.worker.clone())))
            .collect();
        for (item, worker) in runs {
            if self.workers.contains_key(&worker) {
                if !mutants::is_on(mutants::UNTOLD_STAYS_UNTOLD) {
                    self.dispatch(name, job, item);
                }
            } else if !self.elsewhere.contains_key(&worker) && !job.dead.contains(&worker) {
                self.read(
                    super::node::ReadFor::Suspect(worker.clone()),
                    super::event::Query::Attachment(worker),
                );
            }
        }
    }

    pub(super) fn tell_worker(&mut self, instance: &InstanceId, change: WorkerChange) {
        self.out.push(Effect::Tell(Happening::Worker { instance: instance.clone(), change }));
    }
}

fn torn(nodes: &JobNodes) -> Option<Torn> {
    Some(Torn {
        incarnation: nodes.incarnation.clone()?,
        config_version: nodes.config.as_ref()?.version,
        generation: nodes.generation,
        assignment: nodes.assignment.clone(),
    })
}

/// Whether items are left over from a larger count. They have no owner who would read their records when they are moved:
/// a leader who plans without an instance that has gone looks whether that had a run of one.
fn has_surplus(job: &JobState) -> bool {
    let last = job.records.keys().next_back();
    job.view.as_ref().zip(last).is_some_and(|(view, last)| view.rules.items <= last.0)
}

/// Whether the decision state tells of records that others wrote: of items that are ours only now, and of runs
/// that crashed elsewhere and wait for a taker. Run state itself gives no hint.
fn records_are_behind(job: &JobState, before: Option<&Job>) -> bool {
    let (Some(view), Some(before)) = (job.view.as_deref(), before) else { return false };
    let ours = |view: &Job| -> BTreeSet<Item> {
        view.sharding
            .owned()
            .filter(|(_, owner)| job.hosted.contains_key(*owner))
            .map(|(item, _)| item)
            .collect()
    };
    let gains = view.generation != before.generation && !ours(view).is_subset(&ours(before));
    let waits = |item: &Item| job.records.get(item).is_some_and(|(_, record)| record.crashed().is_some());
    gains
        || super::unattended::has_orphans(view, before)
        || view.failover.iter().any(|item| !before.failover.contains(item) && !waits(item))
}
