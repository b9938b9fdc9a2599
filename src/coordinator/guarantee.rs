//! Guarantees: one callback before any item of a fire runs, one after the last has completed. Each is announced
//! once per fire to one instance, with a time limit; the first one holds the fire: no trigger goes out until it is
//! answered or its time is over. The leader decides.
//!
//! Who was asked is written down before it is asked, and that it has answered before anything follows. So a
//! coordinator that comes after asks the same instance again, under the same id, which the client answers from
//! memory; another instance is asked only where that one has gone.

use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, JobName, Token, Version, WorkerId};
use rosterd_domain::item::{Event, Running, Source, State};
use rosterd_domain::job::OnTimeout;
use rosterd_domain::mutants;
use rosterd_domain::plan::{Report, Reported};
use rosterd_domain::snapshot::{Announced, Stage};
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::{Purpose, Txn, Write};
use rosterd_domain::view::Job;

use super::advance::CHUNK;
use super::advance::applied;
use super::change::led;
use super::event::StreamId;
use super::job::{Intent, JobState};
use super::node::Node;
use super::timers::Timer;
use super::worker::Phase;
use rosterd_session::frame::{CallbackDone, ToWorker};

/// `completed` mirrors that one transaction takes back.
const CLEARED: u32 = 1000;

/// The callbacks of one job that are under way.
#[derive(Debug, Default)]
pub(crate) struct Guarantee {
    started: Option<Calling>,
    completed: Option<Calling>,
    /// Until when items of a fire that have not started are waited for.
    waits: Option<(Time, Mono)>,
}

#[derive(Debug)]
struct Calling {
    id: String,
    /// Where it was asked; none: it cannot be reached from here now.
    stream: Option<StreamId>,
    until: Mono,
    answered: bool,
    /// Nobody answered: its time was over.
    timed_out: bool,
    /// The mirrors of so many items were taken back since.
    cleared: u32,
}

impl Guarantee {
    /// Whether the fire that is being announced is skipped, since nobody answered.
    fn skips(&self, view: &Job) -> bool {
        let timed_out = self.started.as_ref().is_some_and(|calling| calling.timed_out);
        timed_out && view.spec.policy().guarantee.on_timeout == OnTimeout::Skip
    }

    /// Whether somebody here is being asked: who answers, answers this coordinator.
    pub(super) fn is_asking(&self) -> bool {
        let all = [&self.started, &self.completed];
        all.into_iter().flatten().any(|calling| calling.stream.is_some() && !calling.answered)
    }

    fn of(&mut self, stage: Stage) -> &mut Option<Calling> {
        match stage {
            Stage::Started => &mut self.started,
            Stage::Completed => &mut self.completed,
        }
    }

    fn any(&mut self, is: impl Fn(&Calling) -> bool) -> Option<(Stage, &mut Calling)> {
        let all = [(Stage::Started, &mut self.started), (Stage::Completed, &mut self.completed)];
        all.into_iter().find_map(|(stage, calling)| Some((stage, calling.as_mut().filter(|c| is(c))?)))
    }
}

/// How far an announcement is.
enum Step {
    /// A transaction is under way.
    Writing,
    /// It is waited for.
    Waiting,
    /// It was answered, or its time was over; not written down yet.
    Answered,
    /// That is written down.
    Done,
}

