//! The tasks of developers and build machines: `cargo xtask …`. The only place with the setup of a fresh machine. It
//! never changes sources, except the pages of the guide that are generated from them.

#![allow(clippy::disallowed_methods, reason = "a tool measures time and reads what cargo sets")]

mod bench;
mod book;
mod changed;
mod check;
mod clients;
mod command;
mod conformance;
mod console;
mod docs;
mod fuzz;
mod go;
mod helm;
mod java;
#[cfg(test)]
mod links;
mod manifests;
mod metadata;
mod mutants;
mod node;
mod patched;
mod prose;
mod python;
mod quick;
mod readme;
mod recording;
mod release;
mod setup;
mod sim;
mod suites;
mod summary;
mod test;
mod tools;
mod web;
mod zookeeper;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND

  test [--only SUITE[,SUITE]] [--changed[=REVISION]] [--seeds N] [--release] [-- ARGUMENTS]
                       everything that must pass: setup, builds, checks, all suites; ARGUMENTS go to each test program.
                       --changed: only the suites that a change can reach, uncommitted or since REVISION (without one:
                       since origin/main, where there is such a branch); --seeds: how many the simulation plays;
                       cluster, console and the clients try the program as README builds it, but where a test puts
                       faults into it; --release: it too, and all of them the program as it is released
  quick [--seeds N]    after an edit, within a minute: the unit tests of the crates with uncommitted changes, and
                       200 seeds of the simulation if one of them is part of it
  check                formatting, lints, dependencies, the clients' own linters, what registries ask of the packages
  setup                what the tests need on this machine: Debian packages (as root), Python environment,
                       packages of Node.js and Maven, modules of Go, the ZooKeeper server
  sim --seeds N        N seeds of the simulation, with progress; --from SEED. SEED=N cargo xtask sim, or
                       SCRIPT=FILE cargo xtask sim: one again
  sim --network …      the same with the real network stack, in a simulated network
  sim --mutants        each guard switched off, and what finds it
  fuzz --seconds N     fuzzing with ever new inputs; --target TARGET
  mutants [--shard K/N] [--file GLOB]
                       changes the domain in one place after the other: does a test notice? All of it takes hours
  bench [ARGUMENTS]    the benchmarks, with the program as it is released: the first build takes a quarter of an hour
  console              build the web console into console/dist, which is committed
  docs                 write the guide's generated pages again, and build the book into target/book
  helm                 the chart in deploy/helm: linted and rendered by helm, held against the types of Kubernetes;
                       needs Go, and compiles helm where there is none (minutes)
  readme [--clean]     does what README's first section says, block by block, on a bare Debian that debootstrap makes
                       (as root; some ten minutes); --clean, or where that is refused: in an empty home on this machine
  recording            the moving picture of README, from a real run (needs asciinema and npm; port 7700)
  release [--dry-run] [--version X]
                       all that a release consists of, into target/release-X, and a table of it; pushes nothing.
                       Without --dry-run only of a clean tree that is tagged vX
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        print!("{USAGE}\nSuites of `test`:\n{}", suites::list());
        return ExitCode::from(2);
    };
    let done = match (command.as_str(), rest) {
        // Called by `mutants` itself.
        (mutants::QUICK_FIRST, rest) => {
            return mutants::quick_first(rest).unwrap_or_else(|error| {
                eprintln!("xtask: {error:#}");
                ExitCode::from(101)
            });
        }
        ("mutants", rest) => mutants::main(rest),
        ("test", rest) => test::main(rest),
        ("quick", rest) => quick::main(rest),
        ("check", []) => check::main(),
        ("setup", []) => setup::everything().map(|()| true),
        ("sim", rest) => sim::main(rest),
        ("fuzz", rest) => fuzz::main(rest),
        ("bench", rest) => bench::main(rest),
        ("console", []) => web::build(),
        ("docs", []) => docs::main(),
        ("release", rest) => release::main(rest),
        ("recording", []) => recording::main(),
        (book::PREPROCESSOR, rest) => book::preprocess(rest),
        ("readme", rest) => readme::main(rest),
        ("helm", []) => helm::run().map(|()| true),
        ("help" | "-h" | "--help", _) => {
            print!("{USAGE}\nSuites of `test`:\n{}", suites::list());
            Ok(true)
        }
        _ => {
            eprintln!("xtask: cannot understand {arguments:?}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
