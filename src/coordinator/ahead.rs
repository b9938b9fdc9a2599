//! Fires ahead of time: what a due time will surely start is decided, written and told a moment before it. So the
//! disk, the decision and the network are not in the way of user code, and a burst is spread over a while.
//!
//! The record says that the item runs since the due time; until that has come, the worker keeps the Trigger. One
//! that cannot is told at the due time. Whatever happens in between happens to a run in flight.

use std::collections::BTreeSet;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName};
use rosterd_domain::item::Running;
use rosterd_domain::mutants;
use rosterd_domain::time::Time;

use super::node::Node;

/// How far ahead fires are written, and which of them wait to be told.
#[derive(Debug)]
pub(super) struct Ahead {
    least: Duration,
    most: Duration,
    /// By their time.
    waiting: BTreeSet<(Time, JobName, Item)>,
    by: Duration,
    /// The due time that was last written for, and how much time was left after its last transaction; none: it
    /// came too late.
    last: Option<(Time, Option<Duration>)>,
}

impl Ahead {
    pub(super) fn new((least, most): (Duration, Duration)) -> Self {
        Self { least, most, waiting: BTreeSet::new(), by: least, last: None }
    }

    /// When the next runs are to be told.
    pub(super) fn next(&self) -> Option<Time> {
        self.waiting.first().map(|(at, _, _)| *at)
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.next().is_some_and(|at| at <= now)
    }

    /// When a due time is to be looked at.
    pub(super) fn before(&self, due: Time, now: Time) -> Time {
        let early = due.minus(self.by);
        if early > now { early } else { due }
    }

    /// Whether a due time to come is near enough to be written for.
    pub(super) fn reaches(&self, due: Time, now: Time) -> bool {
        now < due && due.minus(self.by) <= now
    }

    /// Runs of `due` were written by now. If the last of them came too late, the next ones begin earlier; if there
    /// was much time left, a little later.
    pub(super) fn written(&mut self, due: Time, now: Time) {
        let left = (now < due).then(|| due.since(now));
        match &mut self.last {
            Some((last, before)) if *last == due => {
                if before.is_some() && left.is_none() {
                    self.by = (self.by * 2).min(self.most);
                }
                *before = before.and(left);
            }
            last => {
                let ample = last.and_then(|(_, left)| left).is_some_and(|left| left > self.by / 2);
                if ample {
                    self.by = (self.by - self.by / 8).max(self.least);
                }
                *last = Some((due, left));
                if left.is_none() {
                    self.by = (self.by * 2).min(self.most);
                }
            }
        }
    }
}

impl Ahead {
    /// Until when user code is not to begin, if that is yet to come. A time that seems far away was written before
    /// the calendar was set back: its run has waited long enough.
    pub(super) fn not_before(&self, run: &Running, now: Time) -> Option<Time> {
        let early = now < run.since && run.since.since(now) <= self.most;
        (early && !mutants::is_on(mutants::TELLS_EARLY)).then_some(run.since)
    }

    /// Keeps a run for a worker that would begin it at once.
    pub(super) fn tell_later(&mut self, name: &JobName, item: Item, run: &Running) {
        self.waiting.insert((run.since, name.clone(), item));
    }
}

impl Node {
    /// Tells of up to `most` of the runs whose time has come.
    pub(super) fn tell_due_runs(&mut self, most: usize) {
        let mut told = 0;
        while self.ahead.is_due(self.now.wall) && told < most {
            let Some((_, name, item)) = self.ahead.waiting.pop_first() else { break };
            told += 1;
            if let Some(mut job) = self.jobs.remove(&name) {
                self.dispatch(&name, &mut job, item);
                self.jobs.insert(name, job);
            }
        }
        self.look_at_leavers |= told > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_came_too_late_begins_earlier_and_what_had_time_a_little_later() {
        let mut ahead = Ahead::new((10 * MS, 100 * MS));
        let due = |second| Time::from_seconds(second);
        for second in 1..9 {
            ahead.written(due(second), due(second).plus(MS));
            ahead.written(due(second), due(second).plus(2 * MS));
        }
        assert_eq!(ahead.by, 100 * MS, "twice as early for each due time that came too late, up to the most");
        assert!(ahead.reaches(due(9), due(9).minus(100 * MS)));
        assert!(!ahead.reaches(due(9), due(9).minus(101 * MS)) && !ahead.reaches(due(9), due(9)));
        ahead.written(due(9), due(9).minus(90 * MS));
        ahead.written(due(9), due(9).minus(MS));
        ahead.written(due(10), due(10).minus(90 * MS));
        assert_eq!(ahead.by, 100 * MS, "the last one of its time had little left");
        for second in 11..60 {
            ahead.written(due(second), due(second).minus(90 * MS));
        }
        assert_eq!(ahead.by, 10 * MS);
    }
}
