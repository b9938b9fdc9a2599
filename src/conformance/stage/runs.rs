//! Runs as a script gives and sees them.

use std::path::PathBuf;
use std::time::Duration;

use rosterd_domain::verify::{Line, What};
use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rosterd_wire::proto::v1::{
    Heartbeat, JobKind, ReportResult, RunCompleted, RunOutcome, RunRef, RunSource, Trigger,
};

use super::{PATIENCE, Stage};
use crate::broken::{Played, ensure};
use crate::coordinator::frames;
use crate::event::{TimedEvent, WorkerEvent};

impl Stage {
    // ---- names

    /// An item that no run of this script had.
    pub(crate) fn item(&mut self) -> u32 {
        self.items += 1;
        self.items
    }

    /// A token above all before.
    pub(crate) fn token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    /// A run that nobody had: of an item of its own.
    pub(crate) fn new_run(&mut self) -> RunRef {
        let (item, token) = (self.item(), self.token());
        frames::run(self.setting.jobs[0], item, token)
    }

    /// A later run of the same item.
    pub(crate) fn later(&mut self, run: &RunRef) -> RunRef {
        RunRef { token: self.token(), ..run.clone() }
    }

    /// A file that is not there yet.
    pub(crate) fn file(&mut self) -> PathBuf {
        let number = self.token();
        self.house.folder.join(format!("{}-{number}", self.name))
    }

    // ---- triggers

    pub(crate) fn trigger_of(&self, run: &RunRef, steps: &str) -> Trigger {
        let dataflow = run.job.starts_with("dataflow");
        Trigger {
            run: Some(run.clone()),
            fire_time: Some(prost_types::Timestamp {
                seconds: 1_700_000_000 + i64::try_from(run.token % 1_000_000).unwrap_or(0),
                nanos: 0,
            }),
            source: RunSource::NormalTrigger.into(),
            item_parameter: steps.to_owned(),
            job_parameter: "of-the-job".into(),
            sharding_total_count: frames::ITEMS,
            attempt: 1,
            kind: if dataflow { JobKind::Dataflow } else { JobKind::Simple }.into(),
            max_attempts: 1,
            ..Trigger::default()
        }
    }

    pub(crate) async fn trigger(&mut self, run: &RunRef, steps: &str) -> Played {
        let trigger = self.trigger_of(run, steps);
        self.say(Frame::Trigger(trigger)).await
    }

    /// Triggers it, until its user code has begun.
    pub(crate) async fn start_run(&mut self, run: &RunRef, steps: &str) -> Played<Line> {
        self.trigger(run, steps).await?;
        self.started(run).await
    }

    // ---- what the worker's lines say

    pub(crate) async fn line(&mut self, run: &RunRef, what: What) -> Played<Line> {
        let name = format!("the line `{}` of {}", what.as_str(), frames::name(run));
        let run = run.clone();
        self.find(0, &name, |entry| line_of(entry, &run).filter(|line| line.what == what).cloned()).await
    }

    pub(crate) async fn started(&mut self, run: &RunRef) -> Played<Line> {
        self.line(run, What::Start).await
    }

    /// User code has left it: where it saw that it must stop, some write no other line.
    pub(crate) async fn over(&mut self, run: &RunRef) -> Played<Line> {
        let name = format!("the end of user code of {}", frames::name(run));
        let run = run.clone();
        let ends = |line: &&Line| matches!(line.what, What::End | What::Cancel);
        self.find(0, &name, |entry| line_of(entry, &run).filter(ends).cloned()).await
    }

    /// So many lines of this kind: a report may overtake those on standard output.
    pub(crate) async fn wait_for_lines(
        &mut self,
        run: &RunRef,
        what: What,
        wanted: usize,
    ) -> Played<Vec<Line>> {
        let mut seen = 0;
        let name = format!("{wanted} lines `{}` of {}", what.as_str(), frames::name(run));
        let of = run.clone();
        self.find(0, &name, |entry| {
            seen += usize::from(line_of(entry, &of).is_some_and(|line| line.what == what));
            (seen >= wanted).then_some(())
        })
        .await?;
        Ok(self.lines(run, what))
    }

    pub(crate) fn lines(&mut self, run: &RunRef, what: What) -> Vec<Line> {
        let run = run.clone();
        self.all(0, |entry| line_of(entry, &run).filter(|line| line.what == what).cloned())
    }

    /// User code of it has not begun, so far.
    pub(crate) fn ensure_not_begun(&mut self, run: &RunRef) -> Played {
        let begun = self.lines(run, What::Start);
        ensure(begun.is_empty(), || format!("user code of {} has begun", frames::name(run)))
    }

    // ---- reports

