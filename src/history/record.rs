//! A row as it waits on the disk for the database, in JSON: unknown fields are ignored, and missing ones have defaults,
//! so other versions can read it. Rows come from the queue; adjacent gaps are merged on the way, so that each record is
//! complete by itself and may be sent again.

use std::collections::BTreeMap;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::item::Source;
use rosterd_domain::plan::FireResult;
use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};

use super::owners::RecordedAssignment;
use super::queue::{Row, What};
use super::rows::{Detail, EventKind, RunState, result_names};

/// A row to be sent to the database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    Run(Box<RunRecord>),
    Gap(GapRecord),
    Event(EventRecord),
    /// An assignment, and when it was seen.
    Owned(i64, Box<RecordedAssignment>),
}

/// What is known of a run: that it was assigned, that it started, how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    pub(super) job: String,
    pub(super) item: u32,
    pub(super) token: u64,
    pub(super) fire: i64,
    pub(super) source: String,
    pub(super) instance: String,
    pub(super) worker: String,
    pub(super) trigger: Option<String>,
    pub(super) since: i64,
    /// Whether its user code has started.
    #[serde(default)]
    pub(super) begun: bool,
    pub(super) end: Option<EndRecord>,
    pub(super) started: Option<i64>,
    #[serde(default)]
    pub(super) error: String,
    #[serde(default)]
    pub(super) output: String,
    #[serde(default)]
    pub(super) processed: u64,
    #[serde(default)]
    pub(super) failed: u64,
    #[serde(default)]
    pub(super) attempt: u32,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct EndRecord {
    pub(super) outcome: String,
    pub(super) state: String,
    pub(super) at: i64,
    pub(super) requeued: bool,
}

/// Scheduled times that were not run: the complete content of the row in the database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct GapRecord {
    pub(super) job: String,
    pub(super) item: u32,
    pub(super) first: i64,
    pub(super) latest: i64,
    pub(super) count: u64,
    pub(super) result: String,
    pub(super) reason: String,
    pub(super) recorded: i64,
    /// How many of them are new with this record: only they are counted.
    pub(super) new: u64,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct EventRecord {
    pub(super) at: i64,
    pub(super) job: Option<String>,
    pub(super) kind: String,
    pub(super) text: String,
    pub(super) principal: Option<String>,
}

/// Identifies a run.
pub(super) type RunKey = (String, i64, u32, u64);

impl RunRecord {
    pub(super) fn key(&self) -> RunKey {
        (self.job.clone(), self.fire, self.item, self.token)
    }

    /// Merges what was recorded about the same run later: the first end stands, and a repeated end fills in missing
    /// details.
    pub(super) fn join(&mut self, later: Self) {
        match (&self.end, &later.end) {
            (None, Some(_)) => {
                let started = later.started.or(self.started);
                let attempt = later.attempt.max(self.attempt);
                *self = Self { started, attempt, ..later };
            }
            (Some(first), Some(second)) if first.outcome == second.outcome => self.fill_in(later),
            (None, None) if later.begun => {
                self.begun = true;
                self.started = self.started.or(later.started);
            }
            _ => {}
        }
    }

    fn fill_in(&mut self, later: Self) {
        self.started = self.started.or(later.started);
        for (text, reported) in [(&mut self.error, later.error), (&mut self.output, later.output)] {
            if text.is_empty() {
                *text = reported;
            }
        }
        self.processed = self.processed.max(later.processed);
        self.failed = self.failed.max(later.failed);
        self.attempt = self.attempt.max(later.attempt);
    }
}

impl Record {
    /// Whether it is a row of the audit.
    pub(super) fn is_audit(&self) -> bool {
        match self {
            Self::Event(event) => EventKind::named(&event.kind).is_some_and(EventKind::is_audit),
            Self::Run(_) | Self::Gap(_) | Self::Owned(..) => false,
        }
    }
}

/// Turns rows into records.
#[derive(Debug, Default)]
pub(super) struct Records {
    gaps: BTreeMap<(JobName, Item), (GapRecord, FireResult)>,
    losses: u64,
}

impl Records {
    /// Most items whose last gap is remembered; beyond that, gaps are not merged.
    const MOST: usize = 100_000;

