//! The scripts and their table belong together.

use std::collections::BTreeSet;

use crate::scripts::groups;
use crate::{RULES, scripts};

#[test]
fn every_rule_has_a_script_and_every_script_a_rule() {
    let rules: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    let judged: BTreeSet<&str> = scripts().into_keys().collect();
    assert_eq!(rules, judged);
    assert_eq!(rules.len(), RULES.len(), "no rule stands there twice");
    assert!(rules.len() >= 40, "{} rules", rules.len());
}

#[test]
fn names_of_scripts_are_their_own() {
    let names: Vec<&str> = groups().iter().flat_map(|group| group.scenes).map(|scene| scene.name).collect();
    let own: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(own.len(), names.len());
}

#[test]
fn the_longest_begin_first() {
    let seconds: Vec<u32> = groups().iter().map(|group| group.seconds).collect();
    assert!(seconds.is_sorted_by(|before, after| before >= after), "{seconds:?}");
}
