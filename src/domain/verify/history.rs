//! Translates a coordinator's history into the lines that the judge reads. Runs come in any order, scheduled times in
//! the order of time; the results of most scheduled times are only counted, since a run or a row of the history stands
//! for them.
//!
//! A coordinator's clock determines the start of a run, a worker's clock its end: if they contradict the order of
//! tokens by less than the allowed clock skew, the order of tokens wins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::given::{Given, nanos};
use super::line::{Line, What};
use crate::time::Time;

/// A run as a history keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its job.
    pub job: String,
    /// Its item.
    pub item: u32,
    /// Its token.
    pub token: u64,
    /// Its scheduled time.
    pub fire: Time,
    /// Why it existed.
    pub source: String,
    /// The instance that ran it.
    pub instance: String,
    /// Its last attempt.
    pub attempt: u32,
    /// When its start was decided.
    pub began: Time,
    /// When it ended.
    pub ended: Option<Time>,
    /// How it ended; `None`: it is in flight, or that is not known.
    pub outcome: Option<String>,
    /// The history that it is from, for people.
    pub kept_in: Arc<str>,
}

/// The recorded result of a scheduled time of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedResult<'a> {
    /// This result.
    Known(&'a str),
    /// It lies ahead, or is waiting.
    Pending,
    /// Nothing is known of it, although something is known of a later one.
    Unknown,
}

/// Collects a history.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    runs: BTreeMap<(String, u32, u64), Kept>,
    due: BTreeMap<(String, u32), KnownItem>,
    unknown: Vec<Line>,
    given: BTreeMap<Assignment, Time>,
    trace: Trace,
}

/// An assignment that several coordinators saw come into force: the job, the generation, the owners, and whether these
/// are all. A job that is created again restarts its generations, with other owners.
type Assignment = (String, u64, Vec<(String, Vec<(u32, u32)>)>, bool);

#[derive(Debug, Default)]
struct KnownItem {
    /// Something is known of an earlier scheduled time.
    earlier: bool,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// For the judge.
    pub lines: Vec<Line>,
    /// The origin of each line, for people: the row of a history, or the schedule.
    pub places: Vec<String>,
    /// The number of scheduled times, by result.
    pub results: BTreeMap<String, u64>,
    /// Scheduled times before the first one of their item that anything is known of: the item did not exist yet, or the
    /// rows were deleted as too old. They are not judged.
    pub before: u64,
    /// The assignments, in order of time.
    pub given: Vec<Given>,
    /// Runs that are over and whose end another coordinator may know. They are not judged.
    pub elsewhere: u64,
    /// Jobs that are now without monitorExecution.
    pub unmonitored: BTreeSet<String>,
}

impl TraceBuilder {
    /// Adds a run. If several histories have the same run, the one that knows its end wins.
    pub fn run(&mut self, run: Kept) {
        let known = self.runs.entry((run.job.clone(), run.item, run.token)).or_insert_with(|| run.clone());
        if known.outcome.is_none() {
            *known = run;
        }
    }

    /// Adds an assignment, in the words of a history.
    pub fn assigned(&mut self, at: Time, job: &str, text: &str) {
        if let Some(Given { at, job, generation, owners, whole }) = Given::read(at, job, text) {
            let first = self.given.entry((job, generation, owners, whole)).or_insert(at);
            *first = at.min(*first);
        }
    }

    /// Marks a job as being without monitorExecution.
    pub fn unmonitored(&mut self, job: &str) {
        self.trace.unmonitored.insert(job.to_owned());
    }

    /// The number of runs so far.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Adds a scheduled time, later than those of the same item before it.
    pub fn due(&mut self, job: &str, item: u32, fire: Time, result: RecordedResult<'_>) {
        let known = self.due.entry((job.to_owned(), item)).or_default();
        let counted = &mut self.trace.results;
        let mut count = |what: &str| *counted.entry(what.to_owned()).or_default() += 1;
        match result {
            RecordedResult::Known(what) => {
                known.earlier = true;
                count(what);
            }
            RecordedResult::Pending => count("pending"),
            RecordedResult::Unknown if known.earlier => {
                count("unknown");
                let about = Line { job: job.to_owned(), item, fire: fire.0, ..blank(What::Scheduled, fire) };
                self.unknown.push(about);
            }
            RecordedResult::Unknown => self.trace.before += 1,
        }
    }

    /// The result. `whole`: no other coordinator can know more.
    pub fn build(self, skew: Duration, whole: bool) -> Trace {
        let mut trace = self.trace;
        trace.given = given(self.given);
        let mut runs = self.runs.into_values().peekable();
        let mut earliest = Time(i64::MIN);
        while let Some(mut run) = runs.next() {
            // A run with a lower token started earlier.
            run.began = if agrees(run.began, earliest, skew) { run.began.max(earliest) } else { run.began };
            let next = runs.peek().filter(|next| (&next.job, next.item) == (&run.job, run.item));
            let bound = next.map(|next| next.began.max(run.began));
            earliest = next.map_or(Time(i64::MIN), |_| run.began);
            let place = format!("{} runs[{}/{}/{}]", run.kept_in, run.job, run.item, run.token);
            trace.elsewhere += tell(run, bound, skew, whole, &mut trace.lines);
            trace.places.resize(trace.lines.len(), place);
        }
        if whole {
            let schedule = |line: &Line| format!("schedule[{}]", line.job);
            trace.places.extend(self.unknown.iter().map(schedule));
            trace.lines.extend(self.unknown);
        }
        trace
    }
}

