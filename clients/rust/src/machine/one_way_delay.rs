//! How much longer a Trigger was on its way than the fastest one of its stream.
//!
//! The wait in a Trigger counts from when it was sent, so its network delay is added to the wait; in a burst that is
//! some milliseconds for the last ones. The fire's time follows the coordinator's wall clock. On our own clock, the sum
//! of the arrival and the wait differs from the fire's time by a constant plus the delay; the fastest Trigger shows the
//! constant. Wall clocks are never compared.

use std::time::{Duration, SystemTime};

/// A coordinator's wall clock that was set back looks like a long delay: the correction is at most this.
const MAX_CORRECTION: Duration = Duration::from_millis(5);
/// The shortest delay is measured again after this.
const MEASURED_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct OneWayDelay {
    /// Our clock minus the coordinator's wall clock in nanoseconds, for the fastest Trigger, and when it arrived.
    best: Option<(i128, Duration)>,
}

impl OneWayDelay {
    /// How long to keep a Trigger that arrived at `now`.
    pub(super) fn remaining_wait(
        &mut self,
        now: Duration,
        fire: Option<SystemTime>,
        starts_in: Duration,
    ) -> Duration {
        let Some(fire) = fire.and_then(|fire| fire.duration_since(SystemTime::UNIX_EPOCH).ok()) else {
            return starts_in;
        };
        let offset = nanos(now + starts_in) - nanos(fire);
        let best = match self.best {
            Some((best, at)) if best <= offset && now.saturating_sub(at) < MEASURED_FOR => best,
            _ => {
                self.best = Some((offset, now));
                offset
            }
        };
        let late = Duration::from_nanos(u64::try_from(offset - best).unwrap_or(0));
        starts_in.saturating_sub(late.min(MAX_CORRECTION))
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
        let mut delay = OneWayDelay::default();
        // Sent 100 ms before, each a millisecond longer on its way.
        assert_eq!(delay.remaining_wait(MS(501), at(600), MS(100)), MS(100), "nothing to compare with");
        assert_eq!(delay.remaining_wait(MS(502), at(600), MS(100)), MS(99));
        assert_eq!(delay.remaining_wait(MS(503), at(600), MS(100)), MS(98));
        assert_eq!(delay.remaining_wait(MS(500), at(600), MS(100)), MS(100), "quicker than all before");
        assert_eq!(delay.remaining_wait(MS(1_503), at(1_600), MS(100)), MS(97));
        assert_eq!(delay.remaining_wait(MS(1_599), at(1_600), MS(2)), MS(1));
        assert_eq!(delay.remaining_wait(MS(1_590), None, MS(2)), MS(2));
    }

    #[test]
    fn a_calendar_that_is_set_makes_a_run_little_early_and_not_for_long() {
        let mut delay = OneWayDelay::default();
        assert_eq!(delay.remaining_wait(MS(500), at(600), MS(100)), MS(100));
        // Set back by 200 ms.
        assert_eq!(delay.remaining_wait(MS(1_700), at(1_600), MS(100)), MS(95));
        assert_eq!(
            delay.remaining_wait(MS(10_700), at(10_600), MS(100)),
            MS(100),
            "the old one is no measure any more"
        );
        // Set forward again: the next is the fastest by far.
        assert_eq!(delay.remaining_wait(MS(11_500), at(11_600), MS(100)), MS(100));
    }
}
