//! Failed logins by network: after a number of failures within a minute, further attempts from there are refused until
//! it has passed. Secrets have 256 bits, so this is not needed to prevent a successful guess: it bounds the cost of
//! guessing, and the entries in the log and the audit.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rosterd_domain::time::Mono;

use crate::peer::network;

/// The period over which failures are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// The maximum of failures of one network in that period. All clients of a proxy share one address.
pub(crate) const FAILURES: u32 = 30;
/// How many networks are tracked; those beyond are counted as one.
const MOST: usize = 1024;

/// The recent failures.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<BTreeMap<IpAddr, Failed>>);

#[derive(Debug)]
struct Failed {
    since: Mono,
    count: u32,
}

impl Attempts {
    /// Whether this peer may try; if not, how long it has to wait.
    pub(crate) fn may(&self, peer: IpAddr, now: Mono) -> Result<(), Duration> {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = slot(&mut failed, network(peer), now);
        match failed.get(&peer) {
            Some(failed) if failed.count >= FAILURES => Err(WINDOW.saturating_sub(now.since(failed.since))),
            _ => Ok(()),
        }
    }

    /// Counts a failure.
    pub(crate) fn failed(&self, peer: IpAddr, now: Mono) {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = slot(&mut failed, network(peer), now);
        failed.entry(peer).or_insert(Failed { since: now, count: 0 }).count += 1;
    }
}

/// The key under which a network is counted, after expired entries were removed.
fn slot(failed: &mut BTreeMap<IpAddr, Failed>, peer: IpAddr, now: Mono) -> IpAddr {
    let over = |failed: &Failed| now.since(failed.since) >= WINDOW;
    if failed.get(&peer).is_some_and(over) {
        failed.remove(&peer);
    }
    if !failed.contains_key(&peer) && failed.len() >= MOST {
        failed.retain(|_, failed| !over(failed));
        if failed.len() >= MOST {
            return IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        }
    }
    peer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono(Duration::from_secs(seconds))
    }

    #[test]
    fn a_caller_that_fails_too_often_waits_and_others_do_not() {
        let (attempts, peer) = (Attempts::default(), "2001:db8::1".parse().unwrap());
        for _ in 0..FAILURES {
            assert_eq!(attempts.may(peer, at(10)), Ok(()));
            attempts.failed(peer, at(10));
        }
        assert_eq!(
            attempts.may("2001:db8::2".parse().unwrap(), at(30)),
            Err(Duration::from_secs(40)),
            "one network"
        );
        assert_eq!(attempts.may("10.0.0.1".parse().unwrap(), at(30)), Ok(()));
        assert_eq!(attempts.may(peer, at(70)), Ok(()), "a minute later");
    }

    #[test]
    fn many_networks_take_bounded_room() {
        let attempts = Attempts::default();
        for number in 0..4 * u32::try_from(MOST).unwrap() {
            attempts.failed(IpAddr::V4(Ipv4Addr::from_bits(number + 1)), at(0));
        }
        assert_eq!(attempts.0.lock().unwrap().len(), MOST + 1);
        let stranger = IpAddr::V4(Ipv4Addr::from_bits(u32::MAX));
        assert!(attempts.may(stranger, at(0)).is_err(), "those beyond are counted as one");
        assert_eq!(attempts.may(stranger, at(60)), Ok(()));
        assert!(attempts.0.lock().unwrap().len() <= MOST);
    }
}
