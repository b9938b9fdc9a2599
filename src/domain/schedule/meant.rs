//! Proposes what a refused expression was probably meant to be: habits of crontab, and mistakes with only one
//! correction. A proposal is made only if it is a valid schedule. Called by [`super::Schedule`] for a refused text; it
//! decides nothing else.

use super::error::ScheduleError;
use super::field::number;
use super::fields::parts;
use super::form::{self, EVERY, MACROS, macro_parts};
use super::readings::Readings;
use crate::job::nearest;

const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const WHOLE_NAMES: [&str; 19] = [
    "SUNDAY",
    "MONDAY",
    "TUESDAY",
    "WEDNESDAY",
    "THURSDAY",
    "FRIDAY",
    "SATURDAY",
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
];

/// The error, with the proposal if there is one.
pub(super) fn proposed(expr: &str, why: ScheduleError) -> ScheduleError {
    let refused = expr.trim();
    let meant = proposals(refused)
        .into_iter()
        .flatten()
        .find(|text| text != refused && Readings::parse(text).is_ok());
    match meant {
        Some(meant) => ScheduleError::Meant { why: Box::new(why), meant },
        None => why,
    }
}

fn proposals(expr: &str) -> [Option<String>; 3] {
    if let Some((word, rest)) = macro_parts(expr) {
        let known = MACROS.iter().map(|(name, _)| *name).chain([EVERY]);
        let span = (nearest(word, [EVERY]).is_some()).then(|| form::meant(rest)).flatten();
        let named = nearest(word, known).filter(|name| *name != EVERY).map(str::to_owned);
        return [span, named, None];
    }
    let upper = expr.to_ascii_uppercase();
    let fields: Vec<String> = parts(&upper).into_iter().map(str::to_owned).collect();
    let Some(fields) = Fields::of(fields) else { return [None, None, None] };
    let mended = fields.mended();
    [fields.often(), Some(mended.text()), mended.last_day()]
}

/// Five to seven fields; `at`: the index of the minutes.
#[derive(Clone)]
struct Fields {
    all: Vec<String>,
    at: usize,
}

impl Fields {
    fn of(all: Vec<String>) -> Option<Self> {
        let at = usize::from(all.len() > 5);
        (5..=7).contains(&all.len()).then_some(Self { all, at })
    }

    fn text(&self) -> String {
        self.all.join(" ")
    }

    fn hours(&self) -> &str {
        &self.all[self.at + 1]
    }

    fn of_month(&self) -> &str {
        &self.all[self.at + 2]
    }

    fn month(&self) -> &str {
        &self.all[self.at + 3]
    }

    fn of_week(&self) -> &str {
        &self.all[self.at + 4]
    }

    /// `0/90` in the minutes and the like, if the other fields allow any time: a span.
    fn often(&self) -> Option<String> {
        let every_day = ["*", "?"];
        let free = self.month() == "*"
            && every_day.contains(&self.of_month())
            && every_day.contains(&self.of_week());
        let no_year = self.all.len() < 7 || self.all[6] == "*";
        let units = [("s", 60), ("m", 60), ("h", 24)];
        let times = &self.all[..self.at + 2];
        let stepped = times.iter().position(|field| field.contains('/'))?;
        let (unit, size) = units[stepped + 1 - self.at];
        let step = times[stepped].strip_prefix("0/").or_else(|| times[stepped].strip_prefix("*/"))?;
        let step = number(step).filter(|step| *step >= size)?;
        let finer_are_zero = times[..stepped].iter().all(|field| field == "0");
        let coarser_are_all = times[stepped + 1..].iter().all(|field| field == "*");
        (free && no_year && finer_are_zero && coarser_are_all).then(|| format!("{EVERY} {step}{unit}"))
    }

    /// The same with every mistake corrected that has only one correction.
    fn mended(&self) -> Self {
        let mut fields = self.clone();
        // In crontab's numbering of weekdays Sunday is 0, Saturday 6, and 7 is Sunday again.
        let crontab = fields.all.len() == 5 && self.of_month() == "*" || has_number(self.of_week(), 0);
        let (hours, month, of_week) = (self.at + 1, self.at + 3, self.at + 4);
        fields.all[hours] = spelled(self.hours(), |word| (word == "24").then(|| "0".to_owned()));
        for field in [month, of_week] {
            fields.all[field] = spelled(&self.all[field], |word| {
                WHOLE_NAMES.contains(&word).then(|| word.chars().take(3).collect())
            });
        }
        fields.all[of_week] = match fields.of_week().split_once('/') {
            Some((range, step)) if !crontab => format!("{}/{step}", spelled(range, numbered)),
            None if crontab && !fields.of_week().contains('#') => spelled(fields.of_week(), named),
            _ => fields.of_week().to_owned(),
        };
        fields.days();
        fields
    }

