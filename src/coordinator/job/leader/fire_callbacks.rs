//! Guarantees: one callback before any item of a fire runs, one after the last has completed. Each is sent once per
//! fire to one instance, with a time limit; the first one holds the fire: no trigger is sent until it is answered or
//! has timed out. The leader decides.
//!
//! The chosen instance is recorded before it is called, and its answer before anything follows from it. So a
//! coordinator that takes over calls the same instance again, under the same id, and the client repeats its answer;
//! another instance is called only if that one is gone.

use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, JobName, Version, WorkerId};
use rosterd_domain::item::{ItemEvent, Source, State};
use rosterd_domain::mutants;
use rosterd_domain::snapshot::{Announced, Stage};
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::{Purpose, Txn, Write};
use rosterd_domain::view::Job;
use rosterd_session::frame::{CallbackDone, ToWorker};

use crate::io::event::StreamId;
use crate::io::timers::Timer;
use crate::job::leader::LeaderTurn;
use crate::job::parts::callbacks::{Calling, skipped};
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;
use crate::job::txn::{CHUNK, applied, led};
use crate::job::{AllJobs, JobTurn};
use crate::workers::parts::link::AttachmentPhase;

/// How many `completed` mirrors one transaction removes.
const CLEARED: u32 = 1000;

/// The progress of an announcement.
enum CallbackStep {
    /// A transaction is in flight.
    Writing,
    /// Its answer is awaited.
    Waiting,
    /// It was answered, or has timed out; not recorded yet.
    Answered,
    /// The answer is recorded.
    Done,
}

impl JobTurn<'_> {
    /// Whether other hosts hold runs that this leader must know of, or another leader releases runs that are held here:
    /// their writes give hints, and are also read now and then in case a hint was lost.
    pub(crate) fn announces_with_others(&self, job: &JobState, view: &Job) -> bool {
        let held =
            || job.cache.records().values().any(|(_, record)| record.running().is_some_and(|run| run.held));
        // A coordinator that holds runs also reads when no callback is pending: the runs are released then.
        self.cluster.members().has_others(&self.io.settings.id)
            && (view.rules.announces() && job.leads() || held())
    }

    pub(crate) fn released(&mut self, name: &JobName, job: &mut JobState, items: &[Item]) {
        job.cache.went_stale();
        for item in items {
            if let Some((version, record)) = job.cache.record(*item) {
                let (version, record) = (Version::next(*version), applied(record, &ItemEvent::Release));
                self.put_record(name, job, *item, version, Arc::new(record));
                self.dispatch(name, job, *item);
            }
        }
    }
}

impl LeaderTurn<'_, '_> {
    /// Sends due announcements and releases held runs; true if a transaction is in flight.
    pub(crate) fn guarantees(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if !view.rules.holds_for_started() && !mutants::is_on(mutants::HELD_STAYS_HELD) {
            // The guarantee was switched off while they were held: no instance is called.
            let held = held(job).map(|(item, _)| item).take(CHUNK).collect::<Vec<Item>>();
            if !held.is_empty() {
                let txn = release(name, job, view, &held);
                self.submit(name, job, txn, Intent::Release(held));
                return true;
            }
        }
        (view.rules.guarantee_completed && self.complete(name, job, view))
            || (view.rules.holds_for_started() && self.hold(name, job, view))
    }
}

impl AllJobs<'_> {
    /// Runs of a job with guarantees were held, released or have ended somewhere.
    pub(crate) fn guarantees_moved(&mut self, name: &JobName) {
        let Some((turn, job)) = self.turn_of(name) else { return };
        if job.cache.view().is_some_and(|view| turn.announces_with_others(job, view)) {
            job.cache.records_went_stale();
            self.schedule.run_queue.insert(name.clone());
        }
    }
}

