//! How long this worker may assume that its runs are its own.
//!
//! The lease counts from when the last acknowledged heartbeat (at first the Hello) was *sent*: the coordinator counts
//! from when it received it, which is later, so the worker always stops first. Never reads a clock.

use std::collections::VecDeque;
use std::time::Duration;

use crate::mutants;

/// How much faster or slower than another a clock may run: 0.5 %.
const DRIFT_DIVISOR: u32 = 200;
/// Used until a Welcome says otherwise.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(5);
pub(crate) const DEFAULT_BEAT: Duration = Duration::from_secs(1);
pub(crate) const DEFAULT_BUDGET: Duration = Duration::from_millis(500);

/// The right to run user code, and when it ends.
#[derive(Debug)]
pub(crate) struct Lease {
    length: Duration,
    budget: Duration,
    proof: Option<Duration>,
    /// The shortest lease and interval that jobs have requested. They never grow back under one identity: the
    /// coordinator uses what the heartbeats state, and would mark dead a worker that assumes more.
    agreed: Option<Duration>,
    interval: Option<Duration>,
}

impl Lease {
    pub(crate) fn none() -> Self {
        Self { length: DEFAULT_LEASE, budget: DEFAULT_BUDGET, proof: None, agreed: None, interval: None }
    }

    /// A Welcome answered the Hello that was sent at `hello_at`. Proofs of the old identity do not apply to a new one
    /// (`renewed` false).
    pub(crate) fn grant(&mut self, hello_at: Duration, length: Duration, budget: Duration, renewed: bool) {
        let before = if renewed { std::mem::replace(self, Self::none()) } else { Self::none() };
        *self = Self { length, budget, proof: before.proof.max(Some(hello_at)), ..before };
        if let Some(agreed) = before.agreed {
            self.shorten(agreed);
        }
    }

    /// A job with a shorter grace makes the whole worker's lease shorter, until the worker gets another identity.
    pub(crate) fn shorten(&mut self, length: Duration) {
        self.length = self.length.min(length);
        self.agreed = Some(self.length);
    }

    /// The same for its heartbeats.
    pub(crate) fn quicken(&mut self, interval: Duration) {
        self.interval = Some(self.interval.map_or(interval, |before| before.min(interval)));
    }

    /// How often to send a heartbeat, if a Welcome states `welcome`: one may get lost without harm.
    pub(crate) fn interval(&self, welcome: Duration) -> Duration {
        self.interval.map_or(welcome, |agreed| agreed.min(welcome)).min(self.length / 3)
    }

    /// How long a proof holds, before drift and budget.
    pub(crate) fn length(&self) -> Duration {
        self.length
    }

    /// A heartbeat that was sent at `sent` is acknowledged.
    pub(crate) fn prove(&mut self, sent: Duration) {
        if self.proof.is_some() {
            self.proof = self.proof.max(Some(sent));
        }
    }

    /// The time for user code to stop: a quarter of a short lease, so that one heartbeat may get lost.
    pub(crate) fn budget(&self) -> Duration {
        self.budget.min(self.length / 4)
    }

    /// When user code must stop: the lease's end on the fastest of clocks, less the stop budget.
    pub(crate) fn stops_at(&self) -> Option<Duration> {
        let usable = self.length - self.length / DRIFT_DIVISOR;
        if mutants::is_on(mutants::LEASE_ENDLESS) {
            return self.proof.map(|proof| proof + usable * 1000);
        }
        self.proof.map(|proof| proof + usable.saturating_sub(self.budget()))
    }

    pub(crate) fn valid(&self, now: Duration) -> bool {
        self.stops_at().is_some_and(|end| now < end)
    }

    /// Without any frame for this long a stream counts as dead, while there is still time to attach elsewhere.
    pub(crate) fn silence(&self) -> Duration {
        self.length * 2 / 3
    }
}

/// The heartbeats of one stream.
#[derive(Debug)]
pub(crate) struct Beats {
    interval: Duration,
    last_at: Duration,
    sequence: u64,
    unacknowledged: VecDeque<(u64, Duration)>,
}

impl Beats {
    /// The Hello counts as the first beat.
    pub(crate) fn new(hello_at: Duration, interval: Duration) -> Self {
        Self { interval, last_at: hello_at, sequence: 0, unacknowledged: VecDeque::new() }
    }

    pub(crate) fn next_at(&self) -> Duration {
        self.last_at + self.interval
    }

    pub(crate) fn quicken(&mut self, interval: Duration) {
        self.interval = self.interval.min(interval);
    }

    /// Numbers the heartbeat that is sent now.
    pub(crate) fn send(&mut self, now: Duration) -> u64 {
        self.sequence += 1;
        self.last_at = now;
        self.unacknowledged.push_back((self.sequence, now));
        self.sequence
    }

    /// When the acknowledged heartbeat was sent; None for one that was never sent or acknowledged before.
    pub(crate) fn acknowledge(&mut self, sequence: u64) -> Option<Duration> {
        let index = self.unacknowledged.iter().position(|(sent, _)| *sent == sequence)?;
        self.unacknowledged.drain(..=index).next_back().map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_lease_ends_by_the_fastest_clock_less_the_budget() {
        let mut lease = Lease::none();
        assert_eq!(lease.stops_at(), None);
        assert!(!lease.valid(MS(0)));
        lease.grant(MS(1_000), MS(5_000), MS(500), true);
        assert_eq!(lease.stops_at(), Some(MS(1_000 + 4_975 - 500)));
        assert!(lease.valid(MS(5_474)));
        assert!(!lease.valid(MS(5_475)));
    }

    #[test]
    fn proof_only_moves_forward_for_one_identity() {
        let mut lease = Lease::none();
        lease.prove(MS(7_000));
        assert_eq!(lease.stops_at(), None, "no heartbeat counts before a Welcome");
        lease.grant(MS(0), MS(5_000), MS(500), true);
        lease.prove(MS(3_000));
        lease.prove(MS(2_000));
        assert_eq!(lease.stops_at(), Some(MS(7_475)));
        lease.grant(MS(2_500), MS(5_000), MS(500), true);
        assert_eq!(lease.stops_at(), Some(MS(7_475)));
        lease.grant(MS(2_500), MS(5_000), MS(500), false);
        assert_eq!(lease.stops_at(), Some(MS(6_975)));
    }

    #[test]
    fn a_short_grace_shortens_and_never_lengthens() {
        let mut lease = Lease::none();
        lease.grant(MS(0), MS(5_000), MS(100), true);
        lease.shorten(MS(1_000));
        lease.shorten(MS(4_000));
        assert_eq!(lease.stops_at(), Some(MS(895)));
        let mut tiny = Lease::none();
        tiny.grant(MS(10), MS(100), MS(500), true);
        assert_eq!(tiny.stops_at(), Some(Duration::from_micros(84_500)), "a quarter at most is for stopping");
        assert_eq!(tiny.budget(), MS(25));
    }

    #[test]
    fn an_acknowledged_beat_gives_its_own_time_and_once() {
        let mut beats = Beats::new(MS(0), MS(1_000));
        assert_eq!(beats.next_at(), MS(1_000));
        assert_eq!((beats.send(MS(1_000)), beats.send(MS(2_001)), beats.send(MS(3_000))), (1, 2, 3));
        assert_eq!(beats.acknowledge(9), None);
        assert_eq!(beats.acknowledge(2), Some(MS(2_001)));
        assert_eq!(beats.acknowledge(1), None);
        assert_eq!(beats.acknowledge(3), Some(MS(3_000)));
        assert_eq!(beats.acknowledge(3), None);
    }
}
