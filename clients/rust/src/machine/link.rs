//! Which coordinator to talk to, and when to try the next one.
//!
//! One stream at a time: the worker leaves a stream before it opens another, and drops frames of an abandoned stream by
//! its number. Decides only; the driver connects.

use std::collections::BTreeSet;
use std::time::Duration;

use super::lease::Beats;
use crate::access::Learn;
use crate::mutants;

/// How long connecting may take: TCP, TLS and HTTP/2.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a Hello waits for its Welcome.
pub(crate) const WELCOME_TIMEOUT: Duration = Duration::from_secs(6);
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
pub(crate) const BACKOFF_MOST: Duration = Duration::from_secs(10);
/// The same while the worker leaves, which is bounded.
pub(crate) const BACKOFF_MOST_LEAVING: Duration = Duration::from_secs(1);
/// How many skipped addresses it remembers as logged.
const MOST_PASSED_OVER: usize = 100;

#[derive(Debug)]
pub(crate) enum LinkPhase {
    /// No stream; the next attempt is due at `until`.
    Waiting {
        until: Duration,
    },
    Connecting {
        until: Duration,
    },
    /// Hello was sent, Welcome has not arrived.
    Greeting {
        hello_at: Duration,
        until: Duration,
    },
    Open(Open),
}

/// A stream after its Welcome.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) beats: Beats,
    /// The last frame of any kind.
    pub(crate) heard_at: Duration,
    /// The last frame that renewed the lease.
    pub(crate) renewed_at: Duration,
}

#[derive(Debug)]
pub(crate) struct Link {
    given: Vec<String>,
    learned: Vec<String>,
    /// Which others may be learned.
    learn: Learn,
    /// Those of a Welcome that may not be learned.
    passed_over: BTreeSet<String>,
    at: usize,
    failures: u32,
    connection: u64,
    stream: u64,
    pub(crate) phase: LinkPhase,
    random: Random,
}

impl Link {
    pub(crate) fn new(given: Vec<String>, seed: u64) -> Self {
        Self {
            given,
            learned: Vec::new(),
            learn: Learn::All,
            passed_over: BTreeSet::new(),
            at: 0,
            failures: 0,
            connection: 0,
            stream: 0,
            phase: LinkPhase::Waiting { until: Duration::ZERO },
            random: Random(seed),
        }
    }

    /// Learns only addresses of a Welcome that this policy allows.
    pub(crate) fn learning(self, learn: Learn) -> Self {
        Self { learn, ..self }
    }

    /// The connection whose frames count; frames of any other are dropped.
    pub(crate) fn current(&self) -> Option<u64> {
        match self.phase {
            LinkPhase::Waiting { .. } => None,
            _ => Some(self.connection),
        }
    }

    pub(crate) fn open(&mut self) -> Option<&mut Open> {
        match &mut self.phase {
            LinkPhase::Open(open) => Some(open),
            _ => None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, LinkPhase::Open(_))
    }

    /// How many addresses there are to try.
    pub(crate) fn addresses(&self) -> usize {
        self.given.len() + self.learned.len()
    }

    /// Starts an attempt: the connection's number and where to.
    pub(crate) fn dial(&mut self, now: Duration) -> (u64, String) {
        self.connection += 1;
        self.phase = LinkPhase::Connecting { until: now + CONNECT_TIMEOUT };
        (self.connection, self.address())
    }

    /// The coordinator whose turn it is.
    pub(crate) fn address(&self) -> String {
        let all = self.given.iter().chain(&self.learned);
        all.clone().nth(self.at % all.count().max(1)).cloned().unwrap_or_default()
    }

    /// The connection is open and Hello goes out: returns the stream's number.
    pub(crate) fn greet(&mut self, now: Duration) -> u64 {
        self.stream = if mutants::is_on(mutants::STREAMS_UNNUMBERED) { 1 } else { self.stream + 1 };
        self.phase = LinkPhase::Greeting { hello_at: now, until: now + WELCOME_TIMEOUT };
        self.stream
    }

    pub(crate) fn welcome(&mut self, now: Duration, beats: Beats, others: Vec<String>) {
        let here = self.given.iter().chain(&self.learned).nth(self.at).cloned();
        self.learned.clear();
        for address in others {
            if self.given.contains(&address) || self.learned.contains(&address) {
                continue;
            }
            if self.learn.takes(&address) {
                self.learned.push(address);
            } else if self.passed_over.len() < MOST_PASSED_OVER && self.passed_over.insert(address.clone()) {
                tracing::warn!(
                    address,
                    "a coordinator that only a Welcome named is not used: name it (ROSTERD_SERVER), or the authorities \
                     that vouch for it (ROSTERD_CA)"
                );
            }
        }
        // Stay where we are in the new list, so that "next" means another one.
        let all = || self.given.iter().chain(&self.learned);
        let last = self.addresses().saturating_sub(1);
        self.at = all().position(|address| Some(address) == here.as_ref()).unwrap_or(last);
        self.phase = LinkPhase::Open(Open { beats, heard_at: now, renewed_at: now });
    }

