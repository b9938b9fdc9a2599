//! Where a process that stays says what it does: stderr.

use super::failure::{Failure, Result};
use rosterd_runtime::telemetry::{LogFilter, LogFormat, init};

/// Starts logging; once per process.
pub(crate) fn start(filter: &str, json: bool) -> Result {
    let filter = LogFilter::parse(filter).map_err(Failure::usage)?;
    let format = if json { LogFormat::Json } else { LogFormat::Text };
    init(format, filter).map_err(|error| Failure::failed("LOG", error))
}
