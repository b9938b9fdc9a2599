//! Failed logins by network: so many in a minute, and then nobody from there is looked at until it is over. Secrets have 256
//! bits, so this keeps no guess from succeeding: it keeps guessing from costing much, and from filling the log and the audit.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rosterd_domain::time::Mono;

use crate::connection::network;

/// How long failures are counted together.
const WINDOW: Duration = Duration::from_secs(60);
/// Failures of one network in that time. A proxy is one address for all who come through it.
pub(crate) const FAILURES: u32 = 30;
/// How many networks are told apart; those beyond are counted as one.
const MOST: usize = 1024;

/// Who failed lately.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<BTreeMap<IpAddr, Failed>>);

#[derive(Debug)]
struct Failed {
    since: Mono,
    count: u32,
}

impl Attempts {
    /// Whether an attempt of this peer is looked at; if not, how long it has to wait.
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

/// Under which address a network is counted, once what is over was forgotten.
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
    fn who_fails_too_often_waits_and_others_do_not() {
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
