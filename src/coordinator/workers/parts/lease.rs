//! The lease of a worker: how long it counts as alive after its last heartbeat.

use std::time::Duration;

use rosterd_domain::time::Mono;

use crate::io::settings::Settings;

/// The shortest lease that a worker may choose.
const SHORTEST: Duration = Duration::from_millis(50);

/// How long a client waits for its Welcome, and sends no heartbeats meanwhile.
pub(crate) const WELCOME_TIMEOUT: Duration = Duration::from_secs(6);

/// The lease of a worker.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The last heartbeat, at first the Hello, from which the lease counts.
    heard: Mono,
    /// It waits for its Welcome.
    waits: bool,
    /// The worker's own lease.
    length: Duration,
    /// Set when its lease was found to have expired: the heartbeat that it counted from, and how many frames had
    /// arrived here by then.
    expired_at: Option<(Mono, u64)>,
}

impl Lease {
    /// The lease of a worker whose Hello was heard at this time.
    pub(crate) fn new(heard: Mono, length: Duration) -> Self {
        Self { heard, waits: true, length, expired_at: None }
    }

    /// Returns the worker's own lease.
    pub(crate) fn length(&self) -> Duration {
        self.length
    }

    /// The worker was alive at this time.
    pub(crate) fn hear(&mut self, at: Mono) {
        self.heard = self.heard.max(at);
    }

    /// The worker no longer waits for its Welcome: it is sent, or its stream has ended. It could not send heartbeats
    /// meanwhile, however long the Welcome took.
    pub(crate) fn stops_waiting(&mut self, now: Mono) {
        if std::mem::take(&mut self.waits) {
            self.hear(now);
        }
    }

    /// The worker uses this lease; false: it is not shorter than the current one, or too short to be accepted.
    pub(crate) fn shorten(&mut self, lease: Option<Duration>) -> bool {
        let shorter = lease.filter(|lease| *lease < self.length && *lease >= SHORTEST);
        self.length = shorter.unwrap_or(self.length);
        shorter.is_some()
    }

    /// Returns when the lease expires. Of a worker that waits for its Welcome: if it goes on waiting.
    pub(crate) fn until(&self, settings: &Settings) -> Mono {
        let wait = if self.waits { WELCOME_TIMEOUT } else { Duration::ZERO };
        self.heard.plus(wait).plus(settings.verdict_after(self.length))
    }

    /// When to look whether it has expired: again and again while the worker waits for its Welcome, since the end of the
    /// wait may move the end of the lease forward.
    pub(crate) fn look_at(&self, now: Mono, settings: &Settings) -> Mono {
        let until = self.until(settings);
        if self.waits { until.min(now.plus(settings.heartbeat)) } else { until }
    }

    /// Returns how many frames had arrived when the lease was found to have expired; `came`, if that is found only now.
    pub(crate) fn came_before_its_end(&mut self, came: u64) -> u64 {
        let known = self.expired_at.filter(|(heard, _)| *heard == self.heard);
        let (_, came) = *self.expired_at.insert(known.unwrap_or((self.heard, came)));
        came
    }
}
