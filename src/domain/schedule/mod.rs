//! When a job fires: a cron expression in a time zone, or a span.
//!
//! A schedule answers three questions about instants, each exactly: the next fire, how many fires a span holds, and the
//! last of them. It never reads a clock, remembers nothing but its last answers, and knows nothing of misfires or jobs.
//! Called by the planning of fires and by everything that checks or shows a job's definition.
//!
//! The notation is that of Quartz 2.5, years end with 2099. In addition it accepts five fields, whose seconds are 0,
//! `*` in both day fields, macros such as `@daily`, and spans: `@every 5m` fires each five minutes since
//! 1970-01-01T00:00:00 UTC, in every zone. If a text is refused and a similar one is valid, the error names that. Text
//! that Quartz silently ignores or reads as something else (`MON-FRI/2`, `MONDAY`, `*/0`, `1,,2`) is refused. When the
//! zone's clock changes, an expression that lists all 24 hours follows elapsed time: both passes of a repeated hour
//! fire, and a gap has no fires. Any other expression is bound to the wall clock: in a repeated hour only the first
//! pass fires, and fires that fall into a gap become one, at its end (see [`GapPolicy`]). Fires never go backwards and
//! never repeat. (Quartz stops for the length of the repeated hour and skips what falls into a gap.)

mod days;
mod error;
mod every;
mod field;
mod fields;
mod form;
mod meant;
mod readings;
mod recent;
mod times;
mod walk;
mod wall;

use std::fmt;
use std::sync::Arc;

use jiff::tz::TimeZone;

pub use error::ScheduleError;
use readings::Readings;
pub(crate) use recent::RecentTimes;
use walk::{Mode, Stretch, Walk};
use wall::Wall;

use crate::time::Time;

/// Longest accepted expression, in bytes.
pub const MAX_EXPRESSION: usize = 256;

/// The range in which fires are searched, in seconds since the epoch: the years 1970 to 2099 in every zone, with two
/// extra days at each end.
const BEGIN: i64 = -172_800;
const END: i64 = 4_102_617_600;

/// What to do with fires whose time of day the clock skips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GapPolicy {
    /// They fire at the gap's end, as one fire, merged with a regular fire at that instant.
    #[default]
    FireAtEnd,
    /// They do not fire, as in Quartz.
    Skip,
}

/// A cron expression in a time zone. Cheap to clone; equal when expression, zone and gap policy are.
#[derive(Clone)]
pub struct Schedule {
    parsed: Arc<Parsed>,
    gap: GapPolicy,
    /// Until a job has fired, every plan asks for the same fire.
    recent: Arc<RecentTimes>,
}

struct Parsed {
    expression: String,
    name: String,
    zone: TimeZone,
    readings: Readings,
}

impl Schedule {
    /// Parses an expression (five to seven fields, a macro or a span) and the IANA name of a zone.
    pub fn parse(expr: &str, zone: &str) -> Result<Self, ScheduleError> {
        if expr.len() > MAX_EXPRESSION {
            return Err(ScheduleError::TooLong { length: expr.len(), max: MAX_EXPRESSION });
        }
        let readings = Readings::parse(expr).map_err(|why| meant::proposed(expr, why))?;
        let (zone, name) = known_zone(zone)?;
        let parsed = Parsed { expression: expr.to_owned(), name, zone, readings };
        Ok(Self { parsed: Arc::new(parsed), gap: GapPolicy::default(), recent: Arc::default() })
    }

    /// The same schedule with another rule for gaps. Only matters to schedules bound to the wall clock.
    #[must_use]
    pub fn with_gap(self, gap: GapPolicy) -> Self {
        Self { gap, recent: Arc::default(), ..self }
    }

    /// The expression as it was written.
    pub fn expression(&self) -> &str {
        &self.parsed.expression
    }

    /// The zone's name, spelled as the zone database does.
    pub fn zone(&self) -> &str {
        &self.parsed.name
    }

    /// The zone itself: one with a fixed offset (`GMT+08:00`) has a name that is in no database.
    pub fn time_zone(&self) -> &TimeZone {
        &self.parsed.zone
    }

    /// What to do with fires inside a gap.
    pub fn gap(&self) -> GapPolicy {
        self.gap
    }

    /// The first fire strictly later than `after`; `None` if the years of the expression are over.
    pub fn next(&self, after: Time) -> Option<Time> {
        self.recent.next(after, || self.search(after))
    }

    fn search(&self, after: Time) -> Option<Time> {
        // The last answer is also valid for a later stretch, unless that one begins further back (in a repeated hour's
        // second pass).
        let mut found: Option<(Wall, Option<Wall>)> = None;
        for stretch in self.walk(after, Time(i64::MAX)) {
            let reading = match found {
                Some((asked, reading))
                    if asked <= stretch.after && reading.is_none_or(|r| r > stretch.after) =>
                {
                    reading
                }
                _ => self.parsed.readings.next(stretch.after),
            };
            found = Some((stretch.after, reading));
            if let Some(reading) = reading.filter(|reading| *reading <= stretch.until) {
                return Some(Time::from_seconds(stretch.instant(reading)));
            }
        }
        None
    }

