//! Sends runs to workers. It follows from the records alone: a run that a record assigns to a worker here, and that the
//! worker does not know, is sent. So a Trigger is sent only after its commit, and again after any loss, always under
//! its token.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, JobName, Token, task_id};
use rosterd_domain::item::Running;
use rosterd_domain::job;
use rosterd_domain::plan::times_out;
use rosterd_domain::time::Time;
use rosterd_domain::view::Job;
use rosterd_registry::ReadError;
use rosterd_session::frame::{RunKind, RunRef, ToWorker, Trigger};

use crate::io::event::Query;
use crate::io::pending::ReadFor;
use crate::job::commands::stops;
use crate::job::parts::dispatch::Told;
use crate::job::records::{SHORT_OFFSET, last_end};
use crate::job::state::JobState;
use crate::job::{AllJobs, JobTurn};
use crate::workers::parts::link::AttachmentPhase;

impl JobTurn<'_> {
    pub(crate) fn tell_assignments(&mut self, name: &JobName, job: &mut JobState, view: &Job) {
        let mut owned: BTreeMap<&InstanceId, Vec<Item>> = BTreeMap::new();
        for (item, owner) in view.sharding.owned() {
            owned.entry(owner).or_default().push(item);
        }
        let props = job.dispatch.props(&view.spec.config().props);
        for (instance, id) in job.roster.hosted() {
            let items = owned.get(instance).cloned().unwrap_or_default();
            let Some(worker) = self.workers.get(id) else { continue };
            if !worker.work.has(name) || worker.link.phase() != AttachmentPhase::Attached {
                continue;
            }
            let Some(stream) = worker.link.stream() else { continue };
            let told = Told { stream, items, props: props.clone() };
            if !job.dispatch.tells_assignment(instance, &told) {
                continue;
            }
            let (generation, total) = (view.generation.0, view.rules.items);
            let Told { items, props, .. } = told;
            self.workers.send(
                self.io,
                stream,
                ToWorker::Assignment { job: name.clone(), items, generation, total, props },
            );
        }
    }

    /// Sends the run in an item's record, if its worker is here and does not know it.
    pub(crate) fn dispatch(&mut self, name: &JobName, job: &mut JobState, item: Item) {
        let Some((_, record)) = job.cache.record(item) else { return };
        let Some(run) = record.running().filter(|run| !run.held) else { return };
        let (token, run) = (record.token, run.clone());
        let not_before = self.schedule.lead_time.not_before(&run, self.io.now.wall);
        self.send_trigger(name, job, item, token, &run, not_before);
    }

    /// The same after the run `token` has been held back until its time.
    pub(crate) fn dispatch_waited(&mut self, name: &JobName, job: &mut JobState, item: Item, token: Token) {
        let Some((_, record)) = job.cache.record(item) else { return };
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
        let Some(view) = job.cache.view().cloned() else { return };
        let reference = RunRef { job: name.clone(), item, token };
        let Some(worker) = self.workers.get_mut(&run.worker) else { return };
        // After a Goodbye everything in flight is handed back.
        let hears = !matches!(
            worker.link.phase(),
            AttachmentPhase::Attaching | AttachmentPhase::Expiring | AttachmentPhase::Leaving
        );
        if !hears || worker.flight.knows(&reference) {
            return;
        }
        let Some(stream) = worker.link.stream() else { return };
        if !worker.work.may_have(name) {
            // It counts as sent: if the worker does not end the run now, it is ended as crashed.
            worker.flight.tell(reference.clone(), self.io.now.mono);
            return self.workers_turn().stop_lost(&run.worker, stream, reference);
        }
        let Some(offset) = job.dispatch.offset(item) else {
            return self.ask_for_offset(name, job, item);
        };
        if let Some(at) = not_before.filter(|_| !worker.holds_triggers) {
            return self.schedule.lead_time.tell_later(at, name, item, token);
        }
        worker.flight.tell(reference.clone(), self.io.now.mono);
        let trigger =
            Trigger { not_before, ..trigger(&view, reference, run, offset.clone(), self.io.now.wall) };
        if trigger.offset.len() > SHORT_OFFSET {
            job.dispatch.forget_offset(item);
        }
        self.cluster.note_lag(self.io, trigger.fire);
        self.workers.send(self.io, stream, ToWorker::Trigger(Box::new(trigger)));
        if stops(&view, item, token) {
            self.schedule.run_queue.insert(name.clone());
        }
    }

    fn ask_for_offset(&mut self, name: &JobName, job: &mut JobState, item: Item) {
        let last = last_end(job, item);
        if job.dispatch.asks_for_offset(item, last) {
            self.io.read(ReadFor::Offset(name.clone(), item), Query::Offset(name.clone(), item));
        }
    }
}

