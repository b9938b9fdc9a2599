//! How late a Trigger came that is to be kept until its time.
//!
//! What it says to wait is counted from when it was sent, so its way is added to every wait; in a burst that is some
//! milliseconds for those behind. Its run's time is by the coordinator's calendar. What the two amount to by our own
//! clock is the same for all Triggers of a stream, but for their ways: who came with the shortest tells how much
//! longer the others took. No calendars are compared.

use std::time::{Duration, SystemTime};

/// A coordinator's calendar that was set back looks like a long way. So nothing begins sooner than this for it.
const MOST: Duration = Duration::from_millis(5);
/// And the shortest way is found anew after this.
const FRESH: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Transit {
    /// Our clock less the coordinator's calendar in nanoseconds, by the Trigger that came soonest, and when that was.
    best: Option<(i128, Duration)>,
}

impl Transit {
    /// How long to keep a Trigger that came at `now`.
    pub(super) fn left(&mut self, now: Duration, fire: Option<SystemTime>, starts_in: Duration) -> Duration {
        let Some(fire) = fire.and_then(|fire| fire.duration_since(SystemTime::UNIX_EPOCH).ok()) else {
            return starts_in;
        };
        let offset = nanos(now + starts_in) - nanos(fire);
        let best = match self.best {
            Some((best, at)) if best <= offset && now.saturating_sub(at) < FRESH => best,
            _ => {
                self.best = Some((offset, now));
                offset
            }
        };
        let late = Duration::from_nanos(u64::try_from(offset - best).unwrap_or(0));
        starts_in.saturating_sub(late.min(MOST))
    }
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(millis: u64) -> Option<SystemTime> {
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000) + MS(millis))
    }

    #[test]
    fn what_came_later_than_the_quickest_waits_so_much_less() {
        let mut transit = Transit::default();
        // Sent 100 ms before, each a millisecond longer on its way.
        assert_eq!(transit.left(MS(501), at(600), MS(100)), MS(100), "nothing to compare with");
        assert_eq!(transit.left(MS(502), at(600), MS(100)), MS(99));
        assert_eq!(transit.left(MS(503), at(600), MS(100)), MS(98));
        assert_eq!(transit.left(MS(500), at(600), MS(100)), MS(100), "quicker than all before");
        assert_eq!(transit.left(MS(1_503), at(1_600), MS(100)), MS(97));
        assert_eq!(transit.left(MS(1_599), at(1_600), MS(2)), MS(1));
        assert_eq!(transit.left(MS(1_590), None, MS(2)), MS(2));
    }

    #[test]
    fn a_calendar_that_is_set_makes_a_run_little_early_and_not_for_long() {
        let mut transit = Transit::default();
        assert_eq!(transit.left(MS(500), at(600), MS(100)), MS(100));
        // Set back by 200 ms.
        assert_eq!(transit.left(MS(1_700), at(1_600), MS(100)), MS(95));
        assert_eq!(
            transit.left(MS(10_700), at(10_600), MS(100)),
            MS(100),
            "the old one is no measure any more"
        );
        // Set forward again: the next is the quickest by far.
        assert_eq!(transit.left(MS(11_500), at(11_600), MS(100)), MS(100));
    }
}
