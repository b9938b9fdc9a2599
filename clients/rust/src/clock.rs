//! The only file that reads a clock.

use std::future::Future;
use std::time::{Duration, SystemTime};

/// Time, as the worker needs it.
pub trait Clock: Send + Sync + 'static {
    /// Since some fixed moment; only goes forward, also while the machine sleeps.
    fn now(&self) -> Duration;
    /// The wall clock: for timestamps in reports.
    fn wall(&self) -> SystemTime;
    /// Ends when `now()` has reached `at`, or sooner: the caller checks again.
    fn sleep_until(&self, at: Duration) -> impl Future<Output = ()> + Send;
}

/// The machine's clock that also counts its sleep: a laptop or a virtual machine that was suspended past its lease
/// knows it immediately. On a system without such a clock, the worker learns it from the coordinator.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

/// Timers do not count the machine's sleep, so none is used for longer.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

#[cfg(unix)]
fn boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// Since the first call.
#[cfg(not(unix))]
#[allow(clippy::disallowed_methods, reason = "this is the clock")]
fn boot() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

impl Clock for BootClock {
    fn now(&self) -> Duration {
        boot()
    }

    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    async fn sleep_until(&self, at: Duration) {
        let left = at.saturating_sub(self.now()).min(LOOK_AGAIN);
        if left.is_zero() {
            // Tokio would wait for its next millisecond.
            return;
        }
        match left.checked_sub(COARSE) {
            None if exactly(left).await => {}
            None => tokio::time::sleep(left).await,
            Some(most) => tokio::time::sleep(most).await,
        }
    }
}

/// Tokio counts in milliseconds, rounded up: the system counts the rest of a wait.
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
    let Ok(it_value) = Timespec::try_from(left) else { return false };
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

/// Tokio's clock, which a test or a simulation can pause: the wall clock moves with it.
#[cfg(feature = "embedding")]
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    start: tokio::time::Instant,
    wall: SystemTime,
}

#[cfg(feature = "embedding")]
impl TokioClock {
    /// Zero is now, at which the wall clock shows `wall`.
    pub fn starting_at(wall: SystemTime) -> Self {
        Self { start: tokio::time::Instant::now(), wall }
    }
}

/// No timer is longer; a longer wait is split.
#[cfg(feature = "embedding")]
const LONGEST: Duration = Duration::from_secs(86_400);

#[cfg(feature = "embedding")]
impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall(&self) -> SystemTime {
        self.wall + self.now()
    }

    async fn sleep_until(&self, at: Duration) {
        tokio::time::sleep_until(self.start + at.min(self.now() + LONGEST)).await;
    }
}
