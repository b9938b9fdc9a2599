//! Maps readings of the wall clock to instants: stretches of time in which a zone's clock shows new readings.
//!
//! The rule: a schedule that lists all 24 hours follows elapsed time, so every reading counts, in both passes of a
//! repeated hour. Any other is bound to the wall clock, so a reading counts when the clock first gets *to or past* it.
//! So the second pass of a repeated hour shows nothing new, and at the end of a gap all skipped readings are passed at
//! one instant. A span follows UTC, which is a single stretch. Nothing here knows which readings are fires; called by
//! [`super::Schedule`].

use jiff::tz::TimeZone;

use super::wall::Wall;
use crate::time::Time;

/// No change of a clock is larger than this (a whole day, at the date line).
const LARGEST_CHANGE: i64 = 172_800;

/// How readings count when the clock changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Every reading that the clock shows, including repeated ones.
    Elapsed,
    /// A reading when it is shown for the first time; skipped ones count at the end of the gap.
    FirstPassAndGap,
    /// A reading when it is shown for the first time; skipped ones never count.
    FirstPass,
    /// The readings of UTC, whatever the zone's clock shows.
    Utc,
}

/// The readings after `after` up to and with `until`, and when they are shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) after: Wall,
    pub(super) until: Wall,
    shown: Shown,
}

#[derive(Debug, Clone, Copy)]
enum Shown {
    /// One after the other, at this offset from UTC.
    InTurn { offset: i64 },
    /// All at this one instant: the end of a gap.
    AtOnce { at: i64 },
}

impl Stretch {
    /// The instant at which one of its readings counts, in seconds since the epoch.
    pub(super) fn instant(&self, reading: Wall) -> i64 {
        match self.shown {
            Shown::InTurn { offset } => reading.0 - offset,
            Shown::AtOnce { at } => at,
        }
    }

    /// Whether all its readings make a single fire.
    pub(super) fn at_once(&self) -> bool {
        matches!(self.shown, Shown::AtOnce { .. })
    }
}

/// The stretches of a span of time, in order.
pub(super) struct Walk<'a> {
    zone: &'a TimeZone,
    mode: Mode,
    /// Everything up to this second has been walked.
    at: i64,
    until: i64,
    offset: i64,
    /// The next change of the clock and the offset it brings.
    change: Option<(i64, i64)>,
    /// The furthest reading shown so far.
    high: Wall,
    gap: Option<Stretch>,
}

impl<'a> Walk<'a> {
    /// The seconds after `after` up to and with `until`.
    pub(super) fn new(zone: &'a TimeZone, mode: Mode, after: i64, until: i64) -> Self {
        if mode == Mode::Utc {
            return Self {
                zone,
                mode,
                at: after,
                until,
                offset: 0,
                change: None,
                high: Wall(after),
                gap: None,
            };
        }
        let offset = offset_at(zone, after);
        let high = if mode == Mode::Elapsed { Wall(after + offset) } else { high_water(zone, after, offset) };
        Self { zone, mode, at: after, until, offset, change: next_change(zone, after), high, gap: None }
    }

    /// Walks to the next change of the clock, or to the end.
    fn run(&mut self) -> Stretch {
        let last = self.change.map_or(self.until, |(change, _)| self.until.min(change - 1));
        let shown = Wall(self.at + self.offset);
        let after = if self.mode == Mode::Elapsed { shown } else { shown.max(self.high) };
        let until = Wall(last + self.offset);
        self.at = last;
        self.high = self.high.max(until);
        Stretch { after, until, shown: Shown::InTurn { offset: self.offset } }
    }

    /// Steps over the change that ended a run. The instant of the change itself belongs to the next run, unless a gap
    /// ends there: its reading then belongs to the gap, so that a regular fire is merged with those of the gap.
    fn cross(&mut self) {
        let Some((change, offset)) = self.change.filter(|(change, _)| *change <= self.until) else { return };
        self.offset = offset;
        self.change = next_change(self.zone, change);
        let shown = Wall(change + offset);
        if self.mode == Mode::FirstPassAndGap && shown.0 > self.high.0 + 1 {
            self.gap = Some(Stretch { after: self.high, until: shown, shown: Shown::AtOnce { at: change } });
            self.high = shown;
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Stretch;

    fn next(&mut self) -> Option<Stretch> {
        loop {
            if let Some(gap) = self.gap.take() {
                return Some(gap);
            }
            if self.at >= self.until {
                return None;
            }
            let stretch = self.run();
            self.cross();
            if stretch.after < stretch.until {
                return Some(stretch);
            }
        }
    }
}

fn offset_at(zone: &TimeZone, second: i64) -> i64 {
    zone.to_offset(timestamp(second)).seconds().into()
}

fn next_change(zone: &TimeZone, after: i64) -> Option<(i64, i64)> {
    let change = zone.following(timestamp(after)).next()?;
    Some((change.timestamp().as_second(), change.offset().seconds().into()))
}

/// The furthest reading shown up to and including this second: ahead of the current one in the second pass of an hour.
fn high_water(zone: &TimeZone, second: i64, offset: i64) -> Wall {
    zone.preceding(timestamp(second + 1))
        .map(|change| change.timestamp().as_second() - 1)
        .take_while(|before| *before > second - LARGEST_CHANGE)
        .map(|before| Wall(before + offset_at(zone, before)))
        .fold(Wall(second + offset), Wall::max)
}

fn timestamp(second: i64) -> jiff::Timestamp {
    Time(second.saturating_mul(1000)).timestamp()
}
