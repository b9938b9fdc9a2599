//! What workers are told about runs. It follows from the records alone: a run that a record gives to a worker
//! here, and that the worker does not know of, is sent; one that it has in flight and no record names is
//! cancelled. So a Trigger is sent only after its commit, and again after any loss, always under its token.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token, Version, WorkerId, task_id};
use rosterd_domain::item::{Record, Running};
use rosterd_domain::job;
use rosterd_domain::mutants;
use rosterd_domain::plan::{Report, Reported, times_out};
use rosterd_domain::time::Time;
use rosterd_domain::view::Job;

use super::command::stops;
use super::event::{Query, StreamId};
use super::job::JobState;
use super::node::{Node, ReadFor};
use super::worker::{Phase, Unheeded};
use rosterd_registry::ReadError;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{CancelReason, Completed, Kind, RunRef, ToWorker, Trigger};

/// How often a worker is told of a run before it is ended: each time for three heartbeats, all of which do not name it.
const MOST_TOLD: u32 = 5;
/// Offsets up to this many bytes are kept in memory between runs.
pub(super) const SHORT_OFFSET: usize = 1024;

impl Node {
    /// Puts a record into the cache and keeps the workers' slots true.
    pub(super) fn put_record(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        item: Item,
        version: Version,
        record: Record,
    ) {
        let before =
            job.records.get(&item).and_then(|(_, before)| before.running()).map(|run| run.worker.clone());
        let after = record.running().map(|run| run.worker.clone());
        let stays = before == after;
        if !stays && let Some(worker) = before.and_then(|before| self.workers.get_mut(&before)) {
            worker.runs.remove(&(name.clone(), item));
            worker.unheeded.retain(|run, _| (&run.job, run.item) != (name, item));
            if !worker.waiting.is_empty() {
                self.slots_freed.insert(worker.id.clone());
            }
        }
        // Also where nothing has changed: the worker may have come here since.
        if let Some(worker) = after.as_ref().and_then(|after| self.workers.get_mut(after))
            && worker.runs.insert((name.clone(), item))
            && stays
        {
            // Its last host may have written how far the run has come.
            job.offsets.remove(&item);
        }
        if last_end(job, item) != record.last.as_ref().map(|last| last.token)
            && !mutants::is_on(mutants::OFFSETS_STAY)
        {
            job.offsets.remove(&item);
        }
        job.progress.is_of(item, record.running().map(|_| record.token));
        job.records.insert(item, (version, record));
    }

    /// The same after this coordinator's own transaction: what it wrote of the run's report needs no reading.
    pub(super) fn put_written(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        item: Item,
        (version, record): (Version, Record),
    ) {
        let ended = record.last.as_ref().filter(|last| last.reported);
        // Only that of the run's own worker says what it left.
        let report = job.reports.get(&item).filter(|report| {
            ended.is_some_and(|last| last.token == report.token && last.instance.is_of(&report.worker))
        });
        let progressed = |report: &Report| {
            let said = job.progress.said().get(&item).filter(|said| said.token == report.token);
            said.map(|said| said.offset.clone())
        };
        let left = report.and_then(|report| match report.offset.clone().or_else(|| progressed(report)) {
            Some(left) => Some(Some(left)),
            None => job.offsets.get(&item).cloned(),
        });
        self.put_record(name, job, item, version, record);
        // A long one is read again when it is wanted, rather than kept for every item.
        if let Some(left) = left.filter(|left| left.as_ref().is_none_or(|left| left.len() <= SHORT_OFFSET)) {
            job.offsets.insert(item, left);
        }
    }

    /// The jobs whose items waited longest for slots that have become free are looked at: once for all the slots that a
    /// worker got back together.
    pub(super) fn offer_freed_slots(&mut self) {
        for id in std::mem::take(&mut self.slots_freed) {
            let Some(worker) = self.workers.get(&id) else { continue };
            self.run_queue.extend(worker.waiting.first(worker.free() as usize).cloned());
        }
    }

