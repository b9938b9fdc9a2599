//! The notations of a schedule: six or seven fields as in Quartz, five as in crontab, a macro that stands for fields,
//! or a span (`@every 5m`). Called by [`super::Schedule`]; [`super::fields`] interprets the fields.

use super::error::ScheduleError;
use crate::span;

/// The expansion of each macro.
pub(super) const MACROS: [(&str, &str); 7] = [
    ("@hourly", "0 0 * * * ?"),
    ("@daily", "0 0 0 * * ?"),
    ("@midnight", "0 0 0 * * ?"),
    ("@weekly", "0 0 0 ? * SUN"),
    ("@monthly", "0 0 0 1 * ?"),
    ("@yearly", "0 0 0 1 1 ?"),
    ("@annually", "0 0 0 1 1 ?"),
];

/// The word in front of a span.
pub(super) const EVERY: &str = "@every";

/// The longest span, in milliseconds: with it there is one fire within the years of a schedule.
const LONGEST: u64 = 4_102_444_799_000;

/// The notation of an expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Form<'a> {
    /// Five to seven fields.
    Fields(&'a str),
    /// A span in seconds.
    Every(u32),
}

impl<'a> Form<'a> {
    /// Determines the notation.
    pub(super) fn of(expr: &'a str) -> Result<Self, ScheduleError> {
        let bare = expr.trim_matches([' ', '\t']);
        let Some((word, rest)) = macro_parts(bare) else { return Ok(Self::Fields(expr)) };
        if word.eq_ignore_ascii_case(EVERY) {
            return read_span(rest).map(Self::Every);
        }
        let known = MACROS.iter().find(|(name, _)| name.eq_ignore_ascii_case(bare));
        known
            .map(|(_, fields)| Self::Fields(fields))
            .ok_or_else(|| ScheduleError::Macro { found: shown(bare) })
    }
}

/// The first word of a text that begins with `@`, and the rest.
pub(super) fn macro_parts(bare: &str) -> Option<(&str, &str)> {
    bare.starts_with('@').then(|| match bare.split_once([' ', '\t']) {
        Some((word, rest)) => (word, rest.trim_matches([' ', '\t'])),
        None => (bare, ""),
    })
}

/// A span in whole seconds: numbers with units, the longest unit first, each unit once.
fn read_span(text: &str) -> Result<u32, ScheduleError> {
    let refuse = |problem| Err(ScheduleError::Span { span: shown(text), problem });
    let Some(parts) = span::parts(text) else { return refuse("it is not a span") };
    if !span::in_order(&parts) {
        return refuse("the longest unit comes first, and each unit once");
    }
    let Some(millis) = total(&parts) else { return refuse("it is longer than the years from 1970 to 2099") };
    match millis {
        0..1000 => refuse("it is shorter than a second"),
        _ if millis % 1000 != 0 => refuse("fires lie on whole seconds"),
        _ => Ok(u32::try_from(millis / 1000).unwrap_or(u32::MAX)),
    }
}

/// Their sum; `None`: longer than the years of a schedule.
fn total(parts: &[(u64, u64)]) -> Option<u64> {
    span::total(parts).filter(|sum| *sum <= LONGEST)
}

/// What was probably meant: units in any case and order, parts separated, rounded up to whole seconds.
pub(super) fn meant(text: &str) -> Option<String> {
    let bare: String = text.to_ascii_lowercase().split_ascii_whitespace().collect();
    let seconds = total(&span::parts(&bare)?)?.div_ceil(1000).max(1);
    let (mut left, mut written) = (seconds * 1000, String::new());
    for (name, unit) in span::UNITS {
        if left >= unit {
            written += &format!("{}{name}", left / unit);
            left %= unit;
        }
    }
    Some(format!("{EVERY} {written}"))
}

/// A text cut to a length that can be shown.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_they_are_written() {
        for (text, seconds) in [
            ("@every 1s", 1),
            ("@every 90s", 90),
            ("@every 5m", 300),
            ("@every 1h30m", 5400),
            ("@EVERY\t 2d", 172_800),
            (" @every 1d1h1m1s1000ms ", 90_062),
            ("@every 4102444799s", 4_102_444_799),
        ] {
            assert_eq!(Form::of(text).unwrap(), Form::Every(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_span_is_refused_with_a_suggestion() {
        for (text, told, instead) in [
            ("", "it is not a span", None),
            ("5", "it is not a span", None),
            ("m", "it is not a span", None),
            ("-5m", "it is not a span", None),
            ("1.5h", "it is not a span", None),
            ("5 minutes", "it is not a span", None),
            ("1h 30m", "it is not a span", Some("@every 1h30m")),
            ("5M", "it is not a span", Some("@every 5m")),
            ("30m1h", "the longest unit comes first", Some("@every 1h30m")),
            ("1h1h", "each unit once", Some("@every 2h")),
            ("0s", "shorter than a second", Some("@every 1s")),
            ("500ms", "shorter than a second", Some("@every 1s")),
            ("1500ms", "whole seconds", Some("@every 2s")),
            ("4102444800s", "longer than the years", None),
            ("99999999999999999999d", "it is not a span", None),
            ("999999999999d", "longer than the years", None),
        ] {
            let refused = read_span(text).unwrap_err().to_string();
            assert!(refused.contains(told), "{text}: {refused}");
            assert_eq!(meant(text).as_deref(), instead, "{text}");
        }
    }

    #[test]
    fn macros_stand_for_fields() {
        for (name, fields) in MACROS {
            assert_eq!(Form::of(name).unwrap(), Form::Fields(fields));
            assert_eq!(Form::of(&name.to_uppercase()).unwrap(), Form::Fields(fields));
        }
        for other in ["@", "@reboot", "@hourly 5", "@everyday", "@every_5m"] {
            assert!(matches!(Form::of(other), Err(ScheduleError::Macro { .. })), "{other}");
        }
    }
}