    /// The number of fires in its busiest minute.
    pub fn fires_per_minute(&self) -> u32 {
        self.parsed.readings.per_minute()
    }

    /// All fires strictly later than `after`, in order.
    pub fn iter(&self, after: Time) -> impl Iterator<Item = Time> + '_ {
        std::iter::successors(self.next(after), |last| self.next(*last))
    }

    /// The first `n` fires strictly later than `after`.
    pub fn upcoming(&self, after: Time, n: usize) -> Vec<Time> {
        self.iter(after).take(n).collect()
    }

    /// The number of fires later than `after` and not later than `until`. The cost grows with the months of the span,
    /// not with the number of fires.
    pub fn count_between(&self, after: Time, until: Time) -> u64 {
        self.walk(after, until).map(|stretch| self.count(&stretch)).sum()
    }

    /// The latest fire that is not later than `until`, if it is later than `after`. As cheap as counting.
    pub fn last_at_or_before(&self, until: Time, after: Time) -> Option<Time> {
        let stretches: Vec<Stretch> = self.walk(after, until).collect();
        stretches.iter().rev().find_map(|stretch| {
            let reading = self.parsed.readings.last(stretch.after, stretch.until)?;
            Some(Time::from_seconds(stretch.instant(reading)))
        })
    }

    fn count(&self, stretch: &Stretch) -> u64 {
        let fires = self.parsed.readings.count(stretch.after, stretch.until);
        if stretch.at_once() { fires.min(1) } else { fires }
    }

    /// The seconds later than `after` and not later than `until`. Fires are on whole seconds, so the milliseconds of
    /// both can be cut off.
    fn walk(&self, after: Time, until: Time) -> Walk<'_> {
        let second = |time: Time| time.0.div_euclid(1000).clamp(BEGIN, END);
        let mode = match (&self.parsed.readings, self.gap) {
            (Readings::Every(_), _) => Mode::Utc,
            (Readings::Fields(fields), _) if fields.all_hours() => Mode::Elapsed,
            (_, GapPolicy::FireAtEnd) => Mode::FirstPassAndGap,
            (_, GapPolicy::Skip) => Mode::FirstPass,
        };
        Walk::new(&self.parsed.zone, mode, second(after), second(until))
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.gap == other.gap && self.expression() == other.expression() && self.zone() == other.zone()
    }
}

impl Eq for Schedule {}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({:?} in {}, gaps: {:?})", self.expression(), self.zone(), self.gap)
    }
}

/// The zone and its name. Two coordinators must not read one schedule differently, so names that depend on the
/// machine's settings are refused, and those of clocks with leap seconds.
fn known_zone(zone: &str) -> Result<(TimeZone, String), ScheduleError> {
    if let Some(fixed) = fixed_zone(zone) {
        return Ok(fixed);
    }
    let found = TimeZone::get(zone).ok().filter(|found| !found.is_unknown());
    let named = found.and_then(|found| found.iana_name().map(str::to_owned).map(|name| (found, name)));
    named
        .filter(|(_, name)| {
            !matches!(name.as_str(), "localtime" | "posixrules") && !name.starts_with("right/")
        })
        .ok_or_else(|| ScheduleError::Zone { zone: zone.chars().take(64).collect() })
}

/// A fixed offset from UTC, in the forms of Java's time zones that Elastic-Job's documents show: `GMT+8`, `GMT+8:00`,
/// `GMT+08:00`, `GMT+0800`. Less than a day, in minutes.
fn fixed_zone(zone: &str) -> Option<(TimeZone, String)> {
    let signed = zone.strip_prefix("GMT")?;
    let (sign, digits) =
        signed.strip_prefix('+').map(|rest| (1, rest)).or(signed.strip_prefix('-').map(|rest| (-1, rest)))?;
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) if minutes.len() == 2 => (hours, minutes),
        Some(_) => return None,
        None if digits.len() > 2 => digits.split_at_checked(digits.len() - 2)?,
        None => (digits, "00"),
    };
    let number = |text: &str, most: i32| {
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i32>().ok().filter(|number| digits && *number <= most)
    };
    let (hours, minutes) = (number(hours, 23)?, number(minutes, 59)?);
    let offset = jiff::tz::Offset::from_seconds(sign * (hours * 60 + minutes) * 60).ok()?;
    let name = format!("GMT{}{hours:02}:{minutes:02}", if sign < 0 { '-' } else { '+' });
    Some((TimeZone::fixed(offset), name))
}

#[cfg(test)]
mod tests;