impl JobTurn<'_> {
    fn complete(&mut self, name: &JobName, job: &mut JobState, view: &Job) -> bool {
        let before = view.announced(Stage::Completed);
        // One at a time: of the fires that complete while one is being answered, the latest is announced afterwards.
        let unanswered = before.filter(|before| !before.answered).map(|before| before.fire);
        let Some(fire) = unanswered.or_else(|| completed(job, view)) else { return false };
        if before.is_some_and(|before| before.fire > fire) {
            return false;
        }
        match self.announce(name, job, view, Stage::Completed, fire) {
            CallbackStep::Writing => true,
            CallbackStep::Waiting | CallbackStep::Done => false,
            CallbackStep::Answered => {
                // In parts. A part that fails is not repeated: an item's next run removes its mirror as well.
                let calling = job.guarantee.of(Stage::Completed).as_mut();
                let from = calling.as_ref().map_or(0, |calling| calling.cleared());
                let upto = view.rules.items.min(from.saturating_add(CLEARED));
                let mut txn = led(Purpose::Announced, view);
                for item in (from..upto).map(Item) {
                    txn.write(Write::Completed { job: name.clone(), item, present: false });
                }
                if let Some(calling) = calling.filter(|_| upto < view.rules.items) {
                    calling.clear(upto);
                    self.submit(name, job, txn, Intent::Announce);
                } else {
                    self.write_answered(name, job, view, txn, (Stage::Completed, fire), Vec::new());
                }
                true
            }
        }
    }

    fn hold(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let held: Vec<(Item, Time)> = held(job).collect();
        let Some(fire) = held.iter().map(|(_, fire)| *fire).min() else { return false };
        let of_fire: Vec<Item> =
            held.iter().filter(|(_, other)| *other == fire).map(|(item, _)| *item).collect();
        let before = view.announced(Stage::Started);
        let late = before.is_some_and(|before| before.fire > fire);
        if before.is_none_or(|before| before.fire < fire)
            && self.waits_for_more(name, job, view, fire, &of_fire)
        {
            return false;
        }
        let step =
            if late { CallbackStep::Done } else { self.announce(name, job, view, Stage::Started, fire) };
        match step {
            CallbackStep::Writing => true,
            CallbackStep::Waiting => false,
            CallbackStep::Answered if job.guarantee.skips(view) => {
                // Including runs that are held later.
                skip_held(job, fire);
                false
            }
            CallbackStep::Answered | CallbackStep::Done => {
                // The others follow: the announcement is answered by then.
                let of_fire: Vec<Item> = of_fire.into_iter().take(CHUNK).collect();
                let txn = release(name, job, view, &of_fire);
                if matches!(step, CallbackStep::Answered) {
                    self.write_answered(name, job, view, txn, (Stage::Started, fire), of_fire);
                } else {
                    self.submit(name, job, txn, Intent::Release(of_fire));
                }
                true
            }
        }
    }

    /// Whether to wait for an item that will take part in this fire and has not started. Items that are busy with an
    /// earlier run, disabled, without an owner or without a slot do not take part; and the wait is limited by the
    /// timeout of an answer.
    fn waits_for_more(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Job,
        fire: Time,
        started: &[Item],
    ) -> bool {
        if view.paused || view.rules.disabled {
            return false;
        }
        let takes_part =
            |item: &Item| !started.contains(item) && !view.sharding.disabled_items.contains(item);
        let missing = (0..view.rules.items).map(Item).filter(takes_part);
        let mut expected = missing.filter(|item| {
            job.cache.record(*item).is_some_and(|(_, r)| r.state.is_idle() && r.last_fire < fire)
        });
        let can_start =
            |owner| self.has_a_slot(job, view, owner) || mutants::is_on(mutants::HELD_WAITS_FOR_SLOTS);
        if !expected.any(|item| view.sharding.owner(item).is_some_and(can_start)) {
            return false;
        }
        let until = self.io.now.mono.plus(view.spec.policy().guarantee.timeout);
        let (until, begins) = job.guarantee.wait_until(fire, until);
        if begins {
            self.io.timers.insert((until, Timer::Callback(name.clone())));
        }
        self.io.now.mono < until || mutants::is_on(mutants::HELD_WAITS_FOR_EVER)
    }

    /// Whether an instance has room for one more run of the job. If it is elsewhere, its runs of other jobs are not
    /// known here.
    fn has_a_slot(&self, job: &JobState, view: &Job, instance: &InstanceId) -> bool {
        if let Some(worker) = job.roster.worker_of(instance).and_then(|id| self.workers.get(id)) {
            return worker.ledger.free() > 0;
        }
        let slots =
            view.instances.get(instance).and_then(|seen| seen.node.as_ref()).map_or(0, |node| node.slots);
        let runs = job.cache.records().values().filter_map(|(_, record)| record.running());
        runs.filter(|run| run.instance == *instance).count() < slots as usize
    }

    /// The next step of an announcement: records the chosen instance, calls it, and calls it again if it has
    /// reconnected.
    fn announce(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Job,
        stage: Stage,
        fire: Time,
    ) -> CallbackStep {
        let known = view.announced(stage).filter(|known| known.fire == fire);
        let Some(known) = known else { return self.choose(name, job, view, stage, fire) };
        if known.answered {
            *job.guarantee.of(stage) = None;
            return CallbackStep::Done;
        }
        let asked = known.instance.as_ref();
        let here = asked.and_then(|asked| job.roster.worker_of(asked)).and_then(|id| self.workers.get(id));
        // Before Welcome it gets no other frames.
        let stream = here
            .filter(|worker| worker.link.phase() != AttachmentPhase::Attaching)
            .and_then(|worker| worker.link.stream());
        let here = here.is_some();
        let calling = job.guarantee.of(stage).as_ref().filter(|calling| calling.id() == known.callback);
        let reachable = here || asked.is_some_and(|asked| self.is_elsewhere(asked));
        match calling {
            Some(calling) if calling.is_answered() => CallbackStep::Answered,
            _ if !reachable => self.choose(name, job, view, stage, fire),
            Some(calling) if stream.is_none() || calling.stream() == stream => CallbackStep::Waiting,
            // If it cannot be reached now, it may come back and answer until the timeout.
            _ => {
                let until = calling.map(Calling::until);
                self.call(name, job, view, (stage, fire), known.callback.clone(), (stream, until));
                CallbackStep::Waiting
            }
        }
    }

    fn is_elsewhere(&self, instance: &InstanceId) -> bool {
        instance.worker().is_some_and(|worker| self.workers.elsewhere(&worker).is_some())
    }

    /// Chooses an instance here to call, and records it.
    fn choose(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Job,
        stage: Stage,
        fire: Time,
    ) -> CallbackStep {
        let there = |id: &&rosterd_domain::id::WorkerId| {
            self.workers.get(id).is_some_and(|worker| worker.link.stream().is_some() && worker.ready())
        };
        let Some((instance, _)) = job.roster.hosted().iter().find(|(_, id)| there(id)) else {
            return CallbackStep::Waiting;
        };
        let instance = Some(instance.clone());
        let announced = Announced { fire, callback: (self.io.ids)(), instance, answered: false };
        let mut txn = led(Purpose::Announce, view);
        txn.write(Write::Announced { job: name.clone(), stage, announced: Box::new(announced) });
        self.submit(name, job, txn, Intent::Announce);
        CallbackStep::Writing
    }

    /// Calls the instance, or starts to wait for one that is not here. One that is called again has the rest of its
    /// time.
    fn call(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Job,
        (stage, fire): (Stage, Time),
        id: String,
        (stream, until): (Option<StreamId>, Option<Mono>),
    ) {
        let timeout = view.spec.policy().guarantee.timeout;
        let until = until.unwrap_or_else(|| self.io.now.mono.plus(timeout));
        *job.guarantee.of(stage) = Some(Calling::new(id.clone(), stream, until));
        self.io.timers.insert((until, Timer::Callback(name.clone())));
        let completed = stage == Stage::Completed;
        if let Some(stream) = stream {
            self.workers.send(
                self.io,
                stream,
                ToWorker::Callback { id, job: name.clone(), fire, completed, timeout },
            );
        }
    }

    /// Records that an announcement was answered, with what follows from it.
    fn write_answered(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Job,
        mut txn: Txn,
        (stage, fire): (Stage, Time),
        released: Vec<Item>,
    ) {
        if let Some(known) = view.announced(stage).filter(|known| known.fire == fire) {
            let announced = Box::new(Announced { answered: true, ..known.clone() });
            txn.write(Write::Announced { job: name.clone(), stage, announced });
        }
        self.submit(name, job, txn, Intent::Release(released));
    }
}

