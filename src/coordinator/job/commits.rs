//! Handles the end of a transaction. Persist, then speak: workers are told only here, after the commit. After a refusal
//! or an unknown outcome, the state is read and the decision is made again.

use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::plan::{Entry, Plan};
use rosterd_domain::txn::Commit;

use crate::io::cluster_event::{Action, ClusterEvent};
use crate::io::event::{Effect, Query};
use crate::io::pending::ReadFor;
use crate::job::changes::names;
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;
use crate::job::{AllJobs, JobTurn};

impl AllJobs<'_> {
    pub(crate) fn job_committed(&mut self, name: &JobName, commit: Commit) {
        let Some((mut turn, job)) = self.turn_of(name) else { return };
        if let Some(intent) = job.writer.write_ended() {
            turn.schedule.background.ended(intent.is_background());
            if let (Commit::Unknown, Intent::Host { reserved, .. }) = (&commit, &intent) {
                // These runs may have started: their slots are reserved until the records show whether they have.
                job.writer.doubt(reserved.clone());
            } else if let Intent::Host { reserved, .. } = &intent {
                turn.workers.release_slots(reserved);
            }
            match &commit {
                Commit::Committed(_) => turn.done(name, job, intent),
                other => turn.not_done(name, job, intent, other),
            }
        }
        self.schedule.run_queue.insert(name.clone());
        self.workers.leavers_may_go_on();
    }
}

impl JobTurn<'_> {
    fn not_done(&mut self, name: &JobName, job: &mut JobState, intent: Intent, commit: &Commit) {
        if let Commit::Unavailable(_) | Commit::TooLarge(_) = commit {
            job.writer.back_off(self.io.now.mono.plus(self.io.settings.store_retry));
            return self.operation_not_done(name, job, intent, commit);
        }
        tracing::debug!(job = %name, "a transaction was not applied: {commit:?}");
        job.cache.records_went_stale();
        if let Commit::Conflict(_) = commit {
            self.refused(job, &intent);
        }
        self.operation_not_done(name, job, intent, commit);
    }

    /// The job's cache is read again in any case. It does not show that a worker belongs to another host, or is dead,
    /// so their attachments are read as well; and repeated refusals increase the wait.
    fn refused(&mut self, job: &mut JobState, intent: &Intent) {
        let involved: Vec<WorkerId> = match intent {
            Intent::Host { reserved, .. } => {
                let left =
                    job.reports.by_item().values().filter(|report| report.ended.spoken_for().is_some());
                reserved.keys().chain(left.map(|report| &report.worker)).cloned().collect()
            }
            Intent::Instances { put, marked, .. } => put.iter().chain(marked).cloned().collect(),
            Intent::Dismiss { worker, .. } => vec![worker.clone()],
            _ => Vec::new(),
        };
        for id in involved {
            if self.workers.get(&id).is_some_and(|worker| !worker.link.is_writing()) {
                self.io.read(ReadFor::Own(id.clone()), Query::Attachment(id));
            }
        }
        if mutants::is_on(mutants::REFUSED_IS_DROPPED) {
            job.writer.back_off(self.io.now.mono.plus(self.io.settings.lease));
        }
        job.writer.was_refused(self.io.now.mono, self.io.settings.store_retry);
    }

    fn done(&mut self, name: &JobName, job: &mut JobState, intent: Intent) {
        job.writer.was_applied();
        match intent {
            Intent::Host { plan, ahead, .. } => {
                if let Some(due) = ahead {
                    self.schedule.lead_time.written(due, self.io.now.wall);
                }
                self.host_done(name, job, *plan);
            }
            Intent::NewRecords(records) => {
                for (item, (version, record)) in records {
                    self.put_record(name, job, item, version, record);
                }
            }
            Intent::Mirrors(items) => job.duties.mirrors_written(&items),
            Intent::Instances { put, removed, marked } => {
                if !self.drop_hints {
                    job.cache.went_stale();
                }
                for instance in removed {
                    job.roster.has_left(&instance);
                }
                self.answer_unregistering(name, job);
                for id in put {
                    self.moved(&id, name);
                }
                job.roster.retain_unmarked(|id| !marked.contains(id));
            }
            Intent::Assign(planned) => {
                job.cache.went_stale();
                if has_surplus(job) {
                    job.cache.records_went_stale();
                }
                tracing::info!(job = %name, "items reassigned: {}", planned.why);
                job.duties.has_planned(planned);
            }
            Intent::Elect => {
                job.cache.went_stale();
                job.cache.switches_went_stale();
                // Runs that other hosts hold did not matter to this coordinator before.
                if job.cache.view().is_some_and(|view| view.rules.announces()) {
                    job.cache.records_went_stale();
                }
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
            | Intent::Commands => job.cache.went_stale(),
            Intent::Create { by } => {
                self.told_by_worker(name, job, Action::Create, "created by a registration".into(), by);
            }
            Intent::Overwrite { fields, by } => {
                let what = format!("changed {} by a registration", names(&fields));
                self.told_by_worker(name, job, Action::Change, what, by);
            }
            Intent::Sweep | Intent::Abdicate | Intent::Announce => job.cache.went_stale(),
            Intent::Release(items) => self.released(name, job, &items),
            Intent::Operation { asked, said } => self.operation_done(name, job, *asked, said),
        }
        if job.cache.known().is_ending() {
            job.cache.went_stale();
        }
    }

    /// A worker created or changed the job: a row for the audit.
    fn told_by_worker(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        action: Action,
        what: String,
        by: Option<Arc<str>>,
    ) {
        job.cache.went_stale();
        self.io.out.push(Effect::Publish(ClusterEvent::Job { job: name.clone(), action, what, by }));
    }

    fn host_done(&mut self, name: &JobName, job: &mut JobState, mut plan: Plan) {
        let touched: Vec<Item> = plan.records.keys().copied().collect();
        for (item, written) in std::mem::take(&mut plan.records) {
            self.put_written(name, job, item, written);
        }
        self.progress_written(name, job, std::mem::take(&mut plan.offsets), plan.more);
        // The triggers that were consumed are still in the cached decision state: they must not start again.
        let took_trigger =
            |entry: &Entry| matches!(entry, Entry::Started { run, .. } if run.trigger.is_some());
        if plan.entries.iter().any(took_trigger) {
            job.cache.went_stale();
        }
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

    /// A worker's instance of this job was written, as a step of its move. If the worker is registering the job, it has
    /// the job only once it has its answer.
    fn moved(&mut self, id: &WorkerId, name: &JobName) {
        if let Some(worker) = self.workers.get_mut(id).filter(|worker| !worker.work.is_registering(name)) {
            worker.work.begin(name);
        }
    }
}

/// Whether there are items left from a larger count. They have no owner that reads their records when they move: a
/// leader that plans without an instance that is gone checks whether it had such a run.
fn has_surplus(job: &JobState) -> bool {
    let last = job.cache.records().keys().next_back();
    job.cache.view().zip(last).is_some_and(|(view, last)| view.rules.items <= last.0)
}
