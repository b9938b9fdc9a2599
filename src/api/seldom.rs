//! Rate-limits log lines about strangers: one a minute for each network, and the line says how many it stands for. Used
//! wherever anybody can cause a log line.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rosterd_domain::time::Mono;

use super::peer::network;

/// The minimum time between two lines about one network.
const EVERY: Duration = Duration::from_secs(60);
/// How many networks are tracked; those beyond count as one.
const MOST: usize = 1024;

/// The networks that were logged.
#[derive(Debug, Default)]
pub(super) struct Seldom(Mutex<BTreeMap<IpAddr, LastLine>>);

#[derive(Debug)]
struct LastLine {
    at: Mono,
    skipped: u64,
}

impl Seldom {
    /// Whether to log this peer: if so, how many events were skipped since its last line.
    pub(super) fn admits(&self, peer: IpAddr, now: Mono) -> Option<u64> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut peer = network(peer);
        if !lines.contains_key(&peer) && lines.len() >= MOST {
            lines.retain(|_, line| now.since(line.at) < EVERY);
            if lines.len() >= MOST {
                peer = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            }
        }
        match lines.get_mut(&peer) {
            Some(line) if now.since(line.at) < EVERY => {
                line.skipped += 1;
                None
            }
            Some(line) => {
                line.at = now;
                Some(std::mem::take(&mut line.skipped))
            }
            None => {
                lines.insert(peer, LastLine { at: now, skipped: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_logged_once_a_minute_and_the_next_line_counts_the_others() {
        let seldom = Seldom::default();
        let peer = |text: &str| text.parse::<IpAddr>().unwrap();
        let at = |seconds| Mono(Duration::from_secs(seconds));
        assert_eq!(seldom.admits(peer("2001:db8::1"), at(0)), Some(0));
        assert_eq!(seldom.admits(peer("2001:db8::2"), at(1)), None);
        assert_eq!(seldom.admits(peer("10.0.0.1"), at(1)), Some(0), "another network has its own line");
        assert_eq!(seldom.admits(peer("2001:db8::1"), at(59)), None);
        assert_eq!(seldom.admits(peer("2001:db8::3"), at(60)), Some(2));
    }

    #[test]
    fn many_networks_are_logged_as_one() {
        let seldom = Seldom::default();
        let now = Mono(Duration::ZERO);
        let lines = (0..4 * MOST).filter(|n| {
            let n = u32::try_from(*n).unwrap() + 1;
            seldom.admits(IpAddr::V4(Ipv4Addr::from_bits(n)), now).is_some()
        });
        assert_eq!(lines.count(), MOST + 1);
    }
}