fn given(found: BTreeMap<Assignment, Time>) -> Vec<Given> {
    let given = |((job, generation, owners, whole), at)| Given { at, job, generation, owners, whole };
    let mut given: Vec<Given> = found.into_iter().map(given).collect();
    given.sort_by_key(|given| (given.at, given.generation));
    given
}

/// Whether the times are in order, allowing for the clock skew.
fn agrees(later: Time, earlier: Time, skew: Duration) -> bool {
    earlier.0.saturating_sub(later.0) <= i64::try_from(skew.as_millis()).unwrap_or(i64::MAX)
}

/// Adds the lines of one run; `next`: when the item's next run started. Returns 1 if another coordinator may know its
/// end, else 0.
fn tell(run: Kept, next: Option<Time>, skew: Duration, whole: bool, lines: &mut Vec<Line>) -> u64 {
    let line = |what, at: Time| Line {
        worker: run.instance.clone(),
        job: run.job.clone(),
        item: run.item,
        token: run.token,
        fire: run.fire.0,
        source: run.source.clone(),
        attempt: run.attempt,
        instance: run.instance.clone(),
        ..blank(what, at)
    };
    lines.push(line(What::Start, run.began));
    let Some(outcome) = &run.outcome else {
        // Without a later run it is in flight.
        let Some(next) = next else { return 0 };
        lines.push(line(if whole { What::Lost } else { What::Drop }, next));
        return u64::from(!whole);
    };
    let ended = run.ended.unwrap_or(run.began).max(run.began);
    let ended = next.filter(|next| agrees(*next, ended, skew)).map_or(ended, |next| ended.min(next));
    let how = match outcome.as_str() {
        "cancelled" => What::Cancel,
        "crashed" => What::Drop,
        _ => What::End,
    };
    for what in [how, What::Settled] {
        lines.push(Line { detail: outcome.clone(), ..line(what, ended) });
    }
    0
}

