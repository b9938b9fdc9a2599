//! Which rows of an item's lifecycle table a change of its record took. (The table itself is `Record::apply`.)

use rosterd_domain::item::{Outcome, Record, Source, State};

use crate::oracle::coverage::Coverage;
use crate::oracle::observer::RecordChange;

fn state(record: &Record) -> &'static str {
    match &record.state {
        State::Idle => "idle",
        State::Running(run) if run.held => "held",
        State::Running(_) => "running",
        State::Crashed(_) => "crashed",
    }
}

/// Counts the rows of one change. One transaction may take several.
pub fn cover(coverage: &Coverage, change: &RecordChange) {
    let Some(before) = &change.before else { return coverage.count("item: new") };
    let (after, was) = (&change.after, state(before));
    if let Some((_, ended)) = &change.ended {
        let again = if after.crashed().is_some() { ", to be run again" } else { "" };
        let by = if ended.reported { "reported" } else { "expired" };
        let held = if was == "held" { "held: " } else { "" };
        coverage.count(format!("item: {held}end {} ({by}{again})", ended.outcome));
    }
    match &change.started {
        Some((run, _)) if run.source == Source::Failover => coverage.count("item: claim"),
        Some((run, _)) => {
            let held = if run.held { " (held)" } else { "" };
            coverage.count(format!("item: start {}{held}", run.source));
        }
        None => {}
    }
    if was == "held" && change.ended.is_none() && state(after) == "running" {
        coverage.count("item: release");
    }
    if after.running().is_some_and(|run| run.cancelled) && !before.running().is_some_and(|run| run.cancelled)
    {
        coverage.count("item: cancel");
    }
    if change.ended.as_ref().is_some_and(|(run, ended)| run.cancelled && ended.outcome == Outcome::Crashed) {
        coverage.count("item: end crashed after a cancel");
    }
    if was == "crashed" && change.started.is_none() && after.state.is_idle() {
        coverage.count("item: give_up");
    }
    due_times(coverage, before, after, was);
    let marked = before.misfire.is_some() || after.counters.misfired > before.counters.misfired;
    let run = change.started.as_ref().is_some_and(|(run, _)| run.source == Source::Misfire);
    if marked && after.misfire.is_none() && !run {
        coverage.count("item: drop_misfire");
    }
    if after.last_fire < before.last_fire {
        coverage.count("item: cap");
    }
}

fn due_times(coverage: &Coverage, before: &Record, after: &Record, was: &str) {
    if after.counters.misfired > before.counters.misfired {
        coverage.count(format!("item: misfire while {was}"));
    }
    if after.counters.skipped > before.counters.skipped {
        coverage.count(format!("item: skip while {was}"));
    }
    for (reason, count) in &after.counters.missed {
        if before.counters.missed.get(reason) != Some(count) {
            coverage.count(format!("item: miss {reason}"));
            coverage.count(format!("item: miss while {was}"));
        }
    }
}
