//! `cargo xtask sim`: the simulation by itself. Many seeds with progress, one seed again, or the table of deliberate
//! bugs and what finds them. The last line is the result.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::{target, told};
use crate::metadata::{build, build_in};
use crate::patched;

/// The request.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// The program with the test.
    program: &'static str,
    /// The test.
    test: &'static str,
    /// The beginning of the last line.
    result: &'static str,
    seeds: Option<u64>,
    first: Option<u64>,
    /// The hostile worker is in every world.
    hostile: bool,
}

/// The frames that the hostile worker sends in a second, if it is enabled.
const HOSTILE: &str = "16";

/// The beginning of the last line of the table of bugs.
const MUTANTS: &str = "mutants caught";

/// How many seeds are played with each bug at most, until one finds it.
const MUTANT_SEEDS: u64 = 60;

const WRITE: &str = "write `sim [--network | --hostile] --seeds N [--from SEED]`, `sim --mutants`, \
                     `SEED=N … sim [--network]` or `SCRIPT=FILE … sim`";

const USAGE: &str = "\
cargo xtask sim …

  --seeds N            N seeds, with progress; from seed 1 on, or --from SEED
  --mutants            each guard switched off in turn, and what finds it
  --hostile            with --seeds: the hostile worker in every world, and not in half of them
  --network …          the same with the real network stack, in a simulated network; not with --mutants or --hostile

Without these it plays one again and tells what happens in it:

  SEED=N cargo xtask sim [--network]
  SCRIPT=FILE cargo xtask sim

The environment: THREADS says on how many threads; SHRUNK how many failing seeds are made short (none: 0), each of another
promise; VERBOSE=1 tells all that happens; RUST_LOG=debug what the coordinators log; KEEP=FILE writes the script of what is
played again there.
";

impl Request {
    fn read(arguments: &[String], seed: Option<&str>, script: bool) -> Result<Self> {
        let mut request =
            Self { program: "sim", test: "", result: "", seeds: None, first: None, hostile: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--mutants" => {
                    request.is("scenes::races::table::every_mutant_is_caught", MUTANTS);
                    request.seeds = Some(MUTANT_SEEDS);
                }
                "--seeds" => {
                    request.is("seeds::seeds", "seeds ");
                    request.seeds = Some(number(argument, arguments.next())?);
                }
                "--network" => request.program = "net",
                "--hostile" => request.hostile = true,
                "--from" => request.first = Some(number(argument, arguments.next())?),
                _ => bail!("unknown argument {argument:?}: {WRITE}"),
            }
        }
        if let (Some(seed), "") = (seed, request.test) {
            number("SEED", Some(&seed.to_owned()))?;
            request.is("seeds::replay", "test result");
        }
        if script && request.test.is_empty() {
            request.is("seeds::replay", "test result");
        }
        let networked = request.program == "net";
        let alone = request.hostile && (networked || request.test != "seeds::seeds");
        if request.test.is_empty() || alone || networked && (script || !request.test.starts_with("seeds::")) {
            bail!("{WRITE}");
        }
        Ok(request)
    }

    fn is(&mut self, test: &'static str, result: &'static str) {
        (self.test, self.result) = (test, result);
    }
}

fn number(name: &str, value: Option<&String>) -> Result<u64> {
    let value = value.with_context(|| format!("{name} needs a number: {WRITE}"))?;
    value.parse().with_context(|| format!("{name} is {value:?}, which is not a number: {WRITE}"))
}

/// Runs the request; whether all of it succeeded.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    if arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h" | "help")) {
        print!("{USAGE}");
        return Ok(true);
    }
    let (seed, script) = (std::env::var("SEED").ok(), std::env::var_os("SCRIPT"));
    let request = Request::read(arguments, seed.as_deref(), script.is_some())?;
    let wanted = ["--test".to_owned(), request.program.into()];
    // Bugs that add code are only in a copy of the tree.
    let built = match request.result {
        MUTANTS => build_in(&patched::tree()?, &target().join("patched/target"), &wanted)?,
        _ => build(&wanted)?,
    };
    let Some(programs) = built else { return Ok(false) };
    let program = programs
        .iter()
        .find(|program| program.target.name == request.program)
        .context("no such program was built")?;
    let mut command = Command::new(&program.path);
    // The program runs in another folder.
    for file in ["SCRIPT", "KEEP"] {
        if let Some(path) = std::env::var_os(file) {
            command.env(file, std::path::absolute(path)?);
        }
    }
    command.current_dir(&program.folder).args(["--exact", request.test, "--nocapture"]);
    if let Some(seeds) = request.seeds {
        command.env("SEEDS", seeds.to_string());
    }
    if let Some(first) = request.first {
        command.env("FIRST", first.to_string());
    }
    if request.hostile {
        command.env("HOSTILE", HOSTILE);
    }
    told(&mut command, request.result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, seed: Option<&str>) -> Result<Request> {
        Request::read(&text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>(), seed, false)
    }

    #[test]
    fn what_is_played_is_what_was_asked() {
        let seeds = read("--seeds 200 --from 7", None).unwrap();
        assert_eq!((seeds.test, seeds.seeds, seeds.first), ("seeds::seeds", Some(200), Some(7)));
        let network = read("--network --seeds 3", None).unwrap();
        assert_eq!((network.program, network.seeds), ("net", Some(3)));
        assert_eq!(read("--network", Some("7")).unwrap().test, "seeds::replay");
        assert!(read("--network --mutants", None).is_err());
        assert!(read("--hostile --seeds 3", None).unwrap().hostile && !seeds.hostile);
        for wrong in ["--hostile", "--hostile --mutants", "--hostile --network --seeds 3"] {
            assert!(read(wrong, None).is_err(), "{wrong}");
        }
        let mutants = read("--mutants", None).unwrap();
        assert_eq!((mutants.result, mutants.seeds), ("mutants caught", Some(MUTANT_SEEDS)));
        assert_eq!(read("", Some("12")).unwrap().test, "seeds::replay");
        assert_eq!(Request::read(&[], None, true).unwrap().test, "seeds::replay");
        for (wrong, seed) in
            [("", None), ("--seeds", None), ("--seeds x", None), ("--all", None), ("", Some("x"))]
        {
            assert!(read(wrong, seed).is_err(), "{wrong:?}");
        }
    }
}