    pub(super) fn of(&mut self, row: Row) -> Record {
        // If rows were dropped, it is not known what lies between two gaps.
        if self.losses != row.losses {
            self.losses = row.losses;
            self.gaps.clear();
        }
        match row.what {
            What::Started { of, run, detail } => {
                if matches!(run.source, Source::NormalTrigger | Source::Misfire) {
                    self.gaps.remove(&(of.job.clone(), of.item));
                }
                Record::Run(Box::new(self::run(of, run, None, detail)))
            }
            What::Begun { of, run, at } => {
                let begun =
                    RunRecord { begun: true, started: at.map(|at| at.0), ..self::run(of, run, None, None) };
                Record::Run(Box::new(begun))
            }
            What::Ended { of, run, outcome, at, requeued, detail } => {
                let at = detail.as_ref().and_then(|detail| detail.ended_at).unwrap_or(at).0;
                let state = RunState::from(outcome).as_str().to_owned();
                let end = EndRecord { outcome: outcome.as_str().to_owned(), state, at, requeued };
                Record::Run(Box::new(self::run(of, run, Some(end), detail)))
            }
            What::NotRun { job, item, first, latest, count, result } => {
                Record::Gap(self.gap((job, item), (first, latest, count), result, row.at))
            }
            What::Owned(owned) => Record::Owned(row.at.0, Box::new(RecordedAssignment::of(&owned))),
            What::Event { job, kind, text, principal } => {
                if let (Some(job), EventKind::Job) = (&job, kind) {
                    self.gaps.retain(|(of, _), _| of != job);
                }
                let job = job.map(|job| job.as_str().to_owned());
                Record::Event(EventRecord {
                    at: row.at.0,
                    job,
                    kind: kind.as_str().to_owned(),
                    text,
                    principal,
                })
            }
        }
    }

    /// Scheduled times are accounted for in order, so the next gap with the same reason is adjacent to the last one.
    fn gap(
        &mut self,
        of: (JobName, Item),
        (first, latest, count): (Time, Time, u64),
        result: FireResult,
        at: Time,
    ) -> GapRecord {
        if let Some((last, last_result)) = self.gaps.get_mut(&of)
            && *last_result == result
            && last.latest < first.0
        {
            (last.latest, last.recorded, last.new) = (latest.0, at.0, count);
            last.count = last.count.saturating_add(count);
            return last.clone();
        }
        let (name, reason) = result_names(result);
        let gap = GapRecord {
            job: of.0.as_str().to_owned(),
            item: of.1.0,
            first: first.0,
            latest: latest.0,
            count,
            result: name.to_owned(),
            reason: reason.to_owned(),
            recorded: at.0,
            new: count,
        };
        if self.gaps.len() >= Self::MOST {
            self.gaps.clear();
        }
        if self.gaps.get(&of).is_none_or(|(last, _)| last.latest < gap.latest) {
            self.gaps.insert(of, (gap.clone(), result));
        }
        gap
    }
}

fn run(
    of: super::queue::Of,
    run: rosterd_domain::item::Running,
    end: Option<EndRecord>,
    detail: Option<Box<Detail>>,
) -> RunRecord {
    let detail = detail.map_or_else(Detail::default, |detail| *detail);
    RunRecord {
        job: of.job.as_str().to_owned(),
        item: of.item.0,
        token: of.token.0,
        fire: run.fire.0,
        source: run.source.as_str().to_owned(),
        instance: run.instance.as_str().to_owned(),
        worker: run.worker.as_str().to_owned(),
        trigger: run.trigger.map(|id| id.as_str().to_owned()),
        since: run.since.0,
        begun: false,
        end,
        started: detail.started_at.map(|at| at.0),
        error: detail.error,
        output: detail.output,
        processed: detail.processed,
        failed: detail.failed,
        attempt: detail.attempt,
    }
}

impl RunRecord {
    /// The run state that it means.
    pub(super) fn state(&self) -> &str {
        match &self.end {
            Some(end) => &end.state,
            None if self.begun => RunState::Running.as_str(),
            None => RunState::Staging.as_str(),
        }
    }
}