    /// Sends what the record of an item says, if its worker is here and does not know it.
    pub(super) fn dispatch(&mut self, name: &JobName, job: &mut JobState, item: Item) {
        let Some((_, record)) = job.records.get(&item) else { return };
        let Some(run) = record.running().filter(|run| !run.held) else { return };
        let (token, run) = (record.token, run.clone());
        let not_before = self.lead_time.not_before(&run, self.now.wall);
        self.send_trigger(name, job, item, token, &run, not_before);
    }

    /// The same once the run `token` has been kept back until its time.
    pub(super) fn dispatch_waited(&mut self, name: &JobName, job: &mut JobState, item: Item, token: Token) {
        let Some((_, record)) = job.records.get(&item) else { return };
        let same = record.token == token;
        let Some(run) = record.running().filter(|run| same && !run.held).cloned() else { return };
        self.send_trigger(name, job, item, token, &run, None);
    }

    fn send_trigger(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        item: Item,
        token: Token,
        run: &Running,
        not_before: Option<Time>,
    ) {
        let Some(view) = job.view.clone() else { return };
        let reference = RunRef { job: name.clone(), item, token };
        let Some(worker) = self.workers.get_mut(&run.worker) else { return };
        // Of who has said Goodbye all that is in flight is handed back.
        let hears = !matches!(worker.phase, Phase::Attaching | Phase::Expiring | Phase::Leaving);
        if !hears || worker.dispatched.contains_key(&reference) {
            return;
        }
        let Some(stream) = worker.stream else { return };
        if !worker.rights.have(name) {
            // It counts as told: a run that it does not end now is ended for it.
            worker.dispatched.insert(reference.clone(), self.now.mono);
            return self.stop_lost(&run.worker, stream, reference);
        }
        let Some(offset) = job.offsets.get(&item) else {
            return self.ask_for_offset(name, job, item);
        };
        if let Some(at) = not_before.filter(|_| !worker.holds_triggers) {
            return self.lead_time.tell_later(at, name, item, token);
        }
        worker.dispatched.insert(reference.clone(), self.now.mono);
        let trigger = Trigger { not_before, ..trigger(&view, reference, run, offset.clone(), self.now.wall) };
        if trigger.offset.len() > SHORT_OFFSET {
            job.offsets.remove(&item);
        }
        self.note_lag(trigger.fire);
        self.send(stream, ToWorker::Trigger(Box::new(trigger)));
        if stops(&view, item, token) {
            self.run_queue.insert(name.clone());
        }
    }

    fn ask_for_offset(&mut self, name: &JobName, job: &mut JobState, item: Item) {
        if !job.reading_offsets.contains_key(&item) {
            job.reading_offsets.insert(item, last_end(job, item));
            self.read(ReadFor::Offset(name.clone(), item), Query::Offset(name.clone(), item));
        }
    }

    pub(super) fn offset_read(
        &mut self,
        name: &JobName,
        item: Item,
        read: Result<Option<Arc<[u8]>>, ReadError>,
    ) {
        let Some(mut job) = self.jobs.remove(name) else { return };
        let asked = job.reading_offsets.remove(&item).flatten();
        match read {
            Ok(offset) => {
                // Where a run has ended since, it is asked for again.
                if asked == last_end(&job, item) {
                    job.offsets.insert(item, offset);
                }
                self.dispatch(name, &mut job, item);
                self.send_waiting(name, &mut job);
            }
            // The worker's next heartbeat asks again; what no record holds is looked at with the job.
            Err(error) => {
                tracing::warn!(job = %name, item = item.0, "an offset could not be read: {error}");
                if !job.unmonitored.is_empty() {
                    job.retry_at = Some(self.now.mono.plus(self.settings.store_retry));
                    self.run_queue.insert(name.clone());
                }
            }
        }
        let worker = job.records.get(&item).and_then(|(_, record)| Some(record.running()?.worker.clone()));
        self.jobs.insert(name.clone(), job);
        if let Some(worker) = worker {
            self.confirm_draining(&worker);
        }
    }

