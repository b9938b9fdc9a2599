//! What counts as one peer, wherever peers are counted.

use std::net::{IpAddr, Ipv6Addr};

/// What counts as one peer.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64))),
        v4 => v4,
    }
}
