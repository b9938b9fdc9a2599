//! Coordinators as processes: how they start, die, freeze and lose the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rosterd_coordinator::driver::{Gauge, NoHistory, coordinator};
use rosterd_coordinator::settings::Settings;
use rosterd_domain::id::CoordinatorId;
use rosterd_registry::Registry as _;
use rosterd_registry::memory::SessionOptions;
use tokio::time::Instant;

use crate::oracle::coverage::Coverage;
use crate::oracle::observer::LATE;
use crate::world::clock::NodeClock;
use crate::world::process::ProcessControl;
use crate::world::{Later, RunningCoordinator, World, namespace};

/// Counts the runs that a coordinator reports as sent late.
struct Lags(Coverage);

impl Gauge for Lags {
    fn sent(&mut self, lag: Duration) {
        if lag >= LATE {
            self.0.count("late: said to be");
        }
    }
}

impl World {
    pub fn start_coordinator(&mut self, replica: usize) {
        if self.replicas[replica].running.is_some() || self.replicas[replica].retired {
            return;
        }
        let times = self.plan.times;
        let options = SessionOptions { timeout: Some(times.session) };
        self.replicas[replica].starts += 1;
        let (name, url, start) = {
            let replica = &self.replicas[replica];
            (replica.name.clone(), replica.url.clone(), replica.starts)
        };
        let registry = Arc::new(self.store.open(&name, options));
        let session = registry.session();
        // As in the product, each process has a name of its own; the first one's is that of its replica.
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
        let (control, ended) = (ProcessControl::default(), Arc::new(AtomicBool::new(false)));
        let (held, end) = (control.run(driver.run()), ended.clone());
        tokio::spawn(async move {
            if held.await.is_some() {
                end.store(true, Ordering::SeqCst);
            }
        });
        self.note(|| format!("c{replica} starts as {session}"));
        self.observer.lock().clocks.push(clock.clone());
        self.net.up(&url, handle.clone());
        self.replicas[replica].running =
            Some(RunningCoordinator { id, control, session, handle, clock, ended });
    }

    /// The process dies; `vanish`: its machine does, so that nobody is notified. Returns whether it was running.
    pub fn crash_coordinator(&mut self, replica: usize, vanish: bool) -> bool {
        let Some(running) = &self.replicas[replica].running else { return false };
        running.control.kill();
        self.note(|| format!("c{replica} crashes{}", if vanish { " without a word" } else { "" }));
        self.buried(replica, vanish);
        true
    }

    /// The consequences of a coordinator's sudden death.
    pub(crate) fn buried(&mut self, replica: usize, vanish: bool) {
        let Some(running) = self.replicas[replica].running.take() else { return };
        let url = self.replicas[replica].url.clone();
        self.net.down(&url, vanish);
        let silence = self.until_expiry(&running.session);
        self.later(silence, Later::Expire(running.session));
        let after = self.pause_before_start();
        self.later(after, Later::StartCoordinator(replica));
    }

    /// Freezes the process; if longer than its session, the session is over. Returns whether it was running.
    pub fn freeze_coordinator(&mut self, replica: usize, span: Duration) -> bool {
        let Some(running) = &self.replicas[replica].running else { return false };
        let moved = !running.control.is_frozen();
        running.control.freeze(true);
        let session = running.session.clone();
        self.note(|| format!("c{replica} stands still for {span:?}"));
        let start = self.replicas[replica].starts;
        let until = self.until_expiry(&session);
        if span > until {
            self.coverage.count("fault: session of a frozen coordinator expires");
            self.later(until, Later::Expire(session));
        }
        self.later(span, Later::ThawCoordinator(replica, start));
        moved
    }

    /// The store cannot be reached; if longer than the session, the session is over. Returns whether it could until
    /// now.
    pub fn suspend(&mut self, replica: usize, span: Duration) -> bool {
        let Some(running) = &self.replicas[replica].running else { return false };
        let session = running.session.clone();
        let reached = self.store.suspend(&session);
        self.note(|| format!("c{replica} loses the store for {span:?}"));
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
    pub fn flap(&mut self, replica: usize, times: u64, span: Duration) -> bool {
        let reached = self.suspend(replica, span);
        if times > 1 {
            self.later(2 * span, Later::Suspend(replica, times - 1, span));
        }
        reached
    }

    /// The store cannot be reached, and ends the session `by` later than it had to.
    pub fn suspend_late(&mut self, replica: usize, by: Duration) -> bool {
        let Some(running) = &self.replicas[replica].running else { return false };
        let session = running.session.clone();
        let reached = self.store.suspend(&session);
        self.note(|| format!("c{replica} loses the store, which keeps its session for long"));
        let until = self.until_expiry(&session) + by;
        self.later(until, Later::Expire(session));
        reached
    }

    /// The store cannot be reached and ends the session; this coordinator does not learn of it for `span`.
    pub fn cut_off(&mut self, replica: usize, span: Duration) -> bool {
        let Some(running) = &self.replicas[replica].running else { return false };
        let session = running.session.clone();
        let reached = self.store.suspend(&session);
        self.note(|| format!("c{replica} is cut off from the store for {span:?}"));
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

    /// How much longer the end of a session that is due has to wait. It was computed when the session fell silent; the
    /// end of another fault may have reconnected it since, and no store ends a session before its timeout without
    /// notifying its holder: the holder relies on that time.
    pub(crate) fn put_off(&mut self, what: &Later) -> Option<Duration> {
        let (Later::Expire(session) | Later::EndUnheard(session)) = what else { return None };
        (!self.until_due(session).is_zero()).then(|| self.until_expiry(session))
    }

    /// How long the store must wait at least: the last committed write is the last sign of life that is certain.
    fn until_due(&self, session: &str) -> Duration {
        let last = self.observer.lock().last_commit.get(session).copied().unwrap_or(self.start);
        (last + self.plan.times.session).saturating_duration_since(Instant::now())
    }
}