    /// Runs that no record holds and whose offset was not known are sent, or it is read again.
    pub(super) fn send_waiting(&mut self, name: &JobName, job: &mut JobState) {
        for (item, token, run) in std::mem::take(&mut job.unmonitored) {
            self.send_unmonitored(name, job, item, token, run);
        }
    }

    /// A run that no record holds is sent once.
    pub(super) fn send_unmonitored(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        item: Item,
        token: Token,
        run: Running,
    ) {
        if job.offsets.contains_key(&item) {
            self.send_trigger(name, job, item, token, &run, None);
            let reference = RunRef { job: name.clone(), item, token };
            if let Some(worker) = self.workers.get_mut(&run.worker)
                && worker.dispatched.contains_key(&reference)
            {
                worker.untracked_runs.insert(reference, Some(run));
            }
        } else {
            self.ask_for_offset(name, job, item);
            job.unmonitored.push((item, token, run));
        }
    }

    /// After Welcome: what the worker has in flight is held against the records of its jobs.
    pub(super) fn reconcile_worker(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else { return };
        let in_flight: Vec<RunRef> = worker.dispatched.keys().cloned().collect();
        self.compare_runs(id, &in_flight);
    }

    /// Holds what a worker has in flight against the records, both ways.
    pub(super) fn compare_runs(&mut self, id: &WorkerId, in_flight: &[RunRef]) {
        for reference in in_flight {
            self.check_in_flight(id, reference);
        }
        let Some(worker) = self.workers.get_mut(id) else { return };
        if worker.phase == Phase::Attaching {
            return;
        }
        let (now, patience) = (self.now.mono, self.settings.heartbeat * 3);
        // What was sent a while ago and is not in flight did not arrive.
        let held: BTreeSet<&RunRef> = in_flight.iter().collect();
        worker.unheeded.retain(|run, _| !held.contains(run));
        let (unheeded, runs) = (&mut worker.unheeded, &worker.runs);
        worker.dispatched.retain(|run, since| {
            let stays = now.since(*since) < patience || held.contains(run);
            if !stays && runs.contains(&(run.job.clone(), run.item)) {
                let unheeded = unheeded.entry(run.clone()).or_default();
                unheeded.times += 1;
                unheeded.since.get_or_insert(*since);
            }
            stays
        });
        worker.untracked_runs.retain(|run, _| worker.dispatched.contains_key(run));
        let let_go: Vec<RunRef> =
            worker.taken_away.iter().filter(|run| !held.contains(run)).cloned().collect();
        for run in let_go {
            worker.taken_away.remove(&run);
            self.run_queue.insert(run.job);
        }
        let (jobs, known) = (&self.jobs, &worker.dispatched);
        let told = |(name, item): &&(JobName, Item)| {
            let token = jobs.get(name).and_then(|job| job.records.get(item)).map(|(_, record)| record.token);
            token.is_some_and(|token| known.contains_key(&RunRef { job: name.clone(), item: *item, token }))
        };
        let mut untold: Vec<(JobName, Item)> = worker.runs.iter().filter(|run| !told(run)).cloned().collect();
        if mutants::is_on(mutants::UNTOLD_STAYS_UNTOLD) {
            untold.clear();
        }
        let mut last = None;
        for (name, item) in untold {
            if let Some(mut job) = self.jobs.remove(&name) {
                if self.is_forgotten(id, &name, &mut job, item) {
                    self.jobs.insert(name, job);
                    continue;
                }
                // The properties of a run come with the Assignment, which is not to come after it.
                if let Some(view) = job.view.clone().filter(|_| last.as_ref() != Some(&name)) {
                    self.tell_assignments(&name, &mut job, &view);
                    last = Some(name.clone());
                }
                self.dispatch(&name, &mut job, item);
                self.jobs.insert(name, job);
            }
        }
    }

