//! How results look: tables for people, one JSON value a line for programs.

use std::io::{IsTerminal as _, Write as _};

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use prost_types::Timestamp;
use rosterd_domain::time::Time;
use serde_json::Value;

use super::failure::{Failure, Result};

/// The form of a command's output.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Form {
    /// JSON for programs, one value a line
    #[arg(long)]
    pub(crate) json: bool,
}

impl Form {
    /// Shows a result in one of its two forms.
    pub(crate) fn show(self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result {
        say(&if self.json { json().to_string() } else { text() })
    }
}

/// Writes to stdout. A reader that went away ends the command as if it had read all.
pub(crate) fn say(text: &str) -> Result {
    let mut out = std::io::stdout().lock();
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result.map_err(|error| Failure::failed("OUTPUT", error)),
    }
}

/// Rows below their headings, as wide as the terminal at most.
pub(crate) fn table<const N: usize>(headings: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(headings);
    if let Some(width) = width() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Names and values, one a line.
pub(crate) fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let facts: Vec<_> = facts.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let wide = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    facts.iter().map(|(name, value)| format!("{name:wide$}  {value}\n")).collect()
}

/// The width of the terminal that shows the output; none when a file or a program takes it.
fn width() -> Option<u16> {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    Some(size.ws_col).filter(|columns| *columns > 20)
}

/// A proto time as ours.
pub(crate) fn time(at: &Timestamp) -> Time {
    Time(at.seconds.saturating_mul(1000).saturating_add(i64::from(at.nanos) / 1_000_000))
}

/// A time as the wire wants it.
pub(crate) fn timestamp(at: Time) -> Timestamp {
    let nanos = i32::try_from(at.0.rem_euclid(1000)).unwrap_or_default() * 1_000_000;
    Timestamp { seconds: at.0.div_euclid(1000), nanos }
}

/// A time for programs: RFC 3339 in UTC, or null.
pub(crate) fn json_time(at: Option<&Timestamp>) -> Value {
    at.map_or(Value::Null, |at| time(at).to_string().into())
}

/// A time for people, in UTC, to the second; `-` when there is none.
pub(crate) fn short_time(at: Option<&Timestamp>) -> String {
    at.map_or("-".to_owned(), |at| {
        let text = Time::from_seconds(at.seconds).to_string();
        text.replace('T', " ")
    })
}

/// The word of an enum value: `JOB_STATUS_NO_WORKER` is `no_worker`.
pub(crate) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

/// Text of bounded length on one line, for a table.
pub(crate) fn brief(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= most && line.len() == text.trim_end().len() {
        return line.to_owned();
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A text, or `-`.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".into() } else { text.into() }
}

/// Numbers as ranges: `0-3,7`.
pub(crate) fn ranges(items: &[u32]) -> String {
    let mut out: Vec<(u32, u32)> = Vec::new();
    for item in items {
        match out.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*item) => *last = *item,
            _ => out.push((*item, *item)),
        }
    }
    let texts = out.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_shown_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn a_brief_text_is_one_short_line() {
        assert_eq!(brief("abc", 5), "abc");
        assert_eq!(brief("abcdef", 5), "abcd…");
        assert_eq!(brief("a\nb", 5), "a…");
    }

    #[test]
    fn times_keep_their_milliseconds_for_programs() {
        let at = timestamp(Time(-1500));
        assert_eq!(time(&at), Time(-1500));
        assert_eq!(json_time(Some(&at)), "1969-12-31T23:59:58.5Z");
        assert_eq!(short_time(Some(&at)), "1969-12-31 23:59:58Z");
    }
}