    /// An acknowledged heartbeat: this coordinator works, so the next loss is followed by an immediate attempt.
    pub(crate) fn healthy(&mut self) {
        self.failures = 0;
    }

    /// The stream or the attempt is over: the next address follows after a wait of at most `most`. Returns the wait.
    pub(crate) fn lose(&mut self, now: Duration, most: Duration) -> Duration {
        self.at = (self.at + 1) % self.addresses().max(1);
        let pause = self.backoff(most);
        self.phase = LinkPhase::Waiting { until: now + pause };
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// The first attempt is immediate, then from 0.2 s on, doubling, each cut by up to a half.
    fn backoff(&mut self, most: Duration) -> Duration {
        if self.failures == 0 {
            return Duration::ZERO;
        }
        let full = BACKOFF_FIRST.saturating_mul(1 << (self.failures - 1).min(10)).min(most);
        full / 2 + full.mul_f64(self.random.unit() / 2.0)
    }

    /// The next moment at which the link itself has something to do.
    pub(crate) fn deadline(&self, silence: Duration, lease_end: Duration) -> Duration {
        match &self.phase {
            LinkPhase::Waiting { until }
            | LinkPhase::Connecting { until }
            | LinkPhase::Greeting { until, .. } => *until,
            LinkPhase::Open(open) => open.beats.next_at().min(open.dead_at(silence, lease_end)),
        }
    }
}

impl Open {
    /// When the stream is considered dead: no frame arrived, or the lease was not renewed until its end.
    pub(crate) fn dead_at(&self, silence: Duration, lease_end: Duration) -> Duration {
        (self.heard_at + silence).min(lease_end.max(self.renewed_at + silence))
    }
}

/// SplitMix64: the same seed gives the same delays.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn link(addresses: &[&str]) -> Link {
        Link::new(addresses.iter().map(ToString::to_string).collect(), 7)
    }

    #[test]
    fn the_first_attempt_is_immediate_then_delays_double_within_bounds() {
        let mut link = link(&["a", "b"]);
        let mut delays = Vec::new();
        for _ in 0..12 {
            link.dial(MS(0));
            link.lose(MS(0), BACKOFF_MOST);
            let LinkPhase::Waiting { until } = link.phase else { panic!("not waiting") };
            delays.push(until);
        }
        assert_eq!(delays[0], MS(0));
        for (index, delay) in delays.iter().enumerate().skip(1) {
            let full = MS(200 << (index - 1)).min(MS(10_000));
            assert!(*delay >= full / 2 && *delay <= full, "{index}: {delay:?} of {full:?}");
        }
        link.healthy();
        link.lose(MS(5), BACKOFF_MOST);
        assert!(matches!(link.phase, LinkPhase::Waiting { until } if until == MS(5)));
    }

    #[test]
    fn the_same_seed_gives_the_same_delays() {
        let delays = |seed| {
            let mut link = Link::new(vec!["a".into()], seed);
            (0..8)
                .map(|_| {
                    link.lose(MS(0), BACKOFF_MOST);
                    link.deadline(MS(0), MS(0))
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
    }

    #[test]
    fn addresses_go_round_with_those_of_the_welcome() {
        let mut link = link(&["a", "b"]);
        assert_eq!(link.dial(MS(0)), (1, "a".into()));
        link.welcome(MS(0), Beats::new(MS(0), MS(1)), vec!["a".into(), "c".into(), "c".into()]);
        let mut seen = Vec::new();
        for _ in 0..4 {
            link.lose(MS(0), BACKOFF_MOST);
            seen.push(link.dial(MS(0)).1);
        }
        assert_eq!(seen, ["b", "c", "a", "b"]);
    }

    #[test]
    fn an_address_that_may_not_be_learned_is_never_gone_to() {
        let access = Access { credential: Some("s3cret".into()), ..Access::default() };
        let given = ["https://a:1".to_owned()];
        let mut link = Link::new(given.to_vec(), 7).learning(access.learns(&given));
        link.dial(MS(0));
        let named = ["https://evil:1", "https://a:2", "http://a:3"].map(str::to_owned);
        link.welcome(MS(0), Beats::new(MS(0), MS(1)), named.to_vec());
        assert_eq!((link.addresses(), link.passed_over.len()), (2, 2));
        for address in ["https://a:2", "https://a:1", "https://a:2"] {
            link.lose(MS(0), BACKOFF_MOST);
            assert_eq!(link.dial(MS(0)).1, address);
        }
    }

    #[test]
    fn streams_are_numbered_by_their_hello() {
        let mut link = link(&["a"]);
        link.dial(MS(0));
        link.lose(MS(0), BACKOFF_MOST);
        link.dial(MS(0));
        assert_eq!(link.greet(MS(0)), 1);
        link.lose(MS(0), BACKOFF_MOST);
        assert_eq!(link.current(), None);
        link.dial(MS(0));
        assert_eq!(link.greet(MS(0)), 2);
    }
}