impl AllJobs<'_> {
    /// The called instance has answered. Answers of other workers are ignored. The worker gives up at the timeout,
    /// which may be a moment before this coordinator notices it.
    pub(crate) fn callback_done(&mut self, stream: StreamId, worker: &WorkerId, done: &CallbackDone) {
        let (now, id, error, timed_out) = (self.io.now.mono, &done.callback, &done.error, done.timed_out);
        let Some(worker) = self.workers.get(worker) else { return };
        let found = worker.work.jobs().find_map(|name| {
            let job = self.jobs.all.get_mut(name)?;
            let (_, calling) = job.guarantee.any(|calling| calling.is_asked(id, stream))?;
            let late = timed_out || calling.until() <= now;
            calling.end(late && !mutants::is_on(mutants::GIVEN_UP_IS_ANSWERED));
            Some(name.clone())
        });
        let Some(name) = found else { return };
        if !error.is_empty() {
            tracing::warn!(job = %name, "a callback failed: {error}");
        }
        self.schedule.run_queue.insert(name);
    }

    /// A callback has timed out: depending on the policy the fire runs nevertheless, or is skipped.
    pub(crate) fn callback_timer(&mut self, name: &JobName) {
        let now = self.io.now.mono;
        let Some(job) = self.jobs.all.get_mut(name) else { return };
        let leads = job.leads();
        while let Some((stage, calling)) = job.guarantee.any(|c| c.until() <= now && !c.is_answered()) {
            if !leads {
                // Another leader calls, and uses its own timeout.
                *job.guarantee.of(stage) = None;
                continue;
            }
            tracing::warn!(job = %name, callback = calling.id(), "a callback was not answered in time");
            calling.end(true);
        }
        self.schedule.run_queue.insert(name.clone());
    }
}

