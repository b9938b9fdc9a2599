//! `kill -9` of each kind of process, and the effect on runs, judged from the workers' journals.

mod host;
mod leader;
mod worker;

pub(crate) use host::host;
pub(crate) use leader::leader;
pub(crate) use worker::worker;

use crate::journal::Reading;

/// Milliseconds between two readings of the clock that all share.
fn millis(from: u64, to: u64) -> f64 {
    (to as f64 - from as f64) / 1e6
}

/// The address, without its scheme.
fn plain(address: &str) -> &str {
    address.trim_start_matches("http://").trim_end_matches('/')
}

/// The coordinator to which a worker attached last.
fn host_of<'a>(reading: &'a Reading, worker: &str) -> Option<&'a str> {
    let lines = reading.lines.iter().rev().filter(|line| line.worker == worker);
    lines.filter_map(crate::journal::attached).next().map(|(address, _)| plain(address))
}
