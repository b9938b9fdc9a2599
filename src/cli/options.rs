//! What several commands take.

use std::io::Read as _;
use std::path::Path;

use clap::Args;
use rosterd_domain::time::Time;

use super::failure::{Failure, Result};
use super::show::Form;
use crate::config::value;

/// How many rows of a list that goes on are shown: the newest.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Limit {
    /// At most so many, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

impl Limit {
    /// How many rows are asked for: one more than is shown tells whether more is there.
    pub(crate) fn rows(self) -> usize {
        self.limit as usize + 1
    }

    /// How many of them a page brings, where it may bring `most`.
    pub(crate) fn page(self, most: u32) -> u32 {
        (self.limit + 1).min(most)
    }

    /// Cuts what is shown, and says to people that more is there.
    pub(crate) fn cut<R>(self, rows: &mut Vec<R>, form: Form) {
        if rows.len() <= self.limit as usize {
            return;
        }
        rows.truncate(self.limit as usize);
        if !form.json {
            let limit = self.limit;
            eprintln!(
                "rosterd: only the newest {limit} are shown: see more with --limit, earlier ones with --until"
            );
        }
    }
}

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
