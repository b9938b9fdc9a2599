//! The runs in flight: runs in user code, outcomes that are not acknowledged, and the highest token seen for each item.
//! A table with rules; it sends nothing and starts nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::limits;
use super::types::{Clocks, Ended, Props, RunId, UserResult};
use crate::proto::{RunCompleted, RunOutcome, RunRef, Trigger};

/// Why a run has to stop. The first reason is the one that is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    Operator(String),
    TimedOut,
    DrainDeadline,
    /// The lease expired.
    LeaseEnded,
    /// The coordinator fenced the run.
    Fenced(String),
}

impl Why {
    pub(crate) fn outcome(&self) -> RunOutcome {
        match self {
            Self::Operator(_) => RunOutcome::Cancelled,
            Self::TimedOut => RunOutcome::TimedOut,
            Self::DrainDeadline => RunOutcome::HandedBack,
            Self::LeaseEnded | Self::Fenced(_) => RunOutcome::Aborted,
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Operator(message) if message.is_empty() => "cancelled by an operator".into(),
            Self::Operator(message) => message.clone(),
            Self::TimedOut => "the run took longer than its timeout".into(),
            Self::DrainDeadline => "the worker left before the run had ended".into(),
            Self::LeaseEnded => "the worker's lease ended while the run was in flight".into(),
            Self::Fenced(message) if message.is_empty() => "the run was fenced".into(),
            Self::Fenced(message) => format!("the run was fenced: {message}"),
        }
    }

    /// Whether the stop is urgent: the run must end within the lease's stop budget.
    pub(crate) fn urgent(&self) -> bool {
        matches!(self, Self::LeaseEnded | Self::Fenced(_))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its time has not come.
    Waiting {
        until: Duration,
    },
    InCode,
    /// Between two attempts: no user code runs, but the run keeps its slot.
    Backoff {
        until: Duration,
    },
}

#[derive(Debug)]
pub(crate) struct InFlightRun {
    pub(crate) trigger: Arc<Trigger>,
    pub(crate) props: Arc<Props>,
    pub(crate) stage: Stage,
    pub(crate) attempt: u32,
    /// When the first attempt began.
    pub(crate) began: SystemTime,
    /// When this attempt began, until that is reported.
    pub(crate) unannounced: Option<SystemTime>,
    pub(crate) times_out_at: Option<Duration>,
    pub(crate) offset: Option<Bytes>,
    /// Records, over all attempts.
    pub(crate) processed: u64,
    pub(crate) failed: u64,
    pub(crate) stop: Option<Why>,
    /// When its future is dropped if it has not ended by then.
    pub(crate) abort_at: Option<Duration>,
    pub(crate) aborted: bool,
    /// Its stop is urgent.
    pub(crate) urgent: bool,
    /// Belongs to an identity that was marked dead: it ends without a report.
    pub(crate) disowned: bool,
    pub(crate) progress: Progress,
}

/// The latest progress, and when the last one went out.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) latest: (u32, String),
    pub(crate) offset: Option<Bytes>,
    /// Something is pending: `latest`, or only an offset.
    pub(crate) waits: bool,
    pub(crate) offset_waits: bool,
    pub(crate) sent_at: Option<Duration>,
    /// When the first offset was set.
    pub(crate) offset_at: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct PendingReport {
    pub(crate) completed: RunCompleted,
    pub(crate) sent: bool,
    /// Replaces a report that was refused.
    pub(crate) replaces: bool,
}

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    pub(crate) runs: BTreeMap<RunId, InFlightRun>,
    /// Runs whose time has not come, in the order of their times.
    waiting: BTreeSet<(Duration, RunId)>,
    /// A lower bound of the next timer of all runs; `None`: no run has a timer. Read at every
    /// event, so that it need not look at all runs each time.
    wake: Option<Duration>,
    /// In the order in which the runs ended.
    pub(crate) reports: BTreeMap<u64, PendingReport>,
    /// The same by their runs.
    reported: BTreeSet<(RunId, u64)>,
    /// Those that wait to be sent.
    unsent: BTreeSet<u64>,
    next_report: u64,
    seen: BTreeMap<(String, u32), u64>,
}

