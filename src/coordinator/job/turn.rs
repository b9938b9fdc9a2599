//! One job's turn: with nothing in flight and an up-to-date cache, it finds the next thing to do and does it, one
//! transaction at a time. Usually there is nothing to do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{JobName, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::txn::{Purpose, Txn, Write};
use rosterd_domain::view::Job;
use rosterd_session::frame::CancelReason;

use crate::io::event::{Effect, Query};
use crate::io::pending::{ReadFor, TxnFor};
use crate::io::timers::Timer;
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;
use crate::job::txn::CHUNK;
use crate::job::{AllJobs, JobTurn};

/// How long before a job is due nothing else is started for it: about the duration of a transaction and the reads after
/// it.
const NEAR: Duration = Duration::from_millis(30);

impl AllJobs<'_> {
    /// Jobs that are due by the wall clock have their turn before all others.
    pub(crate) fn take_due(&mut self) {
        while let Some(name) = self.schedule.due_times.pop_due(self.io.now.wall) {
            if let Some(job) = self.jobs.all.get_mut(&name) {
                job.wakeups.comes_due();
            }
            self.schedule.run_queue.insert_first(name);
        }
    }

    /// Gives a job its turn.
    pub(crate) fn advance(&mut self, name: &JobName) {
        self.weigh_registrations(name);
        let Some((mut turn, job)) = self.turn_of(name) else { return };
        let keep = turn.turn(name, job);
        job.shown.had_turn();
        if !keep && let Some(job) = self.jobs.all.remove(name) {
            self.shown_no_more(name, &job);
            if job.cache.existed() {
                self.schedule.due_times.forget(name);
            }
            if job.wakeups.is_watched() && !mutants::is_on(mutants::WATCHES_STAY) {
                self.io.out.push(Effect::Watch(name.clone(), false));
            }
        }
        self.hand_on();
    }
}

