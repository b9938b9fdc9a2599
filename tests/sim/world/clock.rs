//! The clocks of one node of the world: its calendar may jump, and both its clocks may run a little fast or slow.
//! Coordinators and workers read them through their own traits.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rosterd_domain::time::{Mono, Time};
use rosterd_runtime::clock;
use tokio::time::Instant;

const MILLION: i128 = 1_000_000;

/// No timer is longer; a longer wait is split.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Jumps of fewer milliseconds are followed, like a calendar that runs fast or slow.
const FOLLOWED: i64 = 100;

/// The clocks of one process.
#[derive(Debug, Clone)]
pub struct NodeClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    base: Time,
    /// By how much they run fast, in parts of a million; below zero: slow.
    fast: i64,
    /// By how much the calendar is off besides, in milliseconds.
    off: AtomicI64,
    /// How much of that is from jumps that are followed.
    small: AtomicI64,
    /// How far ahead the calendar ever was through followed changes alone: small jumps, and running fast.
    ahead: AtomicI64,
    /// Since when the calendar alone runs fast or slow, and by how much.
    slewing: Mutex<Option<(Instant, i64)>>,
    /// The latest time that it ever showed, or that its reader may have used instead.
    latest: AtomicI64,
    /// Its calendar has jumped.
    jumped: AtomicBool,
}

impl NodeClock {
    /// The calendar shows `base` now, which is true.
    pub fn new(base: Time, fast: i64) -> Self {
        Self(Arc::new(Inner {
            start: Instant::now(),
            base,
            fast,
            off: AtomicI64::new(0),
            small: AtomicI64::new(0),
            ahead: AtomicI64::new(0),
            slewing: Mutex::default(),
            latest: AtomicI64::new(base.0),
            jumped: AtomicBool::new(false),
        }))
    }

    /// The calendar jumps.
    pub fn jump(&self, milliseconds: i64) {
        self.0.jumped.store(true, Ordering::SeqCst);
        self.0.off.fetch_add(milliseconds, Ordering::SeqCst);
        if milliseconds.abs() < FOLLOWED {
            self.0.small.fetch_add(milliseconds, Ordering::SeqCst);
        }
    }

    /// Only the calendar runs fast (or slow) by this many parts of a million. Returns whether it did not until now.
    pub fn slew(&self, fast: i64) -> bool {
        let mut slewing = self.slewing();
        let steady = slewing.is_none();
        slewing.get_or_insert((Instant::now(), fast));
        self.0.jumped.store(true, Ordering::SeqCst);
        steady
    }

    /// The calendar is corrected, and runs at its proper rate.
    pub fn steady(&self) {
        self.calendar();
        *self.slewing() = None;
    }

    fn slewing(&self) -> MutexGuard<'_, Option<(Instant, i64)>> {
        self.0.slewing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By how much the calendar is off because it runs fast or slow.
    fn slewed(&self) -> i64 {
        let millis = |since: Instant| i64::try_from(since.elapsed().as_millis()).unwrap_or(0);
        self.slewing().map_or(0, |(since, fast)| millis(since) * fast / 1_000_000)
    }

    fn elapsed(&self) -> Duration {
        scale(self.0.start.elapsed(), self.0.fast, true)
    }

    /// What the calendar would show if it had never been off.
    fn unmoved(&self) -> Time {
        self.0.base.plus(self.elapsed())
    }

    fn calendar(&self) -> Time {
        let (Time(unmoved), slewed) = (self.unmoved(), self.slewed());
        let (off, small) = (self.0.off.load(Ordering::SeqCst), self.0.small.load(Ordering::SeqCst));
        if off == small {
            self.0.ahead.fetch_max(slewed + small, Ordering::SeqCst);
        }
        let time = unmoved.saturating_add(off + slewed);
        // A reader that does not believe a jump goes on steadily from where it had followed the calendar.
        let ahead = if off == 0 { 0 } else { self.0.ahead.load(Ordering::SeqCst) };
        self.0.latest.fetch_max(time.max(unmoved.saturating_add(ahead)), Ordering::SeqCst);
        Time(time)
    }

    /// It has always shown the true time.
    pub fn is_true(&self) -> bool {
        self.0.fast == 0 && !self.0.jumped.load(Ordering::SeqCst)
    }