fn blank(what: What, at: Time) -> Line {
    Line {
        at: nanos(at),
        wall: at.0,
        worker: String::new(),
        what,
        job: String::new(),
        item: 0,
        token: 0,
        fire: 0,
        source: String::new(),
        attempt: 0,
        instance: String::new(),
        lease: None,
        detail: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::judge;

    fn kept(token: u64, began: i64, ended: Option<i64>) -> Kept {
        let outcome = ended.map(|_| "succeeded".to_owned());
        Kept {
            job: "j".into(),
            item: 0,
            token,
            fire: Time(token as i64),
            source: "NORMAL_TRIGGER".into(),
            instance: format!("h@-@{token}"),
            attempt: 1,
            began: Time(began),
            ended: ended.map(Time),
            outcome,
            kept_in: "here".into(),
        }
    }

    fn broken(runs: Vec<Kept>, skew: u64, whole: bool) -> Vec<&'static str> {
        let mut builder = TraceBuilder::default();
        runs.into_iter().for_each(|run| builder.run(run));
        let trace = builder.build(Duration::from_millis(skew), whole);
        judge(&trace.lines, 0).faults.iter().map(|fault| fault.rule).collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn clocks_may_differ_by_the_skew_and_no_more() {
        let runs = || vec![kept(1, 1000, Some(1500)), kept(2, 1400, Some(1450)), kept(3, 1300, None)];
        assert_eq!(broken(runs(), 100, true), NONE);
        assert_eq!(broken(runs(), 99, true), ["overlap", "overlap", "tokens"]);
    }

    #[test]
    fn an_end_that_was_not_seen_is_told_where_nobody_else_can_know_it() {
        let runs = || vec![kept(1, 1000, None), kept(2, 1400, None)];
        assert_eq!(broken(runs(), 0, true), ["no_outcome"]);
        assert_eq!(broken(runs(), 0, false), NONE);
        // Another history knows it.
        let both = [runs(), vec![kept(1, 1000, Some(1300))]].concat();
        assert_eq!(broken(both, 0, true), NONE);
    }

    /// Every field of a row is in its lines.
    #[test]
    fn a_run_is_told_as_it_was_kept() {
        let run = Kept {
            job: "other".into(),
            item: 3,
            fire: Time(900),
            source: "MISFIRE".into(),
            attempt: 2,
            ..kept(7, 1000, Some(1300))
        };
        let mut builder = TraceBuilder::default();
        builder.run(run);
        builder.run(kept(1, 1000, None));
        assert_eq!(builder.runs(), 2);
        let line = |what, at: i64, detail: &str| Line {
            at: at as u64 * 1_000_000,
            wall: at,
            worker: "h@-@7".into(),
            what,
            job: "other".into(),
            item: 3,
            token: 7,
            fire: 900,
            source: "MISFIRE".into(),
            attempt: 2,
            instance: "h@-@7".into(),
            lease: None,
            detail: detail.into(),
        };
        let how = "succeeded";
        let told = [line(What::Start, 1000, ""), line(What::End, 1300, how), line(What::Settled, 1300, how)];
        assert_eq!(builder.build(Duration::ZERO, true).lines[1..], told);
    }

    #[test]
    fn how_a_run_ended_is_told_as_what_its_worker_did() {
        for (outcome, what) in [
            ("succeeded", What::End),
            ("failed", What::End),
            ("cancelled", What::Cancel),
            ("crashed", What::Drop),
        ] {
            let mut builder = TraceBuilder::default();
            builder.run(Kept { outcome: Some(outcome.into()), ..kept(1, 1000, Some(1300)) });
            let told: Vec<What> =
                builder.build(Duration::ZERO, true).lines.iter().map(|line| line.what).collect();
            assert_eq!(told, [What::Start, what, What::Settled], "{outcome}");
        }
    }

    /// Several coordinators saw it come into force, each by its own clock: the first time counts.
    #[test]
    fn assignments_are_told_in_order_with_when_they_were_first_seen() {
        let mut builder = TraceBuilder::default();
        for (at, text) in [(30, "generation 2: ; now b@-@2 0"), (20, "generation 1: ; now a@-@1 0")] {
            builder.assigned(Time(at), "j", text);
            builder.assigned(Time(at - 5), "j", text);
            builder.assigned(Time(at + 5), "j", text);
        }
        builder.assigned(Time(15), "j", "generation 3: nobody is there");
        builder.unmonitored("j");
        let trace = builder.build(Duration::ZERO, true);
        assert_eq!(trace.unmonitored, ["j".to_owned()].into());
        let given: Vec<_> = trace.given.iter().map(|given| (given.at.0, given.generation)).collect();
        assert_eq!(given, [(15, 1), (25, 2)]);
    }

    #[test]
    fn ends_that_others_may_know_are_counted() {
        let mut builder = TraceBuilder::default();
        [kept(1, 1000, None), kept(2, 1400, None), kept(3, 1500, None), kept(4, 1600, None)]
            .into_iter()
            .for_each(|run| builder.run(run));
        assert_eq!(builder.build(Duration::ZERO, false).elsewhere, 3, "the last is in flight");
    }

    #[test]
    fn each_line_has_the_place_of_the_row_that_is_believed() {
        let mut builder = TraceBuilder::default();
        builder.run(kept(1, 1000, None));
        builder.run(Kept { kept_in: "there".into(), ..kept(1, 1000, Some(1300)) });
        builder.run(kept(2, 1400, None));
        builder.due("j", 0, Time(0), RecordedResult::Known("run"));
        builder.due("j", 0, Time(1), RecordedResult::Unknown);
        let trace = builder.build(Duration::ZERO, true);
        let one = "there runs[j/0/1]";
        assert_eq!(trace.places, [one, one, one, "here runs[j/0/2]", "schedule[j]"]);
        assert_eq!(trace.lines.len(), trace.places.len());
    }

    #[test]
    fn a_second_normal_run_of_a_fire_and_a_run_taken_over_after_its_end_are_found() {
        let second = |source: &str| Kept { fire: Time(1), source: source.into(), ..kept(2, 1500, None) };
        let runs = |source| vec![kept(1, 1000, Some(1100)), second(source)];
        assert_eq!(broken(runs("NORMAL_TRIGGER"), 0, true), ["once_per_fire"]);
        assert_eq!(broken(runs("FAILOVER"), 0, true), ["once_per_fire"]);
        let mut crashed = runs("FAILOVER");
        crashed[0].outcome = Some("crashed".into());
        assert_eq!(broken(crashed, 0, true), NONE);
    }

    #[test]
    fn scheduled_times_are_counted_and_lost_ones_are_faults() {
        let tell = |whole| {
            let mut builder = TraceBuilder::default();
            let result = [
                RecordedResult::Unknown,
                RecordedResult::Known("run"),
                RecordedResult::Unknown,
                RecordedResult::Known("missed (down)"),
            ];
            for (n, result) in result.into_iter().chain([RecordedResult::Pending]).enumerate() {
                builder.due("j", 4, Time(1000 * n as i64), result);
            }
            builder.build(Duration::ZERO, whole)
        };
        let trace = tell(true);
        let counts: Vec<_> = trace.results.iter().map(|(what, n)| (what.as_str(), *n)).collect();
        assert_eq!(counts, [("missed (down)", 1), ("pending", 1), ("run", 1), ("unknown", 1)]);
        assert_eq!(trace.before, 1);
        assert_eq!(judge(&trace.lines, 0).faults[0].due, Some(("j".into(), 4, 2000)));
        assert_eq!(tell(false).lines, []);
    }
}
