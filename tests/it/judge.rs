//! Passes the workers' log to the common judge: a broken promise fails the test with the table of runs.
//!
//! The common judge only knows of a frozen process that it must stop when it resumes. Here the test has logged when it
//! resumed the process, so each run is checked for what it did until then, and from then on.

#[allow(unused_imports, reason = "shared by several test binaries")]
pub use rosterd_domain::verify::{AuditedRun, Fault, Line, Verdict, What};

use crate::harness::PATIENCE;

/// How often user code may log that it is alive between resuming and the order to stop. It checks for the order before
/// each such line; one line may have been in progress when it was frozen.
const ON_ITS_WAY: usize = 1;

/// Judges. A run that was reassigned while its process was frozen must have stopped by the end of a test.
pub fn judge(lines: &[Line]) -> Verdict {
    let patience = u64::try_from(PATIENCE.as_nanos()).unwrap();
    let mut verdict = rosterd_domain::verify::judge(lines, patience);
    let faults: Vec<Fault> = spans(lines).iter().flat_map(|span| woken(lines, span, &verdict)).collect();
    verdict.faults.extend(faults);
    verdict
}

/// The time in which a process was frozen.
struct Span {
    worker: String,
    frozen: u64,
    thawed: u64,
}

/// The times at which the test froze and resumed a process.
fn spans(lines: &[Line]) -> Vec<Span> {
    let mut marks: Vec<&Line> =
        lines.iter().filter(|line| matches!(line.what, What::Frozen | What::Thawed)).collect();
    marks.sort_by_key(|line| line.at);
    let mut spans: Vec<Span> = Vec::new();
    for line in marks {
        let last = spans.iter_mut().rev().find(|span| span.worker == line.worker);
        match (line.what, last) {
            (What::Thawed, Some(span)) => span.thawed = span.thawed.min(line.at),
            (What::Frozen, _) => {
                spans.push(Span { worker: line.worker.clone(), frozen: line.at, thawed: u64::MAX });
            }
            _ => {}
        }
    }
    spans
}

/// Each run of the process that was reassigned meanwhile, or just when it resumed, wrote nothing from the new run's
/// start until it was resumed, and after that at most the lines between resuming and the order to stop.
fn woken(lines: &[Line], span: &Span, verdict: &Verdict) -> Vec<Fault> {
    let mut faults = Vec::new();
    let in_flight = |run: &&AuditedRun| {
        run.worker == span.worker
            && run.start <= span.frozen
            && run.stop.is_none_or(|stop| stop > span.frozen)
    };
    for old in verdict.runs.iter().filter(in_flight) {
        let given_away = |new: &&AuditedRun| {
            (&new.job, new.item) == (&old.job, old.item)
                && (span.frozen..span.thawed.max(old.stop.unwrap_or(u64::MAX))).contains(&new.start)
                && new.token > old.token
        };
        let Some(new) = verdict.runs.iter().find(given_away) else { continue };
        let mut fault = |what: String| {
            let text = format!("{}/{}: token {} on {} {what}", old.job, old.item, old.token, old.worker);
            faults.push(Fault::new("waking", text, vec![old.id(), new.id()]));
        };
        let written = |from: u64, until: u64| {
            let own = move |line: &&Line| {
                (&line.worker, &line.job, line.item, line.token)
                    == (&old.worker, &old.job, old.item, old.token)
            };
            lines.iter().filter(own).filter(move |line| (from..until).contains(&line.at))
        };
        if let Some(line) = written(new.start, span.thawed).next() {
            fault(format!("wrote {:?} while it stood still and token {} ran", line.what, new.token));
        }
        let signs =
            written(span.thawed, u64::MAX).filter(|line| matches!(line.what, What::Start | What::Tick));
        let signs = signs.count();
        if signs > ON_ITS_WAY {
            fault(format!("went on when it woke: {signs} signs of work"));
        }
    }
    faults
}

/// For tests.
pub trait Clean {
    /// Fails if a promise is broken.
    fn is_clean(&self);
}

impl Clean for Verdict {
    #[track_caller]
    fn is_clean(&self) {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        assert!(faults.is_empty(), "broken promises:\n  {}\nruns:\n{}", faults.join("\n  "), self.table());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: u64, worker: &str, what: What, token: u64) -> Line {
        serde_json::from_value(serde_json::json!({
            "at": at, "worker": worker, "what": what, "job": "j", "token": token,
            "source": if token > 1 { "FAILOVER" } else { "NORMAL_TRIGGER" },
            "attempt": 1,
        }))
        .unwrap()
    }

    /// The findings if a process is frozen from 20 to 60, its run is reassigned at 40, and it writes this.
    fn found(old: &[(u64, What)]) -> Vec<&'static str> {
        let mut lines = vec![
            line(10, "a", What::Start, 1),
            line(20, "a", What::Frozen, 0),
            line(40, "b", What::Start, 2),
            line(60, "a", What::Thawed, 0),
        ];
        lines.extend(old.iter().map(|(at, what)| line(*at, "a", *what, 1)));
        judge(&lines).faults.iter().map(|fault| fault.rule).collect()
    }

    #[test]
    fn a_worker_that_wakes_may_finish_a_word_and_must_stop() {
        let none: [&str; 0] = [];
        assert_eq!(found(&[(15, What::Tick), (61, What::Cancel)]), none);
        assert_eq!(found(&[(15, What::Tick), (61, What::Tick), (62, What::Drop)]), none);
    }

    #[test]
    fn a_worker_that_woke_just_before_its_run_was_given_away_must_stop_too() {
        let found = |old: &[(u64, What)]| {
            let mut lines = vec![
                Line { lease: Some(20), ..line(10, "a", What::Start, 1) },
                line(20, "a", What::Frozen, 0),
                line(60, "a", What::Thawed, 0),
                line(62, "b", What::Start, 2),
            ];
            lines.extend(old.iter().map(|(at, what)| line(*at, "a", *what, 1)));
            judge(&lines).faults.iter().map(|fault| fault.rule).collect::<Vec<_>>()
        };
        assert_eq!(found(&[(61, What::Tick), (63, What::Cancel)]), Vec::<&str>::new());
        assert_eq!(found(&[(61, What::Tick), (63, What::Tick), (64, What::Cancel)]), ["waking"]);
        assert_eq!(found(&[(63, What::End)]), ["overlap"]);
    }

    #[test]
    fn work_of_who_should_stand_still_and_work_after_it_woke_are_found() {
        assert_eq!(found(&[(41, What::Tick), (61, What::Cancel)]), ["waking"]);
        assert_eq!(found(&[(61, What::Tick), (62, What::Tick), (63, What::Cancel)]), ["waking"]);
        assert_eq!(found(&[(61, What::Tick)]), ["overlap"], "it never stops");
        assert_eq!(found(&[(61, What::End)]), ["overlap"], "it ends as if nothing had been");
    }
}
