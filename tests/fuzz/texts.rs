//! Names, schedules, values and secrets.

use std::fmt::Display;
use std::str::{FromStr, from_utf8};

use rosterd::config::value;
use rosterd_api::access::jobs::JobScope;
use rosterd_api::access::secret::{Digest, Secret};
use rosterd_api::access::subject::{PeerNames, Subject};
use rosterd_domain::id::*;
use rosterd_domain::job::ItemParameters;
use rosterd_domain::schedule::{GapPolicy, Schedule};
use rosterd_domain::time::Time;

pub const CRON_WORDS: &[&str] = &[
    "*",
    "?",
    "L",
    "W",
    "LW",
    "L-3",
    "1#5",
    "MON-FRI",
    "0/5",
    "1,2,3",
    "2099",
    "JAN",
    "0 0 2 * * ?",
    "\n",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "+05:30",
    "59",
    "31",
    "29 2",
    "@daily",
    "@every 1h30m",
    "* * * * *",
];

/// Messages for people must be reasonably short.
#[track_caller]
pub fn told(error: &impl Display) -> String {
    let text = error.to_string();
    assert!(!text.is_empty(), "a refusal without a word");
    assert!(text.len() <= 8 << 10, "a refusal of {} bytes", text.len());
    // Its kind: without what it quotes.
    text.chars().filter(|c| c.is_ascii_lowercase() || *c == ' ').take(40).collect()
}

fn name<T>(text: &str) -> char
where
    T: FromStr + Display + PartialEq + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    T::Err: Display,
{
    match text.parse::<T>() {
        Ok(name) => {
            assert_eq!(name.to_string(), text);
            let json = serde_json::to_string(&name).unwrap();
            assert_eq!(serde_json::from_str::<T>(&json).unwrap(), name);
            '1'
        }
        Err(error) => {
            told(&error);
            let json = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<T>(&json).is_err(), "as data it is taken all the same");
            '0'
        }
    }
}

pub fn names(input: &[u8]) -> String {
    let Ok(text) = from_utf8(input) else { return "no text".into() };
    if let Ok(instance) = InstanceId::new(text) {
        let address = instance.address();
        assert!(text.starts_with(address));
        if let Some(worker) = instance.worker() {
            assert!(text.ends_with(worker.as_str()));
        }
    }
    let kinds = [
        name::<JobName>(text),
        name::<Namespace>(text),
        name::<InstanceId>(text),
        name::<WorkerId>(text),
        name::<ServerAddress>(text),
        name::<CoordinatorId>(text),
        name::<TriggerId>(text),
        name::<CommandName>(text),
    ];
    kinds.iter().collect::<String>() + &text.len().min(300).ilog2_or_zero().to_string()
}

trait Log {
    fn ilog2_or_zero(self) -> u32;
}

impl Log for usize {
    fn ilog2_or_zero(self) -> u32 {
        self.checked_ilog2().unwrap_or_default()
    }
}

/// Lines: the expression, the zone, milliseconds after which to compute scheduled times.
pub fn schedule(input: &[u8]) -> String {
    let Ok(text) = from_utf8(input) else { return "no text".into() };
    let mut lines = text.split('\n');
    let (cron, zone) = (lines.next().unwrap_or_default(), lines.next().unwrap_or("UTC"));
    let after = Time(lines.next().and_then(|number| number.parse().ok()).unwrap_or_default());
    let schedule = match Schedule::parse(cron, zone) {
        Ok(schedule) => schedule,
        Err(error) => return told(&error),
    };
    let mut kind = String::new();
    for gap in [GapPolicy::FireAtEnd, GapPolicy::Skip] {
        let schedule = schedule.clone().with_gap(gap);
        let due = schedule.upcoming(after, 8);
        assert!(due.first().is_none_or(|first| *first > after), "{due:?} is not after {after}");
        assert!(due.windows(2).all(|pair| pair[0] < pair[1]), "{due:?} does not rise");
        if let Some(last) = due.last() {
            assert_eq!(schedule.count_between(after, *last), due.len() as u64);
            assert_eq!(schedule.last_at_or_before(*last, after), Some(*last));
            assert_eq!(schedule.next(Time(last.0 - 1)), Some(*last));
        }
        let width = due.first().zip(due.last()).map_or(0, |(first, last)| last.0.abs_diff(first.0));
        kind += &format!("{} {} ", due.len(), width.checked_ilog2().unwrap_or_default());
    }
    kind
}

pub fn values(input: &[u8]) -> String {
    let Ok(text) = from_utf8(input) else { return "no text".into() };
    let mut kind = String::new();
    if let Ok(duration) = value::duration(text) {
        assert_eq!(value::duration(&value::show(duration)), Ok(duration));
        kind.push('d');
    }
    if value::bytes(text).is_ok() {
        kind.push('b');
    }
    if let Ok(time) = Time::parse(text) {
        assert_eq!(Time::parse(&time.to_string()), Ok(time));
        kind.push('t');
    }
    kind += &match ItemParameters::parse(text) {
        Ok(parameters) => {
            assert_eq!(ItemParameters::parse(parameters.as_str()).as_ref(), Ok(&parameters));
            format!("p{}", parameters.map().len())
        }
        Err(error) => told(&error),
    };
    kind.push(if ItemParameters::parse_strict(text).is_ok() { 's' } else { '-' });
    kind
}

pub fn secrets(input: &[u8]) -> String {
    let Ok(text) = from_utf8(input) else { return "no text".into() };
    let mut kind = String::new();
    if let Some(secret) = Secret::parse(text) {
        assert_eq!(secret.text(), text);
        assert!(!format!("{secret:?}").contains(&text[25..]), "it is shown");
        kind.push('s');
    }
    if let Some(digest) = Digest::parse(text) {
        assert_eq!(digest.to_string(), text);
        kind.push('d');
    }
    match text.parse::<Subject>() {
        Ok(subject) => {
            assert_eq!(subject.to_string().parse::<Subject>().as_ref(), Ok(&subject));
            kind.push_str("subject");
        }
        Err(error) => kind += &told(&error),
    }
    match JobScope::parse(text.split('\n')) {
        Ok(jobs) => {
            let name = JobName::new("words").unwrap();
            kind.push(if jobs.have(&name) { '1' } else { '0' });
        }
        Err(error) => kind += &told(&error),
    }
    // The subject of a certificate that nobody has verified.
    let names = PeerNames::of(&input.to_vec().into());
    kind + &names.subjects().count().to_string()
}
