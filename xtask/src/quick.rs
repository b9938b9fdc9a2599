//! `cargo xtask quick`: after an edit, within a minute: the unit tests of the changed crates and, if one of them is
//! part of the simulation, some seeds.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::changed::{self, Package, files, owner};
use crate::command::{seconds, told, watched};
use crate::metadata::{Program, build_packages};
use crate::summary::{Tally, rust};

const WRITE: &str = "write `quick [--seeds N]`";
const SEEDS: &str = "200";
const SIMULATION: &str = "rosterd-sim";

/// Tests uncommitted changes; whether all succeeded.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    let seeds = match arguments {
        [] => SEEDS,
        [name, seeds] if name == "--seeds" && seeds.parse::<u64>().is_ok() => seeds,
        _ => bail!("invalid arguments {arguments:?}: {WRITE}"),
    };
    let begin = Instant::now();
    let packages = changed::packages()?;
    let files = files("HEAD")?;
    let edited: BTreeSet<&str> =
        files.iter().filter_map(|file| owner(file, &packages)).map(|package| &*package.name).collect();
    let simulated = is_simulated(&edited, &packages);
    if edited.is_empty() {
        println!("no crate has changes that are not committed");
        return Ok(true);
    }
    println!("    edited: {}", edited.iter().copied().collect::<Vec<_>>().join(" "));
    let mut names = edited.clone();
    names.extend(simulated.then_some(SIMULATION));
    let has_mutants = packages.iter().filter(|package| package.mutants && names.contains(&*package.name));
    let features: Vec<String> = has_mutants.map(|package| format!("{}/mutants", package.name)).collect();
    let names: Vec<_> = names.into_iter().collect();
    let Some(programs) = build_packages(&names, &features, simulated)? else { return Ok(false) };
    println!("    built after {}", seconds(begin.elapsed()));
    let mut sum = Tally::default();
    let is_simulation = |program: &&Program| program.target.package == SIMULATION;
    for program in programs.iter().filter(|program| !is_simulation(program)) {
        let mut command = Command::new(&program.path);
        command.current_dir(&program.folder).arg("--quiet");
        let mut tally = Tally::default();
        let status = watched(&mut command, "", &mut |line| {
            if let Some(said) = rust(line) {
                tally = said;
            }
        })?;
        if !status.success() && tally.failed == 0 {
            tally.failed = 1;
        }
        sum += tally;
    }
    let mut seeds_held = true;
    if simulated {
        let simulation = programs.iter().find(is_simulation).context("the simulation was not built")?;
        let mut command = Command::new(&simulation.path);
        command.current_dir(&simulation.folder).args(["--exact", "seeds::seeds", "--nocapture"]);
        seeds_held = told(command.env("SEEDS", seeds), "seeds ")?;
    }
    println!("\nquick: {:.1} s\n{sum}", begin.elapsed().as_secs_f64());
    Ok(sum.failed == 0 && seeds_held)
}

/// Whether the simulation is built from one of these.
fn is_simulated(edited: &BTreeSet<&str>, packages: &[Package]) -> bool {
    let needs =
        |name: &str| packages.iter().find(|package| package.name == name).map(|package| &package.needs);
    edited.contains(SIMULATION)
        || needs(SIMULATION).is_some_and(|needs| needs.iter().any(|name| edited.contains(&**name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulation_is_played_where_it_is_built_from_the_edit() {
        let packages = changed::packages().unwrap();
        let simulated = |name: &str| is_simulated(&BTreeSet::from([name]), &packages);
        assert!(simulated("rosterd-coordinator") && simulated("rosterd-domain") && simulated("rosterd-sim"));
        assert!(!simulated("rosterd-api") && !simulated("xtask"));
        assert!(main(&["--all".to_owned()]).is_err());
    }
}
