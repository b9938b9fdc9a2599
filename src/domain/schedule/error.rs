//! Why a text is no schedule. Every variant says what was refused and what to write instead.

/// The refusal of an expression or a zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The expression is longer than any sensible one; longer texts would only cost time to refuse.
    #[error("the cron expression has {length} bytes: at most {max} are allowed")]
    TooLong {
        /// Length of the refused text in bytes.
        length: usize,
        /// The longest accepted length in bytes.
        max: usize,
    },
    /// Neither six nor seven fields.
    #[error(
        "the cron expression has {found} fields: write 6 or 7, \
         seconds minutes hours day-of-month month day-of-week [year]"
    )]
    FieldCount {
        /// How many fields were there.
        found: usize,
    },
    /// One field holds something it may not.
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
    /// Both day fields are set, or neither is.
    #[error(
        "day-of-month {day_of_month:?} and day-of-week {day_of_week:?}: \
         exactly one of the two must be ?, the other says the days (* for every day)"
    )]
    Days {
        /// The day-of-month field.
        day_of_month: String,
        /// The day-of-week field.
        day_of_week: String,
    },
    /// The fields are fine one by one, but no date from 1970 to 2099 has them all.
    #[error("the cron expression {expression:?} never fires: {reason}")]
    NeverFires {
        /// The refused expression.
        expression: String,
        /// Why no date matches.
        reason: &'static str,
    },
    /// No such time zone.
    #[error("{zone:?} is not a known time zone: write UTC, GMT+8:00 or an IANA name such as Europe/Berlin")]
    Zone {
        /// The refused name, cut to a length that can be shown.
        zone: String,
    },
}