impl JobTurn<'_> {
    /// Takes the next step; false: the state of the job is no longer needed here.
    fn turn(&mut self, name: &JobName, job: &mut JobState) -> bool {
        if job.writer.is_busy() {
            return true;
        }
        if let Some(at) = job.writer.waits_until(self.io.now.mono) {
            self.io.timers.insert((at, Timer::Job(name.clone())));
            return true;
        }
        if job.cache.is_behind() {
            if !self.fires_first(name, job) {
                self.refresh(name, job);
            }
            return true;
        }
        if let Some(view) = job.cache.view().cloned() {
            self.watch_items(name, job, &view);
        }
        if self.reads_switches(name, job) {
            return true;
        }
        self.answer_reports(name, job);
        self.send_waiting(name, job);
        let Some(view) = job.cache.view().cloned() else { return self.without_view(name, job) };
        if self.gathers(name, job) {
            return true;
        }
        self.act(name, job, &view);
        true
    }

    fn refresh(&mut self, name: &JobName, job: &mut JobState) {
        if job.wakeups.watch() {
            self.io.out.push(Effect::Watch(name.clone(), true));
        }
        job.writer.begin_reading();
        let (whom, query) = if job.cache.begin_reading() {
            self.workers.read_begins(name);
            (ReadFor::Job(name.clone()), Query::Job(name.clone()))
        } else {
            (ReadFor::Nodes(name.clone()), Query::Nodes(name.clone()))
        };
        self.io.read(whom, query);
    }

    /// The job does not exist, is being removed, or cannot be decoded.
    fn without_view(&mut self, name: &JobName, job: &mut JobState) -> bool {
        if job.cache.known().is_ending() {
            let mut txn = Txn::new(Purpose::Sweep);
            txn.write(Write::SweepJob { job: name.clone(), limit: CHUNK });
            self.submit(name, job, txn, Intent::Sweep);
            return true;
        }
        if job.cache.damaged().is_none() {
            // Its instances are gone with the job.
            job.roster.all_have_left();
            self.answer_unregistering(name, job);
        }
        self.refuse_or_create(name, job);
        let wanted = job.writer.is_writing() || !job.idle() || job.cache.damaged().is_some();
        if !wanted {
            self.forget_workers(name, job);
        }
        wanted
    }

    /// The workers that may be concerned with a job that no longer exists. If the job never existed, these are the
    /// workers that named it: a scan of all workers for each of thousands of made-up names would take seconds.
    pub(crate) fn heard_of(&mut self, name: &JobName, job: &mut JobState) -> BTreeSet<WorkerId> {
        let coming = self.workers.take_waiting(name);
        if job.cache.existed() {
            return self.workers.here().keys().cloned().collect();
        }
        let named_by = job.roster.take_named_by();
        coming.chain(named_by).collect()
    }

    fn forget_workers(&mut self, name: &JobName, job: &mut JobState) {
        for id in self.heard_of(name, job) {
            if let Some(worker) = self.workers.get_mut(&id) {
                let known = worker.flight.forget_job(name);
                worker.ledger.forget_job(name);
                worker.work.end(name);
                let moved = worker.link.moved(name);
                self.workers.slot_freed(&id);
                for run in known {
                    self.workers_turn().cancel(&id, run, CancelReason::Fenced, "the job was removed");
                }
                if moved {
                    self.workers_turn().welcome_if_moved(&id);
                }
            }
        }
    }

    fn act(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) {
        // Before any decision that depends on it.
        if self.foreign_config(name, job, view) {
            return;
        }
        // A completed fire is announced before an item's next run overwrites its record.
        if self.deciding_leader(job).is_some_and(|mut leader| leader.guarantees(name, job, view)) {
            return;
        }
        let yields = job.writer.host_yields();
        if !yields && self.host(name, job, view) {
            job.writer.host_wrote();
            return;
        }
        let acted = self.instances(name, job, view)
            || self.operations(name, job, view)
            || self.foreign_triggers(name, job, view)
            || self.foreign_switches(name, job, view)
            || self.commands(name, job, view)
            || self.run_background(name, job, view);
        if acted || !yields {
            return;
        }
        if self.host(name, job, view) {
            job.writer.host_wrote();
        }
    }

    pub(crate) fn submit(&mut self, name: &JobName, job: &mut JobState, txn: Txn, intent: Intent) {
        self.schedule.background.began(intent.is_background());
        job.writer.begin_writing(intent);
        self.io.commit(TxnFor::Job(name.clone()), txn);
    }

    /// Schedules another read of the records.
    pub(crate) fn look_soon(&mut self, name: &JobName, job: &mut JobState) {
        self.look_again_in(self.io.settings.store_retry, name, job);
    }

    pub(crate) fn look_again_in(&mut self, after: Duration, name: &JobName, job: &mut JobState) {
        let at = self.io.now.mono.plus(after);
        if job.wakeups.reread_at(at) {
            self.io.timers.insert((at, Timer::LookAgain(name.clone())));
        }
    }

    /// Whether the job is about to be due by the wall clock.
    pub(crate) fn fires_soon(&self, job: &JobState) -> bool {
        let soon = self.io.now.wall.plus(NEAR);
        !self.cluster.is_stopping()
            && job.wakeups.next().is_some_and(|next| self.io.now.wall < next && next <= soon)
    }

    /// Whether a fire has priority although the job has changed and should be read again: a fire that is near or due is
    /// decided from the cached state. If it depends on the change, its transaction is refused, as may happen at any
    /// time, and the fire is decided again.
    pub(crate) fn fires_first(&mut self, name: &JobName, job: &mut JobState) -> bool {
        if !job.cache.records_are_current() || self.cluster.is_stopping() || !job.reports.is_empty() {
            return false;
        }
        let Some(view) = job.cache.view().cloned() else { return false };
        // A consumed trigger is still in the cache, and an announcement needs a current state.
        if !view.triggers.is_empty() || view.rules.announces() {
            return false;
        }
        self.fires_soon(job) || job.wakeups.is_due() && self.host(name, job, &view)
    }
}
