//! Lines about strangers: each network is told of once a minute, however often it tries, and the line says how many it
//! stands for. Used where anybody can cause a line of the log.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rosterd_domain::time::Mono;

use super::connection::network;

/// How long a network that was told of is passed over.
const EVERY: Duration = Duration::from_secs(60);
/// How many networks are told apart; those beyond are told of as one.
const MOST: usize = 1024;

/// Who was told of.
#[derive(Debug, Default)]
pub(super) struct Seldom(Mutex<BTreeMap<IpAddr, Told>>);

#[derive(Debug)]
struct Told {
    at: Mono,
    since: u64,
}

impl Seldom {
    /// Whether a line is to be written of this peer: then how often it was passed over since the last one.
    pub(super) fn tell(&self, peer: IpAddr, now: Mono) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut peer = network(peer);
        if !told.contains_key(&peer) && told.len() >= MOST {
            told.retain(|_, told| now.since(told.at) < EVERY);
            if told.len() >= MOST {
                peer = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            }
        }
        match told.get_mut(&peer) {
            Some(told) if now.since(told.at) < EVERY => {
                told.since += 1;
                None
            }
            Some(told) => {
                told.at = now;
                Some(std::mem::take(&mut told.since))
            }
            None => {
                told.insert(peer, Told { at: now, since: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_told_of_once_a_minute_and_the_next_line_counts_the_others() {
        let seldom = Seldom::default();
        let peer = |text: &str| text.parse::<IpAddr>().unwrap();
        let at = |seconds| Mono(Duration::from_secs(seconds));
        assert_eq!(seldom.tell(peer("2001:db8::1"), at(0)), Some(0));
        assert_eq!(seldom.tell(peer("2001:db8::2"), at(1)), None);
        assert_eq!(seldom.tell(peer("10.0.0.1"), at(1)), Some(0), "another network has its own line");
        assert_eq!(seldom.tell(peer("2001:db8::1"), at(59)), None);
        assert_eq!(seldom.tell(peer("2001:db8::3"), at(60)), Some(2));
    }

    #[test]
    fn many_networks_are_told_of_as_one() {
        let seldom = Seldom::default();
        let now = Mono(Duration::ZERO);
        let lines = (0..4 * MOST).filter(|n| {
            let n = u32::try_from(*n).unwrap() + 1;
            seldom.tell(IpAddr::V4(Ipv4Addr::from_bits(n)), now).is_some()
        });
        assert_eq!(lines.count(), MOST + 1);
    }
}