/// Items whose runs are held, with their fire.
fn held(job: &JobState) -> impl Iterator<Item = (Item, Time)> {
    let unreported = job.cache.records().iter().filter(|(item, _)| !job.reports.has(**item));
    unreported.filter_map(|(item, (_, record))| Some((*item, record.running().filter(|run| run.held)?.fire)))
}

/// The latest fire that all items have completed: each has ended a run of it, or of a later one, and none of its runs
/// is in flight or waits for failover. Disabled items do not take part.
fn completed(job: &JobState, view: &Job) -> Option<Time> {
    let mut through: Option<Time> = None;
    let mut open: Option<Time> = None;
    for item in (0..view.rules.items).map(Item).filter(|item| !view.sharding.disabled_items.contains(item)) {
        let (_, record) = job.cache.record(item)?;
        let last = record.last.as_ref().filter(|last| last.source != Source::Manual)?;
        through = Some(through.map_or(last.fire, |fire| fire.min(last.fire)));
        let fire = match &record.state {
            State::Idle => continue,
            State::Running(run) if run.source == Source::Manual => continue,
            State::Running(run) => run.fire,
            State::Crashed(crashed) => crashed.fire,
        };
        open = Some(open.map_or(fire, |other| other.min(fire)));
    }
    through.filter(|fire| open.is_none_or(|open| open > *fire))
}

fn release(name: &JobName, job: &JobState, view: &Job, items: &[Item]) -> Txn {
    let mut txn = led(Purpose::Release, view);
    for item in items {
        if let Some((version, record)) = job.cache.record(*item) {
            let record = Arc::new(applied(record, &ItemEvent::Release));
            txn.write(Write::Record { job: name.clone(), item: *item, expect: Some(*version), record });
            txn.write(Write::Started { job: name.clone(), item: *item, present: false });
        }
    }
    txn
}

/// Held runs of a fire that will not be sent end as cancelled.
fn skip_held(job: &mut JobState, fire: Time) {
    for (item, (_, record)) in job.cache.records() {
        if let Some(run) = record.running().filter(|run| run.held && run.fire == fire) {
            job.reports.put_if_none(*item, || skipped(run, record.token));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::tests::{at, host};

    #[test]
    fn a_callback_is_answered_by_the_one_that_was_asked_and_nobody_else() {
        let mut machine = host();
        let (asked, name) =
            (machine.workers.here().keys().next().unwrap().clone(), JobName::new("report").unwrap());
        let mut job = JobState::default();
        *job.guarantee.of(Stage::Started) = Some(Calling::new("c-1".into(), Some(1), at(60.0).mono));
        machine.jobs.put(name.clone(), job);
        let done = CallbackDone { callback: "c-1".into(), error: String::new(), timed_out: false };
        let is_answered = |machine: &mut Machine, stream, worker: &WorkerId| {
            machine.all_jobs().callback_done(stream, worker, &done);
            let job = machine.jobs.all.get_mut(&name).unwrap();
            job.guarantee.of(Stage::Started).as_ref().unwrap().is_answered()
        };
        assert!(!is_answered(&mut machine, 1, &asked), "it does not work for the job");
        machine.workers.get_mut(&asked).unwrap().work.begin(&name);
        assert!(!is_answered(&mut machine, 2, &asked), "on another stream");
        assert!(!is_answered(&mut machine, 1, &WorkerId::new("stranger").unwrap()));
        assert!(is_answered(&mut machine, 1, &asked));
    }
}