impl InFlight {
    /// Every run that is in user code or whose outcome is not acknowledged.
    pub(crate) fn refs(&self) -> Vec<RunRef> {
        let reported = self.reports.values().filter_map(|report| report.completed.run.clone());
        let mut all: BTreeSet<RunId> = reported.map(RunId::from).collect();
        all.extend(self.runs.keys().cloned());
        all.iter().map(RunId::to_proto).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.reports.is_empty()
    }

    /// Whether a run is in user code or its outcome is not acknowledged.
    pub(crate) fn has(&self, run: &RunId) -> bool {
        let reported = (run.clone(), 0)..=(run.clone(), u64::MAX);
        self.runs.contains_key(run) || self.reported.range(reported).next().is_some()
    }

    pub(crate) fn highest(&self, run: &RunId) -> Option<u64> {
        self.seen.get(&(run.job.clone(), run.item)).copied()
    }

    pub(crate) fn see(&mut self, run: &RunId) {
        let seen = self.seen.entry((run.job.clone(), run.item)).or_default();
        *seen = run.token.max(*seen);
    }

    /// Keeps the run until then.
    pub(crate) fn wait(&mut self, until: Duration, id: RunId) {
        self.waiting.insert((until, id));
    }

    /// When the next run begins.
    pub(crate) fn begins_at(&self) -> Option<Duration> {
        self.waiting.first().map(|(until, _)| *until)
    }

    /// A run whose time has come.
    pub(crate) fn take_due(&mut self, now: Duration) -> Option<RunId> {
        self.begins_at().filter(|at| *at <= now)?;
        self.waiting.pop_first().map(|(_, id)| id)
    }

    /// Forgets the runs that have not begun: their stream is lost. The next stream sends them again, so their tokens may come
    /// again.
    pub(crate) fn drop_unstarted(&mut self) {
        for (_, id) in std::mem::take(&mut self.waiting) {
            self.runs.remove(&id);
            if let Some(seen) = self.seen.get_mut(&(id.job, id.item)).filter(|seen| **seen == id.token) {
                *seen = seen.saturating_sub(1);
            }
        }
    }

    /// A run of the same item that is still in user code, or between its attempts.
    pub(crate) fn occupant(&self, run: &RunId) -> Option<&RunId> {
        let of_item = |token| RunId { token, ..run.clone() };
        self.runs.range(of_item(0)..=of_item(u64::MAX)).next().map(|(id, _)| id)
    }