impl AllJobs<'_> {
    pub(crate) fn offset_read(
        &mut self,
        name: &JobName,
        item: Item,
        read: Result<Option<Arc<[u8]>>, ReadError>,
    ) {
        let Some((mut turn, job)) = self.turn_of(name) else { return };
        let asked = job.dispatch.offset_read(item);
        match read {
            Ok(offset) => {
                // If a run has ended since, the offset is read again.
                if asked == last_end(job, item) {
                    job.dispatch.put_offset(item, offset);
                }
                turn.dispatch(name, job, item);
                turn.send_waiting(name, job);
            }
            // The worker's next heartbeat causes another read; runs without a record get it with the job's turn.
            Err(error) => {
                tracing::warn!(job = %name, item = item.0, "an offset could not be read: {error}");
                if !job.dispatch.unmonitored().is_empty() {
                    job.writer.back_off(turn.io.now.mono.plus(turn.io.settings.store_retry));
                    turn.schedule.run_queue.insert(name.clone());
                }
            }
        }
        let worker = job.cache.record(item).and_then(|(_, record)| Some(record.running()?.worker.clone()));
        if let Some(worker) = worker {
            self.confirm_draining(&worker);
        }
    }
}

impl JobTurn<'_> {
    /// Sends runs that no record holds and whose offset was not known, or reads the offset again.
    pub(crate) fn send_waiting(&mut self, name: &JobName, job: &mut JobState) {
        for (item, token, run) in job.dispatch.take_unmonitored() {
            self.send_unmonitored(name, job, item, token, run);
        }
    }

    /// Sends a run that no record holds, once.
    pub(crate) fn send_unmonitored(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        item: Item,
        token: Token,
        run: Running,
    ) {
        if job.dispatch.knows_offset(item) {
            self.send_trigger(name, job, item, token, &run, None);
            let reference = RunRef { job: name.clone(), item, token };
            if let Some(worker) = self.workers.get_mut(&run.worker)
                && worker.flight.knows(&reference)
            {
                worker.ledger.put_untracked(reference, run);
            }
        } else {
            self.ask_for_offset(name, job, item);
            job.dispatch.wait_for_offset((item, token, run));
        }
    }
}

impl AllJobs<'_> {
    /// Sends up to `most` of the runs whose time has come.
    pub(crate) fn tell_due_runs(&mut self, most: usize) {
        let mut told = 0;
        while told < most
            && let Some((name, item, token)) = self.schedule.lead_time.pop_due(self.io.now.wall)
        {
            told += 1;
            if let Some((mut turn, job)) = self.turn_of(&name) {
                turn.dispatch_waited(&name, job, item, token);
            }
        }
        if told > 0 {
            self.workers.leavers_may_go_on();
        }
    }
}

/// The run, as a frame for the worker.
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
        // The remaining time: a run that is sent late does not end later.
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

/// A job's kind in the terms of the protocol.
pub(crate) fn kind(kind: job::JobKind) -> RunKind {
    match kind {
        job::JobKind::Simple => RunKind::Simple,
        job::JobKind::Dataflow { streaming } => RunKind::Dataflow { streaming },
        job::JobKind::Command => RunKind::Command,
    }
}
