//! Where a process that stays says what it does: stderr.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use super::failure::{Failure, Result};

/// Starts logging; once per process.
pub(crate) fn start(filter: &str, json: bool) -> Result {
    let filter = EnvFilter::try_new(filter).map_err(Failure::usage)?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if json {
        log.json().try_init()
    } else {
        log.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init()
    };
    started.map_err(|error| Failure::failed("LOG", error))
}
