//! What several commands take.

use std::io::Read as _;
use std::path::Path;

use rosterd_domain::time::Time;

use super::failure::{Failure, Result};
use crate::config::value;

/// A file's text; `-` is stdin.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))
}

/// A time: RFC 3339, or how long ago.
#[allow(clippy::disallowed_methods, reason = "a person's `ago` counts from now")]
pub(crate) fn moment(text: &str) -> Result<Time, String> {
    if let Ok(ago) = value::duration(text) {
        return Ok(Time::from(jiff::Timestamp::now()).minus(ago));
    }
    Time::parse(text).map_err(|error| format!("{error}, or how long ago: 30m, 2h, 1d"))
}