    fn check_in_flight(&mut self, id: &WorkerId, reference: &RunRef) {
        // Of a job with which it has nothing to do it may say what it likes: what a Hello named was read for it.
        let concerns = self.workers.get(id).is_some_and(|worker| worker.concerns(&reference.job));
        let Some(job) = self.jobs.get(&reference.job).filter(|_| concerns) else { return };
        if !job.loaded || job.stale_records || job.reading {
            return;
        }
        // What is older than the job is of the one before.
        let unmonitored =
            job.view.as_ref().is_some_and(|view| !view.rules.monitor && reference.token.0 > view.first.0);
        let mut apart = false;
        let named = job.records.get(&reference.item).is_some_and(|(_, record)| {
            let runs =
                record.running().is_some_and(|run| run.worker == *id) && record.token == reference.token;
            let ended =
                record.last.as_ref().is_some_and(|last| last.token == reference.token && last.reported);
            apart = unmonitored && !runs && !ended && reference.token <= record.token;
            runs || ended || apart
        });
        if let Some(worker) =
            self.workers.get_mut(id).filter(|worker| apart && worker.dispatched.contains_key(reference))
        {
            worker.untracked_runs.entry(reference.clone()).or_insert(None);
        }
        if !named {
            self.cancel(
                id,
                reference.clone(),
                CancelReason::Fenced,
                "another run of the item took its place",
            );
        }
    }

    pub(super) fn cancel(&mut self, id: &WorkerId, run: RunRef, reason: CancelReason, message: &str) {
        if reason == CancelReason::Fenced && mutants::is_on(mutants::FENCED_UNTOLD) {
            return;
        }
        if let Some(stream) = self.workers.get(id).and_then(|worker| worker.stream) {
            self.send(stream, ToWorker::Cancel { run, reason, message: message.to_string() });
        }
    }

    /// A run of which its worker was told again and again, and that it never named: it does not know of the run, whatever it
    /// says. True: the run is ended for it, as crashed.
    fn is_forgotten(&mut self, id: &WorkerId, name: &JobName, job: &mut JobState, item: Item) -> bool {
        let Some((_, record)) = job.records.get(&item) else { return false };
        let (token, run) = (record.token, RunRef { job: name.clone(), item, token: record.token });
        let Some(worker) = self.workers.get_mut(id) else { return false };
        let Unheeded { times: told, since } = worker.unheeded.get(&run).copied().unwrap_or_default();
        let theirs = record.running().is_some_and(|running| running.worker == *id);
        // What was told a lease before a heartbeat had arrived by then, or no acknowledgement behind it had either, and the
        // lease was over. And that heartbeat is no older than a lease, or it is over now.
        let arrives = 2 * self.settings.verdict_after(self.settings.lease);
        let arrived = since.is_some_and(|since| self.now.mono.since(since) > arrives)
            || mutants::is_on(mutants::FORGOTTEN_TOO_SOON);
        if told < MOST_TOLD || !arrived || !theirs || mutants::is_on(mutants::FORGOTTEN_RUNS_STAY) {
            return false;
        }
        let ended = Reported::Forgotten(worker.version);
        job.reports.entry(item).or_insert_with(|| {
            tracing::warn!(job = %name, item = item.0, %token, worker = %id, "a worker was told of a run {told} times and never named it: the run is ended as crashed");
            Report { token, worker: id.clone(), ended, offset: None }
        });
        self.run_queue.insert(name.clone());
        true
    }

