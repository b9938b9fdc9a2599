//! Why a text is not a schedule. Every variant says what was refused and what to write instead.

/// Why an expression or a zone was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The expression is longer than any sensible one; parsing longer ones would only cost time.
    #[error("the cron expression has {length} bytes: at most {max} are allowed")]
    TooLong {
        /// Length of the refused text in bytes.
        length: usize,
        /// The longest accepted length in bytes.
        max: usize,
    },
    /// Fewer than five fields, or more than seven.
    #[error(
        "the cron expression has {found} fields: write 5, 6 or 7, \
         [seconds] minutes hours day-of-month month day-of-week [year]; or @daily and the like, or @every 5m"
    )]
    FieldCount {
        /// The number of fields found.
        found: usize,
    },
    /// A field has a value that it does not allow.
    #[error("{field} {value:?}: {problem}; allowed: {allowed}")]
    Field {
        /// The field's name, for example `hours`.
        field: &'static str,
        /// The refused part of it.
        value: String,
        /// What is wrong with that part.
        problem: &'static str,
        /// What the field accepts.
        allowed: &'static str,
    },
    /// Both day fields are set, and not to `*`, or neither is set.
    #[error(
        "day-of-month {day_of_month:?} and day-of-week {day_of_week:?}: \
         exactly one of the two must be ?, the other says the days (every day: * in one or in both)"
    )]
    Days {
        /// The day-of-month field.
        day_of_month: String,
        /// The day-of-week field.
        day_of_week: String,
    },
    /// An unknown word that begins with `@`.
    #[error(
        "there is no {found:?}: write @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, \
         @every 5m, or fields"
    )]
    Macro {
        /// The refused text, cut to a length that can be shown.
        found: String,
    },
    /// The text after `@every` is not a span.
    #[error("@every {span:?}: {problem}; write a span of 1s or more: 90s, 5m, 1h30m")]
    Span {
        /// The refused text, cut to a length that can be shown.
        span: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The text is refused, but a similar one is valid.
    #[error("{why}; did you mean {meant:?}?")]
    Meant {
        /// Why it is refused.
        why: Box<ScheduleError>,
        /// The similar expression.
        meant: String,
    },
    /// The fields are fine one by one, but no date from 1970 to 2099 has them all.
    #[error("the cron expression {expression:?} never fires: {reason}")]
    NeverFires {
        /// The refused expression.
        expression: String,
        /// Why no date matches.
        reason: &'static str,
    },
    /// The time zone does not exist.
    #[error("{zone:?} is not a known time zone: write UTC, GMT+8:00 or an IANA name such as Europe/Berlin")]
    Zone {
        /// The refused name, cut to a length that can be shown.
        zone: String,
    },
}
