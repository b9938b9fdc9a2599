//! Reports of runs that have ended. Runs that started together often end together: the first of their reports waits a
//! moment for the others, so that one transaction covers them all.

use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token, WorkerId};
use rosterd_domain::mutants;
use rosterd_domain::plan::{Report, Reported};
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{Completed, RunRef};

use crate::io::event::StreamId;
use crate::io::timers::Timer;
use crate::job::state::JobState;
use crate::job::{AllJobs, JobTurn};
use crate::workers::parts::link::AttachmentPhase;

/// How long a report waits at most.
const MOST: Duration = Duration::from_millis(10);

impl JobTurn<'_> {
    /// Whether the reports of a job wait for more of them, and the job with them.
    pub(crate) fn gathers(&mut self, name: &JobName, job: &mut JobState) -> bool {
        if job.reports.is_empty() || self.cluster.is_stopping() || !self.worth_waiting(job) {
            job.reports.wait_no_more();
            return false;
        }
        let until = job.reports.wait_until(self.io.now.mono.plus(MOST));
        if until <= self.io.now.mono {
            job.reports.wait_no_more();
            return false;
        }
        self.io.timers.insert((until, Timer::Job(name.clone())));
        true
    }

    /// Whether more runs are in user code here, nothing waits for the slots of those that ended, and no scheduled time
    /// is so near that it would find an item busy whose run has ended.
    fn worth_waiting(&self, job: &JobState) -> bool {
        let near = job.wakeups.next().is_some_and(|next| next <= self.io.now.wall.plus(MOST));
        let wanted = |id| {
            self.workers.get(id).is_none_or(|worker| !worker.ready() || !worker.ledger.waiting().is_empty())
        };
        let in_code = |id| self.workers.get(id).is_some_and(|worker| worker.link.stream().is_some());
        !near
            && !job.reports.by_item().values().any(|report| wanted(&report.worker))
            && job.cache.records().iter().any(|(item, (_, record))| {
                !job.reports.has(*item)
                    && record.running().is_some_and(|run| !run.held && in_code(&run.worker))
            })
    }
}

impl AllJobs<'_> {
    pub(crate) fn run_completed(&mut self, stream: StreamId, id: &WorkerId, completed: Completed) {
        let most = self.io.settings.max_reports;
        let Some(worker) = self.workers.get(id) else { return };
        if worker.link.phase() == AttachmentPhase::Expiring {
            return;
        }
        if worker.ledger.unacknowledged() >= most {
            let refusal =
                Refusal::new(Code::TooManyReports, format!("more than {most} reports are unacknowledged"));
            return self.workers.close(self.io, stream, Some(refusal));
        }
        let (name, item) = (completed.run.job.clone(), completed.run.item);
        let anybodys = mutants::is_on(mutants::ANY_REPORT_COUNTS);
        let theirs = worker.concerns(&name) || anybodys;
        // A name in a report creates no state.
        let Some(job) = self.jobs.all.get_mut(&name).filter(|_| theirs) else {
            return self.workers_turn().acknowledge(id, completed.run, Some(fenced()));
        };
        let report = Report {
            token: completed.run.token,
            worker: id.clone(),
            ended: completed.ended,
            offset: completed.offset.clone(),
        };
        if let Some(Some(strange)) = decide(job, item, &report).filter(|_| !anybodys) {
            return self.workers_turn().answer_report(id, completed.run, Some(strange));
        }
        let known = job.reports.of(item);
        let same = known.is_some_and(|known| (known.token, &known.worker) == (report.token, id));
        if same && known.is_some_and(|known| known.ended.is_of_worker()) {
            // A repeated report, which is counted already.
        } else if known.is_none_or(|known| !known.ended.is_of_worker()) {
            if let Some(worker) = self.workers.get_mut(id) {
                worker.ledger.one_report_more();
            }
        } else {
            if anybodys && known.is_some_and(|known| known.token > report.token) {
                return self.workers_turn().acknowledge(id, completed.run, Some(fenced()));
            }
            // The records show which of the two runs is the item's, once they have been read.
            if let Some(worker) = self.workers.get_mut(id) {
                worker.ledger.one_report_more();
            }
            job.reports.dispute(id.clone(), completed);
            return self.schedule.run_queue.insert(name);
        }
        job.reports.said(item, report, completed);
        self.schedule.run_queue.insert(name);
    }
}

