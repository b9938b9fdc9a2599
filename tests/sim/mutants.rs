//! Bugs put in on purpose: each must make the simulation fail, through its own invariant, within a given number of
//! seeds.

use std::collections::BTreeSet;

use rosterd_domain::mutants;

use crate::seeds::play::play;
use crate::seeds::script::Script;

/// Plays seeds with the bug until one breaks an invariant; returns the seed and the invariants.
fn found(bug: &'static str, within: u64) -> (u64, BTreeSet<&'static str>) {
    mutants::switch(Some(bug));
    for seed in 1..=within {
        let outcome = play(&Script::of(seed), false);
        if !outcome.broken.is_empty() {
            mutants::switch(None);
            return (seed, outcome.broken.iter().map(|broken| broken.rule).collect());
        }
    }
    mutants::switch(None);
    panic!("{bug} was not found within {within} seeds");
}

#[test]
#[allow(clippy::print_stdout, reason = "what was found is the result")]
fn a_start_that_does_not_check_the_record_is_found() {
    let (seed, rules) = found(mutants::START_IGNORES_RECORD, 20);
    println!("{} found by seed {seed}: {rules:?}", mutants::START_IGNORES_RECORD);
}

#[test]
#[allow(clippy::print_stdout, reason = "what was found is the result")]
fn a_start_that_does_not_check_who_speaks_for_the_worker_is_found() {
    let (seed, rules) = found(mutants::START_IGNORES_ATTACHMENT, 20);
    println!("{} found by seed {seed}: {rules:?}", mutants::START_IGNORES_ATTACHMENT);
}

#[test]
fn a_run_that_is_told_before_its_time_is_found() {
    let (_, rules) = found(mutants::TELLS_EARLY, 5);
    assert!(rules.contains("never_early"), "{rules:?}");
}