    /// Sets a timer, unless an earlier one is set.
    pub(crate) fn wake_at(&mut self, at: Option<Duration>) {
        self.wake = [self.wake, at].into_iter().flatten().min();
    }

    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        self.wake
    }

    /// Computes the next timer from all runs.
    pub(crate) fn look_when(&mut self) {
        self.wake = self.runs.values().filter_map(InFlightRun::wakes_at).min();
    }

    pub(crate) fn report(&mut self, completed: RunCompleted) {
        self.keep(completed, false);
    }

    /// The coordinator refused this report as invalid: without another one the run would stay in its records. True: one
    /// follows. A replacement is not replaced itself.
    pub(crate) fn replace(&mut self, refused: &PendingReport, why: &str) -> bool {
        if refused.replaces {
            return false;
        }
        let RunCompleted { run, started_at, ended_at, attempt, .. } = refused.completed.clone();
        let outcome = refused.completed.outcome().as_str_name().trim_start_matches("RUN_OUTCOME_");
        let error = limits::cut(format!("the report {outcome} was refused: {why}"), limits::ERROR_BYTES);
        let outcome = RunOutcome::Failed.into();
        let failed =
            RunCompleted { run, outcome, error, started_at, ended_at, attempt, ..RunCompleted::default() };
        self.keep(failed, true);
        true
    }

    fn keep(&mut self, completed: RunCompleted, replaces: bool) {
        let number = self.next_report;
        self.reported.extend(completed.run.clone().map(|run| (RunId::from(run), number)));
        self.unsent.insert(number);
        self.reports.insert(number, PendingReport { completed, sent: false, replaces });
        self.next_report += 1;
    }

    /// The user code of `id` ended for good, or will never start: returns the outcome, unless it would not be accepted.
    pub(crate) fn finish(&mut self, now: Clocks, id: &RunId, ended: Option<Ended>) {
        let Some(run) = self.runs.remove(id) else { return };
        let begun = match run.stage {
            Stage::Waiting { until } => !self.waiting.remove(&(until, id.clone())),
            Stage::InCode => !run.never_began(ended.as_ref()),
            Stage::Backoff { .. } => true,
        };
        if run.disowned {
            return;
        }
        let (outcome, error) = verdict(&run, begun, ended.as_ref());
        self.report(RunCompleted {
            run: Some(id.to_proto()),
            outcome: outcome.into(),
            error,
            processed: run.processed,
            failed: run.failed,
            offset: run.offset,
            started_at: begun.then(|| run.began.into()),
            ended_at: Some(now.wall.into()),
            output: ended.map(|ended| ended.output).unwrap_or_default(),
            attempt: run.attempt,
        });
    }

    /// The coordinator has answered. Returns the acknowledged report, if there was one.
    pub(crate) fn acknowledge(&mut self, id: &RunId) -> Option<PendingReport> {
        let of_run = (id.clone(), 0)..=(id.clone(), u64::MAX);
        let numbers: Vec<u64> = self.reported.range(of_run).map(|(_, number)| *number).collect();
        let mut last = None;
        for number in &numbers {
            self.reported.remove(&(id.clone(), *number));
            self.unsent.remove(number);
            last = self.reports.remove(number).or(last);
        }
        last
    }

    /// The next reports to send, within the credit of the stream.
    pub(crate) fn sendable(&mut self, credit: usize) -> Vec<RunCompleted> {
        let mut room = credit.saturating_sub(self.reports.len() - self.unsent.len());
        let mut sendable = Vec::new();
        while room > 0
            && let Some(number) = self.unsent.pop_first()
        {
            if let Some(report) = self.reports.get_mut(&number) {
                report.sent = true;
                sendable.push(report.completed.clone());
                room -= 1;
            }
        }
        sendable
    }

    /// A new stream: everything that is not acknowledged is sent again.
    pub(crate) fn resend(&mut self) {
        self.reports.values_mut().for_each(|report| report.sent = false);
        self.unsent = self.reports.keys().copied().collect();
    }

    /// The identity was marked dead: the coordinator refuses every report of its runs.
    pub(crate) fn disown(&mut self) {
        self.reports.clear();
        self.reported.clear();
        self.unsent.clear();
        self.runs.values_mut().for_each(|run| run.disowned = true);
    }
}

/// A stopped run reports why it was stopped, whatever its handler returned: a handler that returns Ok because it was
/// cancelled has not done its work.
fn verdict(run: &InFlightRun, begun: bool, ended: Option<&Ended>) -> (RunOutcome, String) {
    if let Some(why) = run.stop.as_ref().filter(|why| !begun && why.urgent()) {
        return (RunOutcome::NotStarted, why.text());
    }
    if let Some(why) = &run.stop {
        return (why.outcome(), why.text());
    }
    match ended.map(|ended| &ended.result) {
        Some(UserResult::Done) => (RunOutcome::Succeeded, String::new()),
        Some(UserResult::Failed { error, .. }) => (RunOutcome::Failed, error.clone()),
        Some(UserResult::Cancelled) => (RunOutcome::Cancelled, "cancelled by the handler".into()),
        Some(UserResult::Overdue) => {
            (RunOutcome::Aborted, "the handler found that the worker's lease had ended".into())
        }
        Some(UserResult::NotBegun) if !begun => {
            (RunOutcome::NotStarted, "the worker's lease ended before user code began".into())
        }
        Some(UserResult::Dropped | UserResult::NotBegun) | None => {
            (RunOutcome::Aborted, "the handler was dropped before it ended".into())
        }
    }
}
