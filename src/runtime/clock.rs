//! The one file that reads clocks. Everything else is told the time, or holds a [`Clock`].
//!
//! Two readings, never mixed: [`Time`] is what the calendar says and may jump; [`Mono`] only grows, goes on
//! while the machine is suspended, and is what leases and timeouts are counted in.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rosterd_domain::time::{Mono, Time};

/// Longest single sleep: tokio's timers stand still while the machine is suspended, so a sleeper looks at the
/// clock again after this long at the latest.
const SLICE: Duration = Duration::from_secs(1);

/// Tells the time, and waits for it.
pub trait Clock: Send + Sync + 'static {
    /// What the calendar says.
    fn wall(&self) -> Time;

    /// The monotonic clock, suspended time included.
    fn mono(&self) -> Mono;

    /// How long it is until then by the calendar; more exact than the difference to [`Clock::wall`].
    fn until(&self, at: Time) -> Duration {
        at.since(self.wall())
    }

    /// Returns at `deadline` or at most a second late after a suspension; at once when it has passed.
    fn sleep_until(&self, deadline: Mono) -> BoxFuture<'static, ()>;
}

/// Shared by whoever needs the time.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl System {
    /// The machine's clocks, to be shared.
    pub fn shared() -> SharedClock {
        Arc::new(Self)
    }
}

impl Clock for System {
    fn wall(&self) -> Time {
        match calendar().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
            Err(before) => Time(i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms)),
        }
    }

    fn until(&self, at: Time) -> Duration {
        let at = Duration::from_millis(u64::try_from(at.0).unwrap_or(0));
        match calendar().duration_since(std::time::UNIX_EPOCH) {
            Ok(now) => at.saturating_sub(now),
            Err(before) => at + before.duration(),
        }
    }

    fn mono(&self) -> Mono {
        #[cfg(target_os = "linux")]
        let id = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let id = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(id);
        let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
        Mono(Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), nanos))
    }

    fn sleep_until(&self, deadline: Mono) -> BoxFuture<'static, ()> {
        let clock = *self;
        async move {
            loop {
                let left = deadline.since(clock.mono());
                if left.is_zero() {
                    return;
                }
                match left.checked_sub(COARSE) {
                    None if exactly(left).await => {}
                    None => tokio::time::sleep(left).await,
                    Some(most) => tokio::time::sleep(most.clamp(Duration::from_millis(1), SLICE)).await,
                }
            }
        }
        .boxed()
    }
}

/// What the machine's calendar says. A test may set it forward for this process alone.
#[allow(clippy::disallowed_methods)]
fn calendar() -> std::time::SystemTime {
    let ahead = super::mutants::number("clock-ahead-ms").and_then(|ms| u64::try_from(ms).ok());
    std::time::SystemTime::now() + Duration::from_millis(ahead.unwrap_or_default())
}

/// Tokio counts in milliseconds, rounded up: what is left of a wait then is counted by the system.
const COARSE: Duration = Duration::from_millis(3);

/// Sleeps for a short time, to some microseconds; false: it cannot.
#[cfg(target_os = "linux")]
#[expect(deprecated, reason = "its heir is unsafe; an owned descriptor keeps what that asks for")]
async fn exactly(left: Duration) -> bool {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let Ok(timer) = timerfd_create(TimerfdClockId::Monotonic, flags) else { return false };
    let Ok(it_value) = Timespec::try_from(left.max(Duration::from_nanos(1))) else { return false };
    let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    let once = Itimerspec { it_interval, it_value };
    if timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once).is_err() {
        return false;
    }
    match tokio::io::unix::AsyncFd::with_interest(timer, tokio::io::Interest::READABLE) {
        Ok(timer) => timer.readable().await.is_ok(),
        Err(_) => false,
    }
}

#[cfg(not(target_os = "linux"))]
async fn exactly(_left: Duration) -> bool {
    false
}

/// Clocks that follow tokio's time, which tests pause and move; the calendar can be put off.
#[derive(Debug)]
pub struct Simulated {
    start: tokio::time::Instant,
    base: Time,
    offset: AtomicI64,
}

impl Simulated {
    /// Begins at `base` of the calendar and at zero of the monotonic clock. Called within a tokio runtime.
    #[allow(clippy::disallowed_methods)]
    pub fn new(base: Time) -> Self {
        Self { start: tokio::time::Instant::now(), base, offset: AtomicI64::new(0) }
    }

    /// From now on the calendar is off by this many milliseconds; the monotonic clock knows nothing of it.
    pub fn set_wall_offset(&self, milliseconds: i64) {
        self.offset.store(milliseconds, Ordering::SeqCst);
    }
}

impl Clock for Simulated {
    fn wall(&self) -> Time {
        let Time(time) = self.base.plus(self.mono().0);
        Time(time.saturating_add(self.offset.load(Ordering::SeqCst)))
    }

    #[allow(clippy::disallowed_methods)]
    fn mono(&self) -> Mono {
        Mono(tokio::time::Instant::now().duration_since(self.start))
    }

    fn sleep_until(&self, deadline: Mono) -> BoxFuture<'static, ()> {
        tokio::time::sleep_until(self.start + deadline.0).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_simulated_calendar_jumps_while_the_monotonic_clock_does_not() {
        let clock = Simulated::new(Time::from_seconds(100));
        clock.sleep_until(Mono(Duration::from_secs(5))).await;
        assert_eq!((clock.wall(), clock.mono()), (Time::from_seconds(105), Mono(Duration::from_secs(5))));
        clock.set_wall_offset(-3000);
        assert_eq!((clock.wall(), clock.mono()), (Time::from_seconds(102), Mono(Duration::from_secs(5))));
    }

    #[tokio::test]
    async fn the_machines_monotonic_clock_reaches_a_deadline() {
        let clock = System;
        let deadline = clock.mono().plus(Duration::from_millis(3));
        clock.sleep_until(deadline).await;
        assert!(clock.mono() >= deadline);
        assert!(clock.wall() > Time::parse("2024-01-01T00:00:00Z").unwrap());
    }
}
