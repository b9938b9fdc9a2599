//! Coordinators as processes: how they start, die, stand still and lose the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rosterd_coordinator::driver::{Gauge, NoHistory, coordinator};
use rosterd_coordinator::settings::Settings;
use rosterd_domain::id::CoordinatorId;
use rosterd_registry::Registry as _;
use rosterd_registry::memory::SessionOptions;
use tokio::time::Instant;

use crate::clock::NodeClock;
use crate::coverage::Coverage;
use crate::process::Hand;
use crate::watch::LATE;
use crate::world::{Later, RunningCoordinator, World, namespace};

/// Counts the runs of which a coordinator says that it sent them late.
struct Lags(Coverage);

impl Gauge for Lags {
    fn sent(&mut self, lag: Duration) {
        if lag >= LATE {
            self.0.count("late: said to be");
        }
    }
}

impl World {
    pub fn start_coordinator(&mut self, seat: usize) {
        if self.seats[seat].running.is_some() || self.seats[seat].retired {
            return;
        }
        let times = self.plan.times;
        let options = SessionOptions { timeout: Some(times.session) };
        self.seats[seat].starts += 1;
        let (name, url, start) = {
            let seat = &self.seats[seat];
            (seat.name.clone(), seat.url.clone(), seat.starts)
        };
        let registry = Arc::new(self.store.open(&name, options));
        let session = registry.session();
        // As in the product, each process has a name of its own; the first one's is that of its seat.
        let own = if start == 1 { name.clone() } else { format!("{name}.{start}") };
        let Ok(id) = CoordinatorId::new(own) else { return };
        let mut settings = Settings::new(namespace(), id.clone());
        settings.advertise = url.clone();
        settings.session = Some(times.session);
        settings.session_margin_permille = 200;
        settings.lease = times.lease;
        settings.heartbeat = times.heartbeat;
        settings.stop_budget = times.stop_budget;
        settings.timeout_grace = self.timeout_grace.unwrap_or(times.lease + Duration::from_millis(1500));
        settings.store_retry = Duration::from_millis(500);
        let drift = self.some_drift();
        let clock = NodeClock::new(self.now(), drift);
        self.set_wrong_at_boot(&clock);
        let count = AtomicU64::new(0);
        let ids = Box::new(move || format!("{name}.{start}.{}", count.fetch_add(1, Ordering::Relaxed)));
        let (handle, driver) = coordinator(
            settings,
            registry,
            Arc::new(clock.clone()),
            ids,
            Box::new(NoHistory),
            Box::new(Lags(self.coverage.clone())),
        );
        let (hand, ended) = (Hand::default(), Arc::new(AtomicBool::new(false)));
        let (held, end) = (hand.hold(driver.run()), ended.clone());
        tokio::spawn(async move {
            if held.await.is_some() {
                end.store(true, Ordering::SeqCst);
            }
        });
        self.note(|| format!("c{seat} starts as {session}"));
        self.watch.lock().clocks.push(clock.clone());
        self.net.up(&url, handle.clone());
        self.seats[seat].running = Some(RunningCoordinator { id, hand, session, handle, clock, ended });
    }

    /// The process dies; `vanish`: its machine does, so that nobody hears of it.
    /// Whether it was there.
    pub fn crash_coordinator(&mut self, seat: usize, vanish: bool) -> bool {
        let Some(running) = &self.seats[seat].running else { return false };
        running.hand.kill();
        self.note(|| format!("c{seat} crashes{}", if vanish { " without a word" } else { "" }));
        self.buried(seat, vanish);
        true
    }

    /// What follows a coordinator's sudden death.
    pub(crate) fn buried(&mut self, seat: usize, vanish: bool) {
        let Some(running) = self.seats[seat].running.take() else { return };
        let url = self.seats[seat].url.clone();
        self.net.down(&url, vanish);
        let silence = self.until_expiry(&running.session);
        self.later(silence, Later::Expire(running.session));
        let after = self.pause_before_start();
        self.later(after, Later::StartCoordinator(seat));
    }

