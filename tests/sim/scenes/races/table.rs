//! The table of bugs, the invariants that they break, and what finds them: a scene finds every bug. If random play
//! finds it as well, the row has the seed and the invariant.

use std::fmt::Display;

use rosterd_domain::verify::Fault;

use super::bugs;
use super::{
    Race, fires, found, held, identities, leaders, leases, model_counterexamples, operators, progress, runs,
    store, tools, unneeded_work,
};
use crate::many::{self, env};
use crate::seeds::play::play;
use crate::seeds::script::Script;

fn scenes() -> Vec<&'static Race> {
    let all = [
        store::RACES,
        leases::RACES,
        runs::RACES,
        held::RACES,
        fires::RACES,
        leaders::RACES,
        operators::RACES,
        progress::RACES,
        model_counterexamples::RACES,
        identities::RACES,
        unneeded_work::RACES,
        tools::RACES,
    ];
    all.into_iter().flatten().collect()
}

/// Whether there is a scene of this name.
pub fn is_scene(name: &str) -> bool {
    scenes().iter().any(|race| race.name == name)
}

/// The coordinators' bugs, and those of the client that scenes find; its own tests find all of these.
fn all_bugs(scenes: &[&'static Race]) -> Vec<(&'static str, &'static str)> {
    let named = |bug: &str| scenes.iter().flat_map(|race| race.finds).any(|(of, _)| *of == bug);
    let client = rosterd_client::mutants::ALL.iter().filter(|(bug, _)| named(bug));
    let only = std::env::var("BUGS").ok();
    let asked = |bug: &str| only.as_ref().is_none_or(|only| only.split(',').any(|asked| asked == bug));
    rosterd_domain::mutants::ALL.iter().chain(client).filter(|(bug, _)| asked(bug)).copied().collect()
}

/// The first scene that finds a bug, and the invariant that it finds broken.
fn by_scene(scenes: &[&'static Race], bug: &'static str) -> Option<(&'static str, &'static str)> {
    let finds = |race: &&'static Race| -> Option<(&'static str, &'static str)> {
        let mut rules = race.finds.iter().filter(|(of, _)| *of == bug).map(|(_, rule)| *rule);
        rules.find(|rule| found(race, bug, rule).is_ok()).map(|rule| (race.name, rule))
    };
    scenes.iter().copied().find_map(|race| finds(&race))
}

/// The first of the seeds that breaks an invariant, and which one.
fn by_seed(bug: &'static str, seeds: u64) -> String {
    bugs::only(Some(bug));
    let first = |seed| play(&Script::of(seed), false).broken.into_iter().next();
    let found: Option<(u64, Fault)> = (1..=seeds).find_map(|seed| Some((seed, first(seed)?)));
    bugs::only(None);
    match found {
        Some((seed, fault)) => format!("{seed} {}", fault.rule),
        None if seeds == 0 => "not played".into(),
        None => "scene only".into(),
    }
}

/// A row, readable as text and as Markdown.
#[allow(clippy::print_stdout, reason = "the table is the result")]
fn print([bug, rule, scene, seed, what]: [&dyn Display; 5]) {
    println!("| {bug:<30} | {rule:<30} | {scene:<57} | {seed:<32} | {what} |");
}

/// Plays every scene of every bug, and `SEEDS` seeds with it; the last line has the number of bugs that scenes have
/// caught.
#[test]
#[allow(clippy::print_stdout, reason = "the table is the result")]
fn every_mutant_is_caught() {
    let (scenes, seeds) = (scenes(), env("SEEDS").unwrap_or(0));
    // Bugs that are patches are not in this tree: the command that tests the bugs plays in a copy with the patches.
    let bugs: Vec<_> = all_bugs(&scenes).into_iter().filter(|(bug, _)| bugs::is_built(bug)).collect();
    let threads = env("THREADS").map_or(2, |threads| threads as usize);
    let row = |index: u64| {
        let (bug, _) = bugs[index as usize];
        (by_scene(&scenes, bug), by_seed(bug, seeds))
    };
    let take = |rows: &mut Vec<_>, index, row| {
        rows.push((index, row));
        0
    };
    let mut rows = many::play_all((0, bugs.len() as u64), threads, row, take);
    rows.sort_by_key(|(index, _)| *index);
    let first = format!("first of {seeds} seeds");
    print([&"mutant", &"breaks", &"found by", &first, &"what it is"]);
    print([&"---", &"---", &"---", &"---", &"---"]);
    for (index, (scene, seed)) in &rows {
        let (bug, what) = bugs[*index as usize];
        let (scene, rule) = scene.unwrap_or(("-", "NOT CAUGHT"));
        print([&bug, &rule, &scene, seed, &what]);
    }
    let caught = rows.iter().filter(|(_, (scene, _))| scene.is_some()).count();
    println!("mutants caught {caught} of {}", bugs.len());
    assert_eq!(caught, bugs.len());
}
