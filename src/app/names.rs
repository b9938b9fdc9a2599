//! What this coordinator is called: to its workers, to people, and in the store.

use std::net::SocketAddr;

use rosterd_domain::id::CoordinatorId;

use crate::config::Config;

/// The URL under which workers reach a listener if none is configured; none if it listens on every address.
pub(super) fn reached_at(scheme: &str, address: SocketAddr) -> String {
    if address.ip().is_unspecified() { String::new() } else { format!("{scheme}://{address}") }
}

/// The name of this coordinator to people, the same after a restart.
pub(super) fn reached(config: &Config, address: SocketAddr) -> String {
    let advertised = config.advertise.clone().filter(|url| !url.is_empty());
    advertised.unwrap_or_else(|| format!("{}://{address}", config.scheme()))
}

/// Names for coordinators here: one for each registry session, never used again.
pub(super) fn named(address: SocketAddr) -> Box<dyn Fn() -> CoordinatorId + Send + Sync> {
    Box::new(move || {
        let unique = uuid::Uuid::new_v4().simple();
        // The address of a listener and hexadecimal digits are a name.
        CoordinatorId::new(format!("{}@-@{unique}", address.ip()))
            .unwrap_or_else(|_| unreachable!("an address is a name"))
    })
}