    /// Up to when scheduled times may be sent by this clock: the latest time that its calendar ever showed, and the
    /// time that it would show if it had only run fast and never jumped. A reader that does not believe a jump uses the
    /// latter, and no jump lasts until it is believed.
    pub fn latest(&self) -> Time {
        self.calendar();
        Time(self.0.latest.load(Ordering::SeqCst).max(self.unmoved().0))
    }

    /// When this clock will have reached `at`.
    fn moment(&self, at: Duration) -> Instant {
        self.0.start + scale(at.min(self.elapsed() + LONGEST), self.0.fast, false)
    }
}

/// From true time to the clock's, or back: rounded down and up, so that a sleep never ends too soon.
fn scale(span: Duration, fast: i64, forth: bool) -> Duration {
    if fast == 0 {
        return span;
    }
    let (nanos, rate) =
        (i128::try_from(span.as_nanos()).unwrap_or(i128::MAX >> 32), MILLION + i128::from(fast));
    let scaled = if forth { nanos * rate / MILLION } else { (nanos * MILLION + rate - 1) / rate };
    Duration::from_nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
}

impl clock::Clock for NodeClock {
    fn wall(&self) -> Time {
        self.calendar()
    }

    fn mono(&self) -> Mono {
        Mono(self.elapsed())
    }

    fn sleep_until(&self, deadline: Mono) -> BoxFuture<'static, ()> {
        tokio::time::sleep_until(self.moment(deadline.0)).boxed()
    }
}

impl rosterd_client::embedding::Clock for NodeClock {
    fn now(&self) -> Duration {
        self.elapsed()
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(self.calendar().0).unwrap_or(0))
    }

    fn sleep_until(&self, at: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep_until(self.moment(at))
    }
}

#[tokio::test(start_paused = true)]
async fn a_fast_clock_is_ahead_and_its_sleeper_wakes_early_enough_and_not_too_soon() {
    use rosterd_runtime::clock::Clock as _;
    for fast in [-4500, 0, 4500] {
        let (clock, from) = (NodeClock::new(Time::from_seconds(100), fast), Instant::now());
        clock.sleep_until(Mono(Duration::from_secs(1000))).await;
        assert!(clock.mono() >= Mono(Duration::from_secs(1000)), "{fast}");
        let (passed, wanted) = (from.elapsed().as_secs_f64(), 1000.0 / (1.0 + fast as f64 / 1e6));
        assert!((passed - wanted).abs() < 0.01, "{fast}: {passed}");
        clock.jump(-5000);
        assert_eq!(clock.wall().0 / 1000, 1095, "{fast}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_calendar_that_slews_leaves_the_other_clock_alone_and_is_set_right() {
    use rosterd_runtime::clock::Clock as _;
    let clock = NodeClock::new(Time::from_seconds(100), 0);
    assert!(clock.slew(50_000) && !clock.slew(-50_000));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!((clock.wall(), clock.mono()), (Time(110_500), Mono(Duration::from_secs(10))));
    clock.steady();
    assert_eq!((clock.wall(), clock.latest()), (Time::from_seconds(110), Time(110_500)));
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_doubts_that_its_clock_was_set_back_dispatches_what_is_due_without_it() {
    let clock = NodeClock::new(Time::from_seconds(100), 0);
    let latest = |clock: &NodeClock| clock.latest().0 / 1000;
    tokio::time::advance(Duration::from_secs(10)).await;
    clock.jump(-60_000);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(latest(&clock), 115);
    clock.jump(3_660_000);
    assert_eq!(latest(&clock), 3715);
    clock.jump(-3_600_000);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(latest(&clock), 3715, "the latest time that it gave");
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_followed_a_fast_clock_and_doubts_a_jump_goes_on_from_there() {
    use rosterd_runtime::clock::Clock as _;
    let clock = NodeClock::new(Time::from_seconds(100), 0);
    clock.slew(50_000);
    tokio::time::advance(Duration::from_secs(10)).await;
    clock.jump(90);
    assert_eq!(clock.wall(), Time(110_590));
    clock.jump(-86_400_000);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(clock.latest(), Time(115_590), "five seconds later, and no longer fast");
    clock.jump(-90);
    clock.steady();
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(clock.latest(), Time(120_590), "it still uses that clock");
    clock.jump(86_400_000);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(clock.latest(), Time::from_seconds(125), "it trusts the wall clock again, which is right");
}