impl JobTurn<'_> {
    /// Settles disputed reports, once it is known which run is the item's.
    fn settle_disputes(&mut self, job: &mut JobState) {
        if !job.records_are_known() {
            return;
        }
        for (id, completed) in job.reports.take_disputed() {
            let item = completed.run.item;
            let report = Report {
                token: completed.run.token,
                worker: id.clone(),
                ended: completed.ended,
                offset: completed.offset.clone(),
            };
            let free = job.reports.of(item).is_none_or(|known| !known.ended.is_of_worker());
            match decide(job, item, &report) {
                Some(refusal) => {
                    self.workers.one_report_less(&id);
                    self.workers_turn().answer_report(&id, completed.run, refusal);
                }
                None if free => job.reports.said(item, report, completed),
                None => job.reports.dispute(id, completed),
            }
        }
    }

    /// Answers every report that the records have decided: the rest has to be committed.
    pub(crate) fn answer_reports(&mut self, name: &JobName, job: &mut JobState) {
        forget_skips(job);
        let decided: Vec<(Item, Option<Refusal>)> = job
            .reports
            .by_item()
            .iter()
            .filter_map(|(item, report)| Some((*item, decide(job, *item, report)?)))
            .collect();
        for (item, refusal) in decided {
            let Some(report) = job.reports.take(item) else { continue };
            if !report.ended.is_of_worker() {
                continue;
            }
            let detail = job.reports.take_detail(item);
            let run = RunRef { job: name.clone(), item, token: report.token };
            let apart =
                self.workers.get_mut(&report.worker).and_then(|worker| worker.ledger.take_untracked(&run));
            if let Some(told) = apart {
                self.record_unmonitored(name, &run, told, detail);
                self.schedule.run_queue.insert(name.clone());
                self.workers.slot_freed(&report.worker);
            }
            self.workers.one_report_less(&report.worker);
            self.workers_turn().answer_report(&report.worker, run, refusal);
        }
        self.settle_disputes(job);
    }
}

/// Removes skips of runs that are no longer held: the worker was never sent such a run, or was told to run it.
fn forget_skips(job: &mut JobState) {
    let records = job.cache.records();
    let held = |item: &Item, token: Token| {
        records
            .get(item)
            .is_some_and(|(_, record)| record.token == token && record.running().is_some_and(|run| run.held))
    };
    job.reports.retain(|item, report| report.ended != Reported::Skipped || held(&item, report.token));
}

/// The answer to a report: `None`, not decided yet; `Some(None)`, accepted.
fn decide(job: &JobState, item: Item, report: &Report) -> Option<Option<Refusal>> {
    if !job.records_are_known() {
        return None;
    }
    // Reports of a job that cannot be decoded are decided once it can be again.
    let Some(view) = job.cache.view() else { return job.cache.damaged().is_none().then(|| Some(fenced())) };
    let Some((_, record)) = job.cache.record(item) else { return Some(Some(fenced())) };
    // Even without monitoring: the run may have started before that was switched off.
    let same = record.token == report.token || mutants::is_on(mutants::REPORT_TOKEN_UNCHECKED);
    if record.running().is_some_and(|run| run.worker == report.worker) && same {
        return None;
    }
    if !view.rules.monitor && report.token <= record.token {
        return Some(None);
    }
    let ended = record.last.as_ref().filter(|last| last.token == report.token && last.reported);
    let theirs = ended.is_some_and(|last| last.instance.is_of(&report.worker));
    Some((!theirs).then(fenced))
}

fn fenced() -> Refusal {
    Refusal::new(Code::ReportFenced, Code::ReportFenced.remedy().trim())
}
