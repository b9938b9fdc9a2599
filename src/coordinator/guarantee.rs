//! Guarantees: once all items of a fire have started, and once all have completed, one instance is told.
//!
//! The first holds the fire: its runs are in the records, but no Trigger goes out until the callback is
//! answered or its time is over. Announced once per fire while this coordinator lives; the leader decides.

use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, Version};
use rosterd_domain::item::{Event, Outcome, Source};
use rosterd_domain::job::OnTimeout;
use rosterd_domain::plan::{Report, Reported};
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::{Guard, Txn, Write};
use rosterd_domain::view::Job;

use super::advance::applied;
use super::job::{Intent, JobState};
use super::node::{Node, Timer};
use crate::session::frame::ToWorker;

/// The callbacks of one job.
#[derive(Debug, Default)]
pub(crate) struct Guarantee {
    /// The one that is under way: which, for which fire, started or completed, and until when it is waited for.
    calling: Option<Calling>,
    /// The latest fire whose start was announced and answered.
    released: Option<Time>,
    /// The latest fire whose completion was announced.
    completed: Option<Time>,
}

#[derive(Debug)]
struct Calling {
    id: String,
    fire: Time,
    completed: bool,
    until: Mono,
    answered: bool,
}

impl Node {
    /// Announces what is to be announced and releases what was held; true when a transaction is under way.
    pub(super) fn guarantees(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if !job.leads() || !(view.rules.guarantee_started || view.rules.guarantee_completed) {
            return false;
        }
        if view.rules.guarantee_completed {
            self.announce_completed(name, job, view);
        }
        view.rules.holds_for_started() && self.hold(name, job, view)
    }

    fn announce_completed(&mut self, name: &JobName, job: &mut JobState, view: &Job) {
        let fires = job.records.iter().filter(|(item, _)| item.0 < view.rules.items);
        let mut latest: Option<Time> = None;
        for (_, (_, record)) in fires {
            let ended =
                record.last.as_ref().filter(|last| last.source != Source::Manual && record.state.is_idle());
            match (ended, latest) {
                (None, _) => return,
                (Some(ended), None) => latest = Some(ended.fire),
                (Some(ended), Some(fire)) if ended.fire == fire => {}
                _ => return,
            }
        }
        let Some(fire) = latest else { return };
        if job.guarantee.completed.is_some_and(|announced| announced >= fire)
            || job.guarantee.calling.is_some()
        {
            return;
        }
        // What completed before this coordinator came was somebody else's to announce.
        if fire < self.up_since {
            job.guarantee.completed = Some(fire);
            return;
        }
        if self.call(name, job, view, fire, true) {
            job.guarantee.completed = Some(fire);
        }
    }

    fn hold(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let held: Vec<(Item, Time)> = job
            .records
            .iter()
            .filter_map(|(item, (_, record))| Some((*item, record.running().filter(|run| run.held)?.fire)))
            .collect();
        let Some(fire) = held.iter().map(|(_, fire)| *fire).min() else { return false };
        let of_fire: Vec<Item> =
            held.iter().filter(|(_, other)| *other == fire).map(|(item, _)| *item).collect();
        let answered =
            job.guarantee.calling.as_ref().is_some_and(|calling| calling.fire == fire && calling.answered);
        if answered || job.guarantee.released.is_some_and(|released| released >= fire) {
            job.guarantee.calling = None;
            job.guarantee.released = Some(fire);
            self.release(name, job, view, of_fire);
            return true;
        }
        if job.guarantee.calling.is_none() {
            let missing = (0..view.rules.items).map(Item).filter(|item| !of_fire.contains(item));
            // Items that are busy with an earlier run, disabled or ownerless do not take part in this fire.
            let expected = missing.filter(|item| {
                job.records.get(item).is_some_and(|(_, r)| r.state.is_idle() && r.last_fire < fire)
            });
            let waits = expected.filter(|item| view.sharding.owner(*item).is_some()).count();
            if waits == 0 {
                self.call(name, job, view, fire, false);
            }
        }
        false
    }

    fn call(&mut self, name: &JobName, job: &mut JobState, view: &Job, fire: Time, completed: bool) -> bool {
        let listener =
            job.hosted.values().filter_map(|id| self.workers.get(id)).find_map(|worker| worker.stream);
        let timeout = view.spec.policy().guarantee.timeout;
        let Some(stream) = listener else { return false };
        let id = (self.ids)();
        let until = self.now.mono.plus(timeout);
        job.guarantee.calling = Some(Calling { id: id.clone(), fire, completed, until, answered: false });
        self.timers.insert((until, Timer::Callback(name.clone())));
        self.send(stream, ToWorker::Callback { id, job: name.clone(), fire, completed, timeout });
        true
    }

    fn release(&mut self, name: &JobName, job: &mut JobState, view: &Job, items: Vec<Item>) {
        let mut txn = Txn::new("release");
        txn.guard(Guard::Incarnation(name.clone(), view.incarnation.clone()));
        for item in &items {
            if let Some((version, record)) = job.records.get(item) {
                let record = Box::new(applied(record, &Event::Release));
                txn.write(Write::Record { job: name.clone(), item: *item, expect: Some(*version), record });
            }
        }
        self.submit(name, job, txn, Intent::Release(items));
    }

    pub(super) fn released(&mut self, name: &JobName, job: &mut JobState, items: &[Item]) {
        for item in items {
            if let Some((version, record)) = job.records.get(item) {
                let (version, record) = (Version::next(*version), applied(record, &Event::Release));
                self.put_record(name, job, *item, version, record);
                self.dispatch(name, job, *item);
            }
        }
    }

    pub(super) fn callback_done(&mut self, id: &str, error: &str) {
        let found = self.jobs.iter_mut().find_map(|(name, job)| {
            let calling = job.guarantee.calling.as_mut().filter(|calling| calling.id == id)?;
            calling.answered = true;
            Some((name.clone(), calling.completed))
        });
        let Some((name, completed)) = found else { return };
        if !error.is_empty() {
            tracing::warn!(job = %name, "a callback failed: {error}");
        }
        if completed && let Some(job) = self.jobs.get_mut(&name) {
            job.guarantee.calling = None;
        }
        self.dirty.insert(name);
    }

    /// The time of a callback is over: per policy the fire runs all the same, or is skipped.
    pub(super) fn callback_timer(&mut self, name: &JobName) {
        let now = self.now.mono;
        let Some(job) = self.jobs.get_mut(name) else { return };
        let Some(calling) = job.guarantee.calling.as_mut().filter(|calling| calling.until <= now) else {
            return;
        };
        tracing::warn!(job = %name, fire = %calling.fire, "a callback was not answered in time");
        let skips =
            job.view.as_ref().is_some_and(|view| view.spec.policy().guarantee.on_timeout == OnTimeout::Skip);
        if calling.completed {
            job.guarantee.calling = None;
        } else if skips {
            job.guarantee.calling = None;
            skip_held(job);
        } else {
            calling.answered = true;
        }
        self.dirty.insert(name.clone());
    }
}

/// Runs that were held and will not be sent end as cancelled.
fn skip_held(job: &mut JobState) {
    for (item, (_, record)) in &job.records {
        if let Some(run) = record.running().filter(|run| run.held) {
            let (token, worker) = (record.token, run.worker.clone());
            let ended = Reported::Done(Outcome::Cancelled);
            job.reports.insert(*item, Report { token, worker, ended, offset: None });
        }
    }
}
