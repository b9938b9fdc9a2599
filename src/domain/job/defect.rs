//! What is wrong with a job, in words that let a person fix it: the field, its value, what is allowed, the remedy.
//!
//! Never holds the text of a job parameter, an item parameter or a property: those may be secrets, and defects end up
//! in logs. Made by every parser of this module, shown by the command line, the API and the log.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// The kind of defect; stable, for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DefectKind {
    /// Neither JSON nor YAML, or not of the expected shape.
    Unreadable,
    /// Longer, deeper or more than allowed.
    TooLarge,
    /// No field of this name.
    UnknownField,
    /// A field that has an effect in Elastic-Job and cannot have it here.
    RefusedField,
    /// The value has another type than the field.
    WrongType,
    /// The value has the right type, but is not allowed.
    NotAllowed,
    /// A required field is missing.
    Missing,
    /// Two values contradict each other.
    Conflict,
    /// The same thing appears twice.
    Duplicate,
}

/// One defect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// Its kind.
    pub kind: DefectKind,
    /// Which job of the file, from 1; `None` for a node or a file of one job.
    pub number: Option<usize>,
    /// The job, as far as its name could be read.
    pub job: Option<String>,
    /// The path of the field, for example `rosterd.retries.max_attempts`; empty for the whole.
    pub field: String,
    /// The offending value, cut to a length that can be shown; `None` if it has no value, or the value may be secret.
    pub value: Option<String>,
    /// What is wrong and what is allowed.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl Defect {
    /// A defect without value, number and job, which callers add.
    pub fn new(
        kind: DefectKind,
        field: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            number: None,
            job: None,
            field: field.into(),
            value: None,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    /// The same with the offending value.
    #[must_use]
    pub fn with_value(mut self, value: &Value) -> Self {
        self.value = Some(show(value));
        self
    }

    /// The same with the offending text.
    #[must_use]
    pub fn with_text(self, value: &str) -> Self {
        self.with_value(&value.into())
    }

    /// The same with its field below `parent`.
    #[must_use]
    pub fn below(mut self, parent: &str) -> Self {
        self.field =
            if self.field.is_empty() { parent.to_owned() } else { format!("{parent}.{}", self.field) };
        self
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = self.job.as_ref().map(|job| show(&Value::String(job.clone())));
        match (self.number, job) {
            (Some(number), Some(job)) => write!(f, "job {number} {job}: ")?,
            (Some(number), None) => write!(f, "job {number}: ")?,
            (None, Some(job)) => write!(f, "job {job}: ")?,
            (None, None) => {}
        }
        let field = printable(&self.field);
        match &self.value {
            _ if field.is_empty() => {}
            None => write!(f, "{field}: ")?,
            Some(value) => write!(f, "{field} = {value}: ")?,
        }
        write!(f, "{}", self.problem)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// All defects of one input, in the order of the input; never empty. Shown one per line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Defects(Vec<Defect>);

impl Defects {
    /// `value` if there are no defects.
    pub fn none_or<T>(defects: Vec<Defect>, value: T) -> Result<T, Self> {
        if defects.is_empty() { Ok(value) } else { Err(Self(defects)) }
    }

    /// The defects, of which there must be at least one.
    pub(super) fn of(defects: Vec<Defect>) -> Self {
        debug_assert!(!defects.is_empty());
        Self(defects)
    }

    /// Merges both; a defect that both report for a field is kept once.
    pub(super) fn join<T>(mut defects: Vec<Defect>, result: Result<T, Self>) -> Result<T, Self> {
        match result {
            Ok(value) => Self::none_or(defects, value),
            Err(Self(more)) => {
                let known = |one: &Defect| (one.field.clone(), one.problem.clone());
                let told: BTreeSet<_> = defects.iter().map(known).collect();
                defects.extend(more.into_iter().filter(|one| !told.contains(&known(one))));
                Err(Self(defects))
            }
        }
    }

    /// The defects.
    pub fn iter(&self) -> std::slice::Iter<'_, Defect> {
        self.0.iter()
    }
}

impl From<Defect> for Defects {
    fn from(defect: Defect) -> Self {
        Self(vec![defect])
    }
}

impl IntoIterator for Defects {
    type Item = Defect;
    type IntoIter = std::vec::IntoIter<Defect>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Longest value shown, in characters.
const SHOWN: usize = 80;

/// Foreign text for a message: one line, no control characters, cut.
pub(super) fn printable(text: &str) -> String {
    const LONGEST: usize = 200;
    let cut = if text.chars().nth(LONGEST).is_some() { "…" } else { "" };
    let shown = text.chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c });
    shown.chain(cut.chars()).collect()
}

/// A value for a message: JSON, one line, cut.
fn show(value: &Value) -> String {
    let text = match value {
        Value::Array(items) => return format!("a list of {}", items.len()),
        Value::Object(entries) => return format!("a mapping of {}", entries.len()),
        Value::String(text) => Value::String(text.chars().take(SHOWN + 1).collect()).to_string(),
        scalar => scalar.to_string(),
    };
    let text = printable(&text);
    if text.chars().count() <= SHOWN {
        return text;
    }
    format!("{}…", text.chars().take(SHOWN).collect::<String>())
}

/// The nearest of `known` to a mistyped `name`, if it is near enough.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let typed = folded(name);
    known
        .into_iter()
        .map(|candidate| (distance(&typed, &folded(candidate)), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= 2.max(candidate.len() / 5) && *distance < typed.len())
        .map(|(_, candidate)| candidate)
}

fn folded(name: &str) -> Vec<char> {
    name.chars().filter(|c| !"-_. ".contains(*c)).flat_map(char::to_lowercase).collect()
}

/// The Levenshtein distance.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        let known = ["shardingTotalCount", "failover", "cron"];
        assert_eq!(nearest("sharding_total_counts", known), Some("shardingTotalCount"));
        assert_eq!(nearest("failOver", known), Some("failover"));
        assert_eq!(nearest("corn", known), Some("cron"));
        assert_eq!(nearest("retries", known), None);
        assert_eq!(nearest("x", known), None);
        // As many mistakes as a fifth of its letters, but at least one letter must be right.
        assert_eq!(nearest("sh_rd_ngT_tal_Count__", ["shardingTotalCountXX"]), None);
        assert_eq!(nearest("shirdongTutalCeuntXX", ["shardingTotalCountXX"]), Some("shardingTotalCountXX"));
        assert_eq!(nearest("ab", ["cd"]), None);
        assert_eq!(["xycron", "xyzcron"].map(|name| nearest(name, known)), [Some("cron"), None]);
        let (known, long) = ("x".repeat(64), "x".repeat(65));
        assert_eq!(nearest(&known, [known.as_str()]), Some(known.as_str()));
        assert_eq!(nearest(&long, [known.as_str()]), None);
    }

    #[test]
    fn a_field_with_control_characters_is_shown_without() {
        let defect = Defect::new(DefectKind::UnknownField, "a\u{1b}[31m\n", "no", "");
        assert_eq!(defect.to_string(), "a?[31m?: no");
    }

    #[test]
    fn a_shown_value_is_short_and_on_one_line() {
        let defect = Defect::new(DefectKind::NotAllowed, "cron", "no", "").with_text(&"a\n".repeat(10_000));
        assert!(defect.to_string().len() < 120 && !defect.to_string().contains('\n'), "{defect}");
    }
}