    /// The process stands still; longer than its session, and the session is over.
    /// Whether it moved until now.
    pub fn freeze_coordinator(&mut self, seat: usize, span: Duration) -> bool {
        let Some(running) = &self.seats[seat].running else { return false };
        let moved = !running.hand.is_frozen();
        running.hand.freeze(true);
        let session = running.session.clone();
        self.note(|| format!("c{seat} stands still for {span:?}"));
        let start = self.seats[seat].starts;
        let until = self.until_expiry(&session);
        if span > until {
            self.coverage.count("fault: session of a frozen coordinator expires");
            self.later(until, Later::Expire(session));
        }
        self.later(span, Later::ThawCoordinator(seat, start));
        moved
    }

    /// The store cannot be reached; longer than the session, and the session is over.
    /// Whether it could until now.
    pub fn suspend(&mut self, seat: usize, span: Duration) -> bool {
        let Some(running) = &self.seats[seat].running else { return false };
        let session = running.session.clone();
        let reached = self.store.suspend(&session);
        self.note(|| format!("c{seat} loses the store for {span:?}"));
        let until = self.until_expiry(&session);
        if span > until {
            self.coverage.count("fault: session of a living coordinator expires");
            self.later(until, Later::Expire(session));
        } else {
            self.later(span, Later::Resume(session));
        }
        reached
    }

    /// The store cannot be reached, several times for `span`, with as much time between them.
    pub fn flap(&mut self, seat: usize, times: u64, span: Duration) -> bool {
        let reached = self.suspend(seat, span);
        if times > 1 {
            self.later(2 * span, Later::Suspend(seat, times - 1, span));
        }
        reached
    }

    /// The store cannot be reached, and ends the session `by` later than it had to.
    pub fn suspend_late(&mut self, seat: usize, by: Duration) -> bool {
        let Some(running) = &self.seats[seat].running else { return false };
        let session = running.session.clone();
        let reached = self.store.suspend(&session);
        self.note(|| format!("c{seat} loses the store, which keeps its session for long"));
        let until = self.until_expiry(&session) + by;
        self.later(until, Later::Expire(session));
        reached
    }

    /// The store cannot be reached and ends the session, which nobody can tell this coordinator for `span`.
    pub fn cut_off(&mut self, seat: usize, span: Duration) -> bool {
        let Some(running) = &self.seats[seat].running else { return false };
        let session = running.session.clone();
        let reached = self.store.suspend(&session);
        self.note(|| format!("c{seat} is cut off from the store for {span:?}"));
        let until = self.until_expiry(&session);
        self.later(until, Later::EndUnheard(session.clone()));
        self.later(span.max(until), Later::Expire(session));
        reached
    }

    /// How long the store waits from now on before it ends a session that has fallen silent.
    pub(crate) fn until_expiry(&mut self, session: &str) -> Duration {
        let jitter = self.rng.millis(0, 500);
        self.until_due(session) + jitter
    }

    /// How long the end of a session that has come due must still wait. It was reckoned when the session fell silent; the
    /// end of another fault may have connected it since, and no store ends a session before its time of silence without
    /// its holder's hearing so: its holder counts with that time.
    pub(crate) fn put_off(&mut self, what: &Later) -> Option<Duration> {
        let (Later::Expire(session) | Later::EndUnheard(session)) = what else { return None };
        (!self.until_due(session).is_zero()).then(|| self.until_expiry(session))
    }

    /// How long the store must wait at least: the last committed write is the last thing that is certain to have been
    /// heard.
    fn until_due(&self, session: &str) -> Duration {
        let last = self.watch.lock().last_commit.get(session).copied().unwrap_or(self.start);
        (last + self.plan.times.session).saturating_duration_since(Instant::now())
    }
}