impl Node {
    /// Announces what is to be announced and releases what was held; true when a transaction is under way.
    pub(super) fn guarantees(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if !job.leads() || self.no_starts() {
            return false;
        }
        if !view.rules.holds_for_started() && !mutants::is_on(mutants::HELD_STAYS_HELD) {
            // It was switched off while they were held: nobody is asked any more.
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

    /// Runs of a job with guarantees were held, released or have ended somewhere.
    pub(super) fn guarantees_moved(&mut self, name: &JobName) {
        let Some(job) = self.jobs.get(name) else { return };
        if job.view.as_ref().is_some_and(|view| self.announces_with_others(job, view))
            && let Some(job) = self.jobs.get_mut(name)
        {
            job.stale_records = true;
            self.run_queue.insert(name.clone());
        }
    }

    /// Whether others hold runs that this leader must know of, or another leader releases runs that are held here: what
    /// they write of that is told, and looked up now and then in case it was not.
    pub(super) fn announces_with_others(&self, job: &JobState, view: &Job) -> bool {
        let held = || job.records.values().any(|(_, record)| record.running().is_some_and(|run| run.held));
        // Who holds some looks also where nobody is asked any more: then they are released.
        self.coordinators.has_others(&self.settings.id) && (view.rules.announces() && job.leads() || held())
    }

    /// Whether this coordinator can lead the job: who announces asks a worker of its own.
    pub(super) fn can_lead(&self, job: &JobState, view: &Job) -> bool {
        let drains = mutants::is_on(mutants::DRAINED_ARE_ASKED);
        let mut workers = job.hosted.values().filter_map(|id| self.workers.get(id));
        !view.rules.announces()
            || view.instances.is_empty()
            || workers.any(|worker| worker.present() || drains)
    }

    fn complete(&mut self, name: &JobName, job: &mut JobState, view: &Job) -> bool {
        let before = view.announced(Stage::Completed);
        // One after the other: of those that complete while one is being answered, the latest is announced then.
        let unanswered = before.filter(|before| !before.answered).map(|before| before.fire);
        let Some(fire) = unanswered.or_else(|| completed(job, view)) else { return false };
        if before.is_some_and(|before| before.fire > fire) {
            return false;
        }
        match self.announce(name, job, view, Stage::Completed, fire) {
            Step::Writing => true,
            Step::Waiting | Step::Done => false,
            Step::Answered => {
                // In parts. One that should fail is not repeated: an item's next run takes its mirror back as well.
                let calling = job.guarantee.completed.as_mut();
                let from = calling.as_ref().map_or(0, |calling| calling.cleared);
                let upto = view.rules.items.min(from.saturating_add(CLEARED));
                let mut txn = led(Purpose::Announced, view);
                for item in (from..upto).map(Item) {
                    txn.write(Write::Completed { job: name.clone(), item, present: false });
                }
                if let Some(calling) = calling.filter(|_| upto < view.rules.items) {
                    calling.cleared = upto;
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
        let step = if late { Step::Done } else { self.announce(name, job, view, Stage::Started, fire) };
        match step {
            Step::Writing => true,
            Step::Waiting => false,
            Step::Answered if job.guarantee.skips(view) => {
                // Also what begins to be held afterwards.
                skip_held(job, fire);
                false
            }
            Step::Answered | Step::Done => {
                // The others follow: it is answered by then.
                let of_fire: Vec<Item> = of_fire.into_iter().take(CHUNK).collect();
                let txn = release(name, job, view, &of_fire);
                if matches!(step, Step::Answered) {
                    self.write_answered(name, job, view, txn, (Stage::Started, fire), of_fire);
                } else {
                    self.submit(name, job, txn, Intent::Release(of_fire));
                }
                true
            }
        }
    }

    /// Whether an item will take part in this fire that has not started, and is waited for. Those that are busy with an
    /// earlier run, disabled, without an owner or without a slot do not; nor does anybody who takes longer than the answer may.
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
            job.records.get(item).is_some_and(|(_, r)| r.state.is_idle() && r.last_fire < fire)
        });
        let can_start =
            |owner| self.has_a_slot(job, view, owner) || mutants::is_on(mutants::HELD_WAITS_FOR_SLOTS);
        if !expected.any(|item| view.sharding.owner(item).is_some_and(can_start)) {
            return false;
        }
        let known = job.guarantee.waits.filter(|(of, _)| *of == fire);
        let (_, until) = *job.guarantee.waits.insert(known.unwrap_or_else(|| {
            let until = self.now.mono.plus(view.spec.policy().guarantee.timeout);
            self.timers.insert((until, Timer::Callback(name.clone())));
            (fire, until)
        }));
        self.now.mono < until || mutants::is_on(mutants::HELD_WAITS_FOR_EVER)
    }

    /// Whether one more run of the job has room at an instance. Of one elsewhere its runs of other jobs are not known here.
    fn has_a_slot(&self, job: &JobState, view: &Job, instance: &InstanceId) -> bool {
        if let Some(worker) = job.hosted.get(instance).and_then(|id| self.workers.get(id)) {
            return worker.free() > 0;
        }
        let slots =
            view.instances.get(instance).and_then(|seen| seen.node.as_ref()).map_or(0, |node| node.slots);
        let runs = job.records.values().filter_map(|(_, record)| record.running());
        runs.filter(|run| run.instance == *instance).count() < slots as usize
    }

    /// The next step of an announcement: writes down who is asked, asks, asks again whoever is there again.
    fn announce(&mut self, name: &JobName, job: &mut JobState, view: &Job, stage: Stage, fire: Time) -> Step {
        let known = view.announced(stage).filter(|known| known.fire == fire);
        let Some(known) = known else { return self.choose(name, job, view, stage, fire) };
        if known.answered {
            *job.guarantee.of(stage) = None;
            return Step::Done;
        }
        let asked = known.instance.as_ref();
        let here = asked.and_then(|asked| job.hosted.get(asked)).and_then(|id| self.workers.get(id));
        // Before Welcome it hears nothing else.
        let stream = here.filter(|worker| worker.phase != Phase::Attaching).and_then(|worker| worker.stream);
        let here = here.is_some();
        let calling = job.guarantee.of(stage).as_ref().filter(|calling| calling.id == known.callback);
        let reachable = here || asked.is_some_and(|asked| self.is_elsewhere(asked));
        match calling {
            Some(calling) if calling.answered => Step::Answered,
            _ if !reachable => self.choose(name, job, view, stage, fire),
            Some(calling) if stream.is_none() || calling.stream == stream => Step::Waiting,
            // Where it cannot be reached now, it may come back to answer as long as it has time.
            _ => {
                let until = calling.map(|calling| calling.until);
                self.call(name, job, view, (stage, fire), known.callback.clone(), (stream, until));
                Step::Waiting
            }
        }
    }

    fn is_elsewhere(&self, instance: &InstanceId) -> bool {
        instance.worker().is_some_and(|worker| self.elsewhere.contains_key(&worker))
    }

    /// Writes down whom of those that are here is asked.
    fn choose(&mut self, name: &JobName, job: &mut JobState, view: &Job, stage: Stage, fire: Time) -> Step {
        let there = |id: &&rosterd_domain::id::WorkerId| {
            self.workers.get(*id).is_some_and(|worker| worker.stream.is_some() && worker.ready())
        };
        let Some((instance, _)) = job.hosted.iter().find(|(_, id)| there(id)) else { return Step::Waiting };
        let instance = Some(instance.clone());
        let announced = Announced { fire, callback: (self.ids)(), instance, answered: false };
        let mut txn = led(Purpose::Announce, view);
        txn.write(Write::Announced { job: name.clone(), stage, announced: Box::new(announced) });
        self.submit(name, job, txn, Intent::Announce);
        Step::Writing
    }

    /// Asks, or begins to wait for one that is not here. Who is asked again has the rest of its time.
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
        let until = until.unwrap_or_else(|| self.now.mono.plus(timeout));
        *job.guarantee.of(stage) =
            Some(Calling { id: id.clone(), stream, until, answered: false, timed_out: false, cleared: 0 });
        self.timers.insert((until, Timer::Callback(name.clone())));
        let completed = stage == Stage::Completed;
        if let Some(stream) = stream {
            self.send(stream, ToWorker::Callback { id, job: name.clone(), fire, completed, timeout });
        }
    }

    /// Writes down that an announcement was answered, with what follows from it.
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

    pub(super) fn released(&mut self, name: &JobName, job: &mut JobState, items: &[Item]) {
        job.stale = true;
        for item in items {
            if let Some((version, record)) = job.records.get(item) {
                let (version, record) = (Version::next(*version), applied(record, &Event::Release));
                self.put_record(name, job, *item, version, record);
                self.dispatch(name, job, *item);
            }
        }
    }

    /// Its worker gives an answer up when its time is over, which may be a moment before that is noticed here.
    /// Who was asked has answered. What anybody else says of it is nothing to the job.
    pub(super) fn callback_done(&mut self, stream: StreamId, worker: &WorkerId, done: &CallbackDone) {
        let (now, id, error, timed_out) = (self.now.mono, &done.callback, &done.error, done.timed_out);
        let Some(worker) = self.workers.get(worker) else { return };
        let found = worker.jobs.iter().find_map(|name| {
            let asked = |calling: &Calling| calling.stream == Some(stream);
            let job = self.jobs.get_mut(name)?;
            let (_, calling) =
                job.guarantee.any(|calling| calling.id == *id && !calling.answered && asked(calling))?;
            let late = timed_out || calling.until <= now;
            calling.timed_out = late && !mutants::is_on(mutants::GIVEN_UP_IS_ANSWERED);
            calling.answered = true;
            Some(name.clone())
        });
        let Some(name) = found else { return };
        if !error.is_empty() {
            tracing::warn!(job = %name, "a callback failed: {error}");
        }
        self.run_queue.insert(name);
    }

    /// The time of a callback is over: per policy the fire runs all the same, or is skipped.
    pub(super) fn callback_timer(&mut self, name: &JobName) {
        let now = self.now.mono;
        let Some(job) = self.jobs.get_mut(name) else { return };
        let leads = job.leads();
        while let Some((stage, calling)) = job.guarantee.any(|c| c.until <= now && !c.answered) {
            if !leads {
                // Another asks, and waits for as long as it thinks right.
                *job.guarantee.of(stage) = None;
                continue;
            }
            tracing::warn!(job = %name, callback = calling.id, "a callback was not answered in time");
            (calling.answered, calling.timed_out) = (true, true);
        }
        self.run_queue.insert(name.clone());
    }
}

/// Items whose runs are held, and of which fire.
fn held(job: &JobState) -> impl Iterator<Item = (Item, Time)> {
    let unreported = job.records.iter().filter(|(item, _)| !job.reports.contains_key(item));
    unreported.filter_map(|(item, (_, record))| Some((*item, record.running().filter(|run| run.held)?.fire)))
}

/// The latest fire that all items have completed: each has ended a run of it, or of a later one, and none of it
/// is in flight or waits for a taker. Items that are disabled do not take part.
fn completed(job: &JobState, view: &Job) -> Option<Time> {
    let mut through: Option<Time> = None;
    let mut open: Option<Time> = None;
    for item in (0..view.rules.items).map(Item).filter(|item| !view.sharding.disabled_items.contains(item)) {
        let (_, record) = job.records.get(&item)?;
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
        if let Some((version, record)) = job.records.get(item) {
            let record = Box::new(applied(record, &Event::Release));
            txn.write(Write::Record { job: name.clone(), item: *item, expect: Some(*version), record });
            txn.write(Write::Started { job: name.clone(), item: *item, present: false });
        }
    }
    txn
}

/// Runs of a fire that are held and will not be sent end as cancelled.
fn skip_held(job: &mut JobState, fire: Time) {
    for (item, (_, record)) in &job.records {
        if let Some(run) = record.running().filter(|run| run.held && run.fire == fire) {
            job.reports.entry(*item).or_insert_with(|| skipped(run, record.token));
        }
    }
}

/// What ends a run that is held, as cancelled, unless it is released first.
pub(super) fn skipped(run: &Running, token: Token) -> Report {
    Report { token, worker: run.worker.clone(), ended: Reported::Skipped, offset: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure_detector::tests::{at, host};

    #[test]
    fn a_callback_is_answered_by_whom_it_was_asked_of_and_nobody_else() {
        let mut node = host();
        let (asked, name) = (node.workers.keys().next().unwrap().clone(), JobName::new("report").unwrap());
        let mut job = JobState::default();
        *job.guarantee.of(Stage::Started) = Some(Calling {
            id: "c-1".into(),
            stream: Some(1),
            until: at(60.0).mono,
            answered: false,
            timed_out: false,
            cleared: 0,
        });
        node.jobs.insert(name.clone(), Box::new(job));
        let done = CallbackDone { callback: "c-1".into(), error: String::new(), timed_out: false };
        let is_answered = |node: &mut Node, stream, worker: &WorkerId| {
            node.callback_done(stream, worker, &done);
            node.jobs[&name].guarantee.started.as_ref().unwrap().answered
        };
        assert!(!is_answered(&mut node, 1, &asked), "it does not work for the job");
        node.workers.get_mut(&asked).unwrap().jobs.insert(name.clone());
        assert!(!is_answered(&mut node, 2, &asked), "on another stream");
        assert!(!is_answered(&mut node, 1, &WorkerId::new("stranger").unwrap()));
        assert!(is_answered(&mut node, 1, &asked));
    }
}