    pub(super) fn run_completed(&mut self, stream: StreamId, id: &WorkerId, completed: Completed) {
        let most = self.settings.max_reports;
        let Some(worker) = self.workers.get(id) else { return };
        if worker.phase == Phase::Expiring {
            return;
        }
        if worker.unacknowledged >= most {
            let refusal =
                Refusal::new(Code::TooManyReports, format!("more than {most} reports are unacknowledged"));
            return self.close(stream, Some(refusal));
        }
        let (name, item) = (completed.run.job.clone(), completed.run.item);
        let anybodys = mutants::is_on(mutants::ANY_REPORT_COUNTS);
        let theirs = worker.concerns(&name) || anybodys;
        // No state is made for a name that somebody said.
        let Some(job) = self.jobs.get_mut(&name).filter(|_| theirs) else {
            return self.acknowledge(id, completed.run, Some(fenced()));
        };
        let report = Report {
            token: completed.run.token,
            worker: id.clone(),
            ended: completed.ended,
            offset: completed.offset.clone(),
        };
        if let Some(Some(strange)) = decide(job, item, &report).filter(|_| !anybodys) {
            return self.answer_report(id, completed.run, Some(strange));
        }
        let known = job.reports.get(&item);
        let same = known.is_some_and(|known| (known.token, &known.worker) == (report.token, id));
        if same && known.is_some_and(|known| known.ended.is_of_worker()) {
            // It is said again, and counted already.
        } else if known.is_none_or(|known| !known.ended.is_of_worker()) {
            if let Some(worker) = self.workers.get_mut(id) {
                worker.unacknowledged += 1;
            }
        } else {
            if anybodys && known.is_some_and(|known| known.token > report.token) {
                return self.acknowledge(id, completed.run, Some(fenced()));
            }
            // Which of the two is the item's run the records say, once they are read.
            if let Some(worker) = self.workers.get_mut(id) {
                worker.unacknowledged += 1;
            }
            job.disputed.push_back((id.clone(), completed));
            return self.run_queue.insert(name);
        }
        job.reports.insert(item, report);
        job.details.insert(item, (id.clone(), Arc::new(completed)));
        self.run_queue.insert(name);
    }

    /// Reports that were in dispute, now that it can be said which is of the item's run.
    fn settle_disputes(&mut self, job: &mut JobState) {
        if !can_decide(job) {
            return;
        }
        for (id, completed) in std::mem::take(&mut job.disputed) {
            let item = completed.run.item;
            let report = Report {
                token: completed.run.token,
                worker: id.clone(),
                ended: completed.ended,
                offset: completed.offset.clone(),
            };
            let free = job.reports.get(&item).is_none_or(|known| !known.ended.is_of_worker());
            match decide(job, item, &report) {
                Some(refusal) => {
                    self.one_report_less(&id);
                    self.answer_report(&id, completed.run, refusal);
                }
                None if free => {
                    job.reports.insert(item, report);
                    job.details.insert(item, (id, Arc::new(completed)));
                }
                None => job.disputed.push_back((id, completed)),
            }
        }
    }

    fn one_report_less(&mut self, id: &WorkerId) {
        if let Some(worker) = self.workers.get_mut(id) {
            worker.unacknowledged = worker.unacknowledged.saturating_sub(1);
        }
    }

    /// What is answered its worker has no more in flight.
    fn answer_report(&mut self, id: &WorkerId, run: RunRef, refusal: Option<Refusal>) {
        if let Some(worker) = self.workers.get_mut(id) {
            worker.dispatched.remove(&run);
            if worker.taken_away.remove(&run) {
                self.run_queue.insert(run.job.clone());
            }
        }
        self.acknowledge(id, run, refusal);
    }

    /// Answers every report that the records have decided: what is left is to be committed.
    pub(super) fn answer_reports(&mut self, name: &JobName, job: &mut JobState) {
        forget_skips(job);
        let decided: Vec<(Item, Option<Refusal>)> = job
            .reports
            .iter()
            .filter_map(|(item, report)| Some((*item, decide(job, *item, report)?)))
            .collect();
        for (item, refusal) in decided {
            let Some(report) = job.reports.remove(&item) else { continue };
            if !report.ended.is_of_worker() {
                continue;
            }
            let detail = job.details.remove(&item).map(|(_, detail)| detail);
            let run = RunRef { job: name.clone(), item, token: report.token };
            let apart =
                self.workers.get_mut(&report.worker).and_then(|worker| worker.untracked_runs.remove(&run));
            if let Some(told) = apart {
                self.record_unmonitored(name, &run, told, detail);
                self.run_queue.insert(name.clone());
            }
            self.one_report_less(&report.worker);
            self.answer_report(&report.worker, run, refusal);
        }
        self.settle_disputes(job);
    }

