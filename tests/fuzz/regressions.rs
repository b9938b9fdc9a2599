//! Bugs that fuzzing found, each under a name that describes it. Their inputs are in the corpus as well.

use rosterd_api::access::jobs::JobScope;
use rosterd_domain::item::{ItemEvent, Missed, Record};
use rosterd_domain::time::Time;

use crate::engine::corpus;

fn input(target: &str, name: &str) -> Vec<u8> {
    let found = corpus(target).into_iter().find(|(file, _)| file.ends_with(name));
    found.unwrap_or_else(|| panic!("{target} has no {name}")).1
}

/// The next run, or the next gap, made the coordinator panic, and with it every job that it hosts.
#[test]
fn counters_at_their_end_stay_there() {
    let record: Record = serde_json::from_slice(&input("records", "counters-at-their-end")).unwrap();
    let latest = Time(record.last_fire.0 + 1000);
    let missed = record.apply(&ItemEvent::Miss { latest, count: 3, reason: Missed::Down }).unwrap();
    assert_eq!(missed.counters.missed[&Missed::Down], u64::MAX);
    assert_eq!(missed.counters.ended(), u64::MAX);
    let mut sum = missed.counters.clone();
    sum.add(&record.counters);
    assert_eq!(sum.fired, u64::MAX);
}

/// The next token would have been the same, or 0.
#[test]
fn a_token_that_leaves_no_room_to_rise_is_damage() {
    let read = serde_json::from_slice::<Record>(&input("records", "a-token-too-high"));
    let why = read.unwrap_err().to_string();
    assert!(why.contains("token 18446744073709551615 is above 4611686018427387904"), "{why}");
}

/// If an operator confuses two fields, the secret must not appear in a log.
#[test]
fn a_secret_in_the_place_of_a_role_is_not_shown() {
    let text = input("credentials", "a-secret-in-the-place-of-a-role");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &text).unwrap();
    let why = rosterd::app::credentials::read(file.path()).unwrap_err();
    assert!(why.contains("old: invalid role \"rosterd_…\""), "{why}");
}

/// It was shown in full, however long it was.
#[test]
fn a_pattern_that_is_not_a_name_is_shown_in_part() {
    let text = String::from_utf8(input("secrets", "a-very-long-pattern")).unwrap();
    let why = JobScope::parse([text]).unwrap_err();
    assert!(why.len() < 300 && why.contains("write for example billing or billing-*"), "{why}");
}