    /// The report of the run on the stream of now, since `from`.
    pub(crate) async fn report_since(&mut self, from: usize, run: &RunRef) -> Played<RunCompleted> {
        let what = format!("the report of {}", frames::name(run));
        let run = run.clone();
        self.frame(from, &what, |frame| match frame {
            Said::RunCompleted(report) if report.run.as_ref() == Some(&run) => Some(report.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn report(&mut self, run: &RunRef) -> Played<RunCompleted> {
        self.report_since(0, run).await
    }

    /// Its report is of this outcome; it is acknowledged.
    pub(crate) async fn reported(&mut self, run: &RunRef, outcome: RunOutcome) -> Played<RunCompleted> {
        self.reported_since(0, run, outcome).await
    }

    pub(crate) async fn reported_since(
        &mut self,
        from: usize,
        run: &RunRef,
        outcome: RunOutcome,
    ) -> Played<RunCompleted> {
        let report = self.report_since(from, run).await?;
        ensure(report.outcome() == outcome, || {
            let (is, wanted) = (frames::outcome(report.outcome()), frames::outcome(outcome));
            format!(
                "{} is reported {is} ({:?}) instead of {wanted}",
                frames::name(run),
                frames::brief(&report.error)
            )
        })?;
        self.acknowledge(run).await?;
        Ok(report)
    }

    pub(crate) async fn acknowledge(&mut self, run: &RunRef) -> Played {
        self.say(frames::report_ack(run, ReportResult::Accepted)).await
    }

    /// It answers that it does not start it.
    pub(crate) async fn not_started_since(&mut self, from: usize, run: &RunRef) -> Played {
        let report = self.reported_since(from, run, RunOutcome::NotStarted).await?;
        ensure(report.started_at.is_none(), || "a run that was not started has a started_at".into())
    }

    /// Triggers it, and it is answered NOT_STARTED.
    pub(crate) async fn is_not_started(&mut self, run: &RunRef, steps: &str) -> Played {
        let here = self.here();
        self.trigger(run, steps).await?;
        self.not_started_since(here, run).await?;
        self.ensure_not_begun_since(here, run)
    }

    fn ensure_not_begun_since(&mut self, from: usize, run: &RunRef) -> Played {
        let run = run.clone();
        let begun =
            self.all(from, |entry| line_of(entry, &run).filter(|line| line.what == What::Start).map(drop));
        ensure(begun.is_empty(), || format!("user code of {} has begun", frames::name(&run)))
    }

    // ---- heartbeats

    /// The next heartbeat for which `holds`.
    pub(crate) async fn beat(&mut self, what: &str, holds: impl Fn(&Heartbeat) -> bool) -> Played<Heartbeat> {
        let here = self.here();
        self.frame(here, &format!("a heartbeat {what}"), |frame| match frame {
            Said::Heartbeat(beat) if holds(beat) => Some(beat.clone()),
            _ => None,
        })
        .await
    }

    /// Heartbeats come to name just these. Some may be under way that were sent before what the script did last.
    pub(crate) async fn next_beat_names(&mut self, runs: &[&RunRef]) -> Played {
        self.beat("", |_| true).await?;
        let (until, mut named) = (crate::event::now() + PATIENCE, Vec::new());
        while crate::event::now() < until {
            named = self.beat("", |_| true).await?.runs_in_flight;
            if same(&named, runs) {
                return Ok(());
            }
        }
        let wanted: Vec<RunRef> = runs.iter().map(|run| (*run).clone()).collect();
        ensure(false, || {
            format!("heartbeats name {} instead of {}", frames::names(&named), frames::names(&wanted))
        })
    }

    // ---- all that came before is done

    /// A run of its own completes: the worker has read all earlier frames.
    pub(crate) async fn probe(&mut self) -> Played {
        let run = self.new_run();
        self.trigger(&run, "succeed").await?;
        self.report(&run).await?;
        self.acknowledge(&run).await
    }

    /// Acknowledges what is left, until nothing is in flight.
    pub(crate) async fn settle(&mut self) -> Played {
        let until = crate::event::now() + PATIENCE;
        loop {
            let beat = self.beat("", |_| true).await?;
            if beat.runs_in_flight.is_empty() {
                return Ok(());
            }
            ensure(crate::event::now() < until, || {
                format!("heartbeats go on to name {}", frames::names(&beat.runs_in_flight))
            })?;
            for run in &beat.runs_in_flight {
                self.acknowledge(run).await?;
            }
        }
    }
}

pub(crate) fn same(named: &[RunRef], runs: &[&RunRef]) -> bool {
    named.len() == runs.len() && runs.iter().all(|run| named.contains(run))
}

pub(crate) fn line_of<'a>(entry: &'a TimedEvent, run: &RunRef) -> Option<&'a Line> {
    match &entry.event {
        WorkerEvent::Line(line) if (&line.job, line.item, line.token) == (&run.job, run.item, run.token) => {
            Some(line)
        }
        _ => None,
    }
}

/// When a line was written.
pub(crate) fn at(line: &Line) -> Duration {
    Duration::from_nanos(line.at)
}
