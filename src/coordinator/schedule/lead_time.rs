//! Fires ahead of time: the runs that a scheduled time will certainly start are decided, written and sent a moment
//! before it. So the disk, the decision and the network do not delay user code, and a burst is spread over some time.
//!
//! The record says that the item runs since the scheduled time; until then the worker keeps the Trigger. A worker that
//! cannot do so gets it at the scheduled time. Whatever happens in between happens to a run in flight.

use std::collections::BTreeSet;
use std::time::Duration;

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::item::Running;
use rosterd_domain::mutants;
use rosterd_domain::time::Time;

/// How far ahead fires are written, and which of them wait to be sent.
#[derive(Debug)]
pub(crate) struct LeadTime {
    least: Duration,
    most: Duration,
    /// Runs that wait until they can be sent, ordered by that time.
    waiting: BTreeSet<(Time, JobName, Item, Token)>,
    lead: Duration,
    /// The latest scheduled time that was written, and the lead time with which that began.
    last: Option<(Time, Duration)>,
    /// How long writing it has taken so far.
    observed_latency: Duration,
}

impl LeadTime {
    pub(crate) fn new((least, most): (Duration, Duration)) -> Self {
        Self {
            least,
            most,
            waiting: BTreeSet::new(),
            lead: least,
            last: None,
            observed_latency: Duration::ZERO,
        }
    }

    /// Returns when the next waiting run has to be sent.
    pub(crate) fn next(&self) -> Option<Time> {
        self.waiting.first().map(|(at, ..)| *at)
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next().is_some_and(|at| at <= now)
    }

    /// Takes the next waiting run that is due by now.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<(JobName, Item, Token)> {
        if !self.is_due(now) {
            return None;
        }
        self.waiting.pop_first().map(|(_, name, item, token)| (name, item, token))
    }

    /// Returns when to plan for a scheduled time.
    pub(crate) fn before(&self, due: Time, now: Time) -> Time {
        let early = due.minus(self.lead);
        if early > now { early } else { due }
    }

    /// Whether a future scheduled time is near enough to write its runs.
    pub(crate) fn reaches(&self, due: Time, now: Time) -> bool {
        now < due && due.minus(self.lead) <= now
    }

    /// Runs of `due` were written by now. The lead time becomes twice the time that this took, but decreases only
    /// slowly.
    pub(crate) fn written(&mut self, due: Time, now: Time) {
        let is_later = self.last.is_none_or(|(last, _)| last < due);
        if is_later {
            let (began, target) = (self.lead, self.target());
            self.lead = (began - began / 8).max(target);
            (self.last, self.observed_latency) = (Some((due, began)), Duration::ZERO);
        }
        if let Some((_, began)) = self.last.filter(|(last, _)| *last == due) {
            self.observed_latency = self.observed_latency.max(now.since(due.minus(began)));
            self.lead = self.lead.max(self.target());
        }
    }

    fn target(&self) -> Duration {
        (self.observed_latency * 2).clamp(self.least, self.most)
    }

    /// Returns until when user code must not start, if that lies ahead. A time further away than the maximum lead was
    /// written by a clock that is ahead of this one: the worker waits as long as the writer may have been early, and no
    /// longer.
    pub(crate) fn not_before(&self, run: &Running, now: Time) -> Option<Time> {
        let early = now < run.since && !mutants::is_on(mutants::TELLS_EARLY);
        early.then(|| run.since.min(now.plus(self.most)))
    }

    /// Holds a run back until `at`, for a worker that would start it at once.
    pub(crate) fn tell_later(&mut self, at: Time, name: &JobName, item: Item, token: Token) {
        self.waiting.insert((at, name.clone(), item, token));
    }
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::{InstanceId, WorkerId};
    use rosterd_domain::item::Source;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn run_of(due: Time) -> Running {
        Running {
            fire: due,
            source: Source::NormalTrigger,
            instance: InstanceId::new("a@-@1").unwrap(),
            worker: WorkerId::new("1").unwrap(),
            since: due,
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        }
    }

    /// Regression: it was sent at once, since the clock seemed to have been set back. In fact another coordinator had
    /// written the run, a tenth of a second before its time.
    #[test]
    fn a_run_that_seems_far_away_waits_for_as_long_as_its_writer_may_have_been_early() {
        let (ahead, due) = (LeadTime::new((10 * MS, 250 * MS)), Time::from_seconds(33));
        let waits = |now: Time| ahead.not_before(&run_of(due), now).map(|until| until.since(now));
        assert_eq!(waits(due.minus(1990 * MS)), Some(250 * MS));
        assert_eq!(waits(due.minus(100 * MS)), Some(100 * MS));
        assert_eq!((waits(due), waits(due.plus(MS))), (None, None));
    }

    /// Regression: the latency was measured from a lead that had shrunk since, so that an eighth of the lead was not
    /// counted.
    #[test]
    fn what_takes_as_long_as_before_is_given_twice_that() {
        let mut ahead = LeadTime::new((10 * MS, 500 * MS));
        ahead.lead = 300 * MS;
        for second in 1..40 {
            let (due, began) = (Time::from_seconds(second), ahead.lead);
            ahead.written(due, due.minus(began).plus(80 * MS));
            assert!(ahead.lead >= 160 * MS, "{:?}", ahead.lead);
        }
        assert_eq!(ahead.lead, 160 * MS);
    }

    #[test]
    fn what_came_too_late_begins_earlier_and_what_had_time_a_little_later() {
        let mut ahead = LeadTime::new((10 * MS, 100 * MS));
        let due = |second| Time::from_seconds(second);
        ahead.written(due(1), due(1).minus(4 * MS));
        ahead.written(due(1), due(1).plus(20 * MS));
        assert_eq!(ahead.lead, 60 * MS, "twice the observed 30 ms");
        ahead.written(due(2), due(2).minus(30 * MS));
        assert_eq!(ahead.lead, 60 * MS, "the latency is the same");
        ahead.written(due(3), due(3).plus(200 * MS));
        assert_eq!(ahead.lead, 100 * MS, "the most");
        assert!(ahead.reaches(due(9), due(9).minus(100 * MS)));
        assert!(!ahead.reaches(due(9), due(9).minus(101 * MS)) && !ahead.reaches(due(9), due(9)));
        ahead.written(due(4), due(4).minus(90 * MS));
        ahead.written(due(5), due(5).minus(90 * MS));
        assert_eq!(ahead.lead, 88 * MS - MS / 2, "a little less");
        ahead.written(due(4), due(4).minus(80 * MS));
        assert_eq!(ahead.lead, 88 * MS - MS / 2, "what is due before the last one changes nothing");
        for second in 6..60 {
            ahead.written(due(second), due(second).minus(90 * MS));
        }
        assert_eq!(ahead.lead, 10 * MS, "the least");
    }
}
