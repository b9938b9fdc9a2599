//! Where a process that stays says what it does: stderr.

use super::failure::{Code, Failure, Result};
use super::output::look::log_in_color;
use rosterd_runtime::telemetry::{LogFilter, LogFormat, init};

/// Starts logging; once per process.
pub(crate) fn start(filter: &str, json: bool) -> Result {
    let filter = LogFilter::parse(filter).map_err(Failure::usage)?;
    let format = if json { LogFormat::Json } else { LogFormat::Text };
    init(format, filter, log_in_color()).map_err(|error| Failure::failed(Code::Log, error))
}
