//! Which bug breaks which promise, and what finds it: every bug is found by a scene.

use rosterd_domain::mutants;

use super::{Race, fires, found, holes, leaders, leases, operators, runs, store};

fn scenes() -> Vec<&'static Race> {
    let all = [
        store::RACES,
        leases::RACES,
        runs::RACES,
        fires::RACES,
        leaders::RACES,
        operators::RACES,
        holes::RACES,
    ];
    all.into_iter().flatten().collect()
}

/// Plays every scene of every bug; the last line says how many bugs were caught.
#[test]
#[allow(clippy::print_stdout, reason = "the table is the result")]
fn every_mutant_is_caught() {
    let (scenes, mut caught) = (scenes(), 0);
    println!("{:<28} {:<28} {:<52} what it is", "mutant", "breaks", "found by");
    for (bug, what) in mutants::ALL {
        let finding = scenes.iter().flat_map(|race| {
            let finds = race.finds.iter().filter(|(of, _)| of == bug);
            finds.map(move |(_, rule)| (*race, *rule))
        });
        let first =
            finding.map(|(race, rule)| found(race, bug, rule).map(|_| (race.name, rule))).find(Result::is_ok);
        match first {
            Some(Ok((scene, rule))) => {
                caught += 1;
                println!("{bug:<28} {rule:<28} {scene:<52} {what}");
            }
            _ => println!("{bug:<28} {:<28} {:<52} {what}", "NOT CAUGHT", "-"),
        }
    }
    println!("mutants caught {caught} of {}", mutants::ALL.len());
    assert_eq!(caught, mutants::ALL.len());
}