    /// Puts `?` into exactly one of the two day fields, if one of them allows any day.
    fn days(&mut self) {
        let (of_month, of_week) = (self.at + 2, self.at + 4);
        match (self.of_month(), self.of_week()) {
            ("?", "?") => self.all[of_month] = "*".into(),
            ("*", "*") | (_, "?") | ("?", _) => {}
            ("*", _) => self.all[of_month] = "?".into(),
            (_, "*") => self.all[of_week] = "?".into(),
            _ => {}
        }
    }

    /// For a day that none of the months has: their last day.
    fn last_day(&self) -> Option<String> {
        let late = number(self.of_month()).is_some_and(|day| (29..=31).contains(&day));
        let mut fields = self.clone();
        fields.all[self.at + 2] = "L".into();
        late.then(|| fields.text())
    }
}

/// A field with some of its words replaced.
fn spelled(field: &str, put: impl Fn(&str) -> Option<String>) -> String {
    let (mut text, mut word) = (String::new(), String::new());
    for c in field.chars().chain([',']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        text += &put(&word).unwrap_or_else(|| word.clone());
        word.clear();
        text.push(c);
    }
    text.pop();
    text
}

fn has_number(field: &str, wanted: u16) -> bool {
    field.split([',', '-']).any(|word| number(word) == Some(wanted))
}

/// The name of a weekday for crontab's number.
fn named(word: &str) -> Option<String> {
    let number = number(word).filter(|number| *number <= 7)?;
    Some(DAYS[usize::from(number) % 7].to_owned())
}

/// The number of a weekday by its name.
fn numbered(word: &str) -> Option<String> {
    DAYS.iter().position(|day| *day == word).map(|at| (at + 1).to_string())
}

#[cfg(test)]
mod tests {
    use super::super::Schedule;

    fn meant(expr: &str) -> Option<String> {
        let refused = Schedule::parse(expr, "UTC").unwrap_err().to_string();
        let (_, meant) = refused.split_once("; did you mean ")?;
        let meant = meant.trim_end_matches('?').trim_matches('"').to_owned();
        Schedule::parse(&meant, "UTC").unwrap_or_else(|error| panic!("{expr}: {meant}: {error}"));
        Some(meant)
    }

    #[test]
    fn a_refusal_proposes_what_is_meant() {
        for (refused, proposed) in [
            ("0 2 * * MON-FRI", "0 2 ? * MON-FRI"),
            // Crontab counts weekdays from Sunday = 0.
            ("0 2 * * 1-5", "0 2 ? * MON-FRI"),
            ("0 2 * * 0", "0 2 ? * SUN"),
            ("0 2 * * 7", "0 2 ? * SUN"),
            ("0 2 * * 6,0", "0 2 ? * SAT,SUN"),
            ("0 2 1 * *", "0 2 1 * ?"),
            ("0 2 ? * ?", "0 2 * * ?"),
            ("0 0 2 * * 2-6", "0 0 2 ? * 2-6"),
            ("0 0 2 * * mon#1", "0 0 2 ? * MON#1"),
            ("0 2 * * FRI#2", "0 2 ? * FRI#2"),
            ("0 0 0 ? * 0", "0 0 0 ? * SUN"),
            ("0 0 0 ? * 0,6", "0 0 0 ? * SUN,SAT"),
            ("0 0 0 ? * MON-FRI/2", "0 0 0 ? * 2-6/2"),
            ("0 0 0 ? * Monday", "0 0 0 ? * MON"),
            ("0 0 0 1 january,JUL ?", "0 0 0 1 JAN,JUL ?"),
            ("0 0 24 * * ?", "0 0 0 * * ?"),
            ("0 24 * * *", "0 0 * * *"),
            ("0 0 0 31 2 ?", "0 0 0 L 2 ?"),
            ("0 0 0 31 2 *", "0 0 0 L 2 ?"),
            ("0 0/90 * * * ?", "@every 90m"),
            ("*/90 * * * *", "@every 90m"),
            ("0/60 * * * * ?", "@every 60s"),
            ("0 0 */24 * * ?", "@every 24h"),
            ("0 */36 * * *", "@every 36h"),
            ("@dayly", "@daily"),
            ("@month", "@monthly"),
            ("@every 1h 30m", "@every 1h30m"),
            ("@evry 5m", "@every 5m"),
            ("@every 500ms", "@every 1s"),
        ] {
            assert_eq!(meant(refused).as_deref(), Some(proposed), "{refused}");
        }
    }

    #[test]
    fn where_it_is_not_clear_nothing_is_proposed() {
        for refused in [
            "0 0 0 13 * FRI",
            "0 2 13 * 5",
            "0 0 0 ? * 8",
            "0 60 * * * ?",
            "0 5/90 * * * ?",
            "0 0/90 9-17 * * ?",
            "30 0/90 * * * ?",
            "0 0/90 * * * ? 2027",
            "0 0 0 1 1/13 ?",
            "hello",
            "",
            "1 2 3 4 5 6 7 8",
            "@reboot",
            "@every",
            "@every 5 minutes",
        ] {
            assert_eq!(meant(refused), None, "{refused}");
        }
    }
}
