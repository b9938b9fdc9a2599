//! What this worker has in flight: runs in user code, outcomes that nobody acknowledged, and the highest token
//! seen of each item. A table with rules; it sends nothing and starts nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::limits;
use super::words::{Ended, Now, Props, RunId, UserResult};
use crate::proto::{RunCompleted, RunOutcome, RunRef, Trigger};

/// Why a run was told to stop. The first reason is the one that is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    Operator(String),
    TimedOut,
    DrainDeadline,
    /// The lease ran out.
    LeaseEnded,
    /// The coordinator says that the run is no longer ours.
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

    /// Whether every instant counts: what stops for these must be gone within the lease's stop budget.
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
    /// Between two attempts: no user code, the slot and the run are kept.
    Backoff {
        until: Duration,
    },
}

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) trigger: Arc<Trigger>,
    pub(crate) props: Arc<Props>,
    pub(crate) stage: Stage,
    pub(crate) attempt: u32,
    /// When the first attempt began.
    pub(crate) began: SystemTime,
    /// When this one did, until the coordinator was told.
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
    /// It was told that every instant counts.
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
    /// There is something to say: `latest`, or an offset alone.
    pub(crate) waits: bool,
    pub(crate) offset_waits: bool,
    pub(crate) sent_at: Option<Duration>,
    /// When the first offset was set.
    pub(crate) offset_at: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) completed: RunCompleted,
    pub(crate) sent: bool,
    /// Says that a report before it was refused.
    pub(crate) replaces: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Hand {
    pub(crate) runs: BTreeMap<RunId, Held>,
    /// Those whose time has not come, by that.
    waiting: BTreeSet<(Duration, RunId)>,
    /// Not later than the time at which time alone next has something for a run; none: it never has. Asked at every
    /// event, so not all runs are looked at each time.
    wake: Option<Duration>,
    /// In the order in which they arose.
    pub(crate) reports: BTreeMap<u64, Report>,
    /// The same by their runs.
    reported: BTreeSet<(RunId, u64)>,
    /// Those that wait to be sent.
    unsent: BTreeSet<u64>,
    next_report: u64,
    seen: BTreeMap<(String, u32), u64>,
}

impl Hand {
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

    /// The run is kept until then.
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

    /// What has not begun is let go of with its stream: it is sent again on the next one, so it may come again.
    pub(crate) fn let_go(&mut self) {
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

    /// Something is to be looked at then, if nothing is before.
    pub(crate) fn wake_at(&mut self, at: Option<Duration>) {
        self.wake = [self.wake, at].into_iter().flatten().min();
    }

    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        self.wake
    }

    /// Looks at all runs for what time has next for them.
    pub(crate) fn look_when(&mut self) {
        self.wake = self.runs.values().filter_map(Held::wakes_at).min();
    }

    pub(crate) fn report(&mut self, completed: RunCompleted) {
        self.keep(completed, false);
    }

    /// The coordinator found a rule broken by this report: without another one the run would go on in its records.
    /// True: one follows. What replaces a report is not replaced itself.
    pub(crate) fn replace(&mut self, refused: &Report, why: &str) -> bool {
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
        self.reports.insert(number, Report { completed, sent: false, replaces });
        self.next_report += 1;
    }

    /// The user code of `id` ended for good, or never will begin: the outcome, unless nobody would believe it.
    pub(crate) fn finish(&mut self, now: Now, id: &RunId, ended: Option<Ended>) {
        let Some(held) = self.runs.remove(id) else { return };
        let begun = match held.stage {
            Stage::Waiting { until } => !self.waiting.remove(&(until, id.clone())),
            Stage::InCode => !held.never_began(ended.as_ref()),
            Stage::Backoff { .. } => true,
        };
        if held.disowned {
            return;
        }
        let (outcome, error) = verdict(&held, begun, ended.as_ref());
        self.report(RunCompleted {
            run: Some(id.to_proto()),
            outcome: outcome.into(),
            error,
            processed: held.processed,
            failed: held.failed,
            offset: held.offset,
            started_at: begun.then(|| held.began.into()),
            ended_at: Some(now.wall.into()),
            output: ended.map(|ended| ended.output).unwrap_or_default(),
            attempt: held.attempt,
        });
    }

    /// The coordinator has answered: the last report of the run that it was waiting for, if there was one.
    pub(crate) fn acknowledge(&mut self, id: &RunId) -> Option<Report> {
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

    /// The identity was marked dead: nothing of what it has in flight is believed.
    pub(crate) fn disown(&mut self) {
        self.reports.clear();
        self.reported.clear();
        self.unsent.clear();
        self.runs.values_mut().for_each(|held| held.disowned = true);
    }
}

/// What a stopped run reports is why it was stopped, whatever its handler returned: a handler that returns Ok
/// because it was cancelled has not done its work.
fn verdict(held: &Held, begun: bool, ended: Option<&Ended>) -> (RunOutcome, String) {
    if let Some(why) = held.stop.as_ref().filter(|why| !begun && why.urgent()) {
        return (RunOutcome::NotStarted, why.text());
    }
    if let Some(why) = &held.stop {
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