    fn acknowledge(&mut self, id: &WorkerId, run: RunRef, refusal: Option<Refusal>) {
        if let Some(stream) = self.workers.get(id).and_then(|worker| worker.stream) {
            self.send(stream, ToWorker::ReportAck { run, refusal });
        }
    }
}

/// The item's last run that has ended, as far as it was read.
fn last_end(job: &JobState, item: Item) -> Option<Token> {
    job.records.get(&item).and_then(|(_, record)| Some(record.last.as_ref()?.token))
}

/// What was to be skipped while it was held, and is held no more, is nobody's report: its worker was never told of it, or
/// was told to run it.
fn forget_skips(job: &mut JobState) {
    let records = &job.records;
    let held = |item: &Item, token: Token| {
        records
            .get(item)
            .is_some_and(|(_, record)| record.token == token && record.running().is_some_and(|run| run.held))
    };
    job.reports.retain(|item, report| report.ended != Reported::Skipped || held(item, report.token));
}

/// Whether the records known here say whose run an item's is.
fn can_decide(job: &JobState) -> bool {
    job.loaded && !job.stale_records && !job.reading
}

/// What a report is answered: `None`, not decided yet; `Some(None)`, accepted.
fn decide(job: &JobState, item: Item, report: &Report) -> Option<Option<Refusal>> {
    if !can_decide(job) {
        return None;
    }
    // What it says of the run is decided once the job can be understood again.
    let Some(view) = &job.view else { return job.damaged.is_none().then(|| Some(fenced())) };
    let Some((_, record)) = job.records.get(&item) else { return Some(Some(fenced())) };
    // Also without monitoring: the run began before that was switched off.
    let same = record.token == report.token || mutants::is_on(mutants::REPORT_TOKEN_UNCHECKED);
    if record.running().is_some_and(|run| run.worker == report.worker) && same {
        return None;
    }
    if !view.rules.monitor && report.token <= record.token {
        return Some(None);
    }
    let ended = record.last.as_ref().filter(|last| last.token == report.token && last.reported);
    let theirs = ended.is_some_and(|last| last.instance.worker().as_ref() == Some(&report.worker));
    Some((!theirs).then(fenced))
}

fn fenced() -> Refusal {
    Refusal::new(Code::ReportFenced, Code::ReportFenced.remedy().trim())
}

/// The run as the worker is told of it.
fn trigger(view: &Job, run: RunRef, running: &Running, offset: Option<Arc<[u8]>>, now: Time) -> Trigger {
    let (config, policy) = (view.spec.config(), view.spec.policy());
    Trigger {
        task_id: task_id(&run.job, run.item, &running.instance),
        incarnation: view.incarnation.clone(),
        fire: running.fire,
        source: running.source,
        item_parameter: config.sharding_item_parameters.get(run.item).unwrap_or_default().to_string(),
        job_parameter: config.job_parameter.clone(),
        total: view.rules.items,
        offset: offset.unwrap_or_else(|| Arc::from(&[][..])),
        not_before: None,
        starts_in: Duration::ZERO,
        // What is left of it: a run that is told late ends no later.
        timeout: policy.run_timeout.map(|whole| {
            let left = times_out(view, running).map_or(whole, |at| at.since(now));
            left.clamp(Duration::from_millis(1), whole)
        }),
        kind: kind(policy.kind),
        retries: policy.retries,
        sampled: true,
        run,
    }
}

/// A job's kind in the words of the stream.
pub(super) fn kind(kind: job::Kind) -> Kind {
    match kind {
        job::Kind::Simple => Kind::Simple,
        job::Kind::Dataflow { streaming } => Kind::Dataflow { streaming },
        job::Kind::Command => Kind::Command,
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
