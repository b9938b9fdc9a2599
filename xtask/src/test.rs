//! `cargo xtask test`: setup, one build, then the suites in order. Its last line says how many tests passed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::command::{cargo, must, shown, target, watched};
use crate::metadata::{Program, build, targets};
use crate::suites::{Kind, Pick, SEEDS, Suite, build_arguments, chosen};
use crate::summary::{Tally, not_run, rust};
use crate::{check, python, setup};

/// What was asked.
struct Request {
    only: Vec<String>,
    /// The program that is tried is the one that is shipped, wherever a test needs none of its own.
    release: bool,
    /// Passed on to each test program.
    rest: Vec<String>,
}

impl Request {
    fn read(arguments: &[String]) -> Result<Self> {
        let mut request = Self { only: Vec::new(), release: false, rest: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let names = match (argument.as_str(), argument.strip_prefix("--only=")) {
                ("--", _) => {
                    request.rest = arguments.cloned().collect();
                    break;
                }
                ("--release", _) => {
                    request.release = true;
                    continue;
                }
                ("--only", _) => arguments.next().map(String::as_str),
                (_, names) => names,
            };
            let Some(names) = names else {
                bail!("{argument:?}: write `test [--only SUITE[,SUITE]] [--release] [-- ARGUMENTS]`")
            };
            request.only.extend(names.split(',').map(ToOwned::to_owned));
        }
        Ok(request)
    }
}

/// What became of a suite.
struct Done {
    name: &'static str,
    tally: Tally,
    took: Duration,
    /// Why it counts as failed although no test says so, or was passed over.
    note: Option<String>,
}

/// Runs what was asked; whether all of it went well.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    let request = Request::read(arguments)?;
    let suites = chosen(&request.only)?;
    let begin = Instant::now();
    heading("setup");
    let mut all: Vec<Done> = Vec::new();
    let ships = |suite: &Suite| request.release || suite.shipped;
    let shipped = if suites.iter().any(ships) { Some(shipped()?) } else { None };
    let ready = setup::for_suites(&suites).and_then(|()| programs(&suites));
    match ready {
        Err(error) => all.push(broken("setup", begin.elapsed(), format!("{error:#}"))),
        Ok(None) => all.push(broken("build", begin.elapsed(), "the tests cannot be built".into())),
        Ok(Some(programs)) => {
            for (number, suite) in suites.iter().enumerate() {
                heading(&format!("{} ({} of {}): {}", suite.name, number + 1, suites.len(), suite.what));
                let shipped = shipped.as_deref().filter(|_| ships(suite));
                let done = run(suite, &programs, shipped, &request.rest);
                println!("    {}: {} in {}", done.name, done.tally, seconds(done.took));
                all.push(done);
            }
        }
    }
    Ok(close(&all, begin.elapsed()))
}

/// Builds what the suites run, all at once but for those with profiles of their own.
fn programs(suites: &[Suite]) -> Result<Option<Vec<Program>>> {
    let known = targets()?;
    let built = |suite: &&Suite| match suite.kind {
        Kind::Programs(picks) => picks.iter().any(|pick| known.iter().any(|target| pick.takes(target))),
        Kind::Check | Kind::Doctests | Kind::Python => false,
    };
    let suites = suites.iter().filter(built).copied();
    let suites: Vec<Suite> = suites.collect();
    let profiles: BTreeSet<Option<&str>> = suites.iter().map(|suite| suite.profile).collect();
    let mut programs = Vec::new();
    for profile in profiles {
        let of: Vec<Suite> = suites.iter().filter(|suite| suite.profile == profile).copied().collect();
        heading(&format!("build{}", profile.map(|name| format!(", profile {name}")).unwrap_or_default()));
        let mut arguments = build_arguments(&of);
        arguments.extend(profile.into_iter().flat_map(|name| ["--profile".to_owned(), name.to_owned()]));
        match build(&arguments)? {
            Some(built) => programs.extend(built),
            None => return Ok(None),
        }
    }
    Ok(Some(programs))
}

/// The program as it is shipped, built now.
fn shipped() -> Result<PathBuf> {
    heading("build of the program that is shipped");
    must(cargo().args(["build", "--release", "--package", "rosterd", "--bin", "rosterd"]))?;
    Ok(target().join("release/rosterd"))
}

fn run(suite: &Suite, programs: &[Program], shipped: Option<&Path>, rest: &[String]) -> Done {
    let begin = Instant::now();
    let result = match suite.kind {
        Kind::Check => check::run().map(|failed| (Tally { failed, ..Tally::default() }, None)),
        Kind::Programs(picks) => run_programs(picks, programs, shipped, rest),
        Kind::Doctests => {
            let mut command = cargo();
            command.args(["test", "--workspace", "--doc", "--no-fail-fast", "--"]).args(rest);
            counted(&mut command, Summaries::All).map(|tally| (tally, None))
        }
        Kind::Python => python::test(rest).map(|tally| match tally {
            Some(tally) => (tally, None),
            None => (Tally::default(), Some("not there yet: clients/python".to_owned())),
        }),
    };
    match result {
        Ok((tally, note)) => Done { name: suite.name, tally, took: begin.elapsed(), note },
        Err(error) => broken(suite.name, begin.elapsed(), format!("{error:#}")),
    }
}

fn run_programs(
    picks: &[Pick],
    programs: &[Program],
    shipped: Option<&Path>,
    rest: &[String],
) -> Result<(Tally, Option<String>)> {
    let mut tally = Tally::default();
    let mut ran = false;
    for program in programs.iter().filter(|program| picks.iter().any(|pick| pick.takes(&program.target))) {
        ran = true;
        let mut command = Command::new(&program.path);
        command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder).args(rest);
        command.env("RUST_BACKTRACE", "1");
        if std::env::var_os(SEEDS.0).is_none() {
            command.env(SEEDS.0, SEEDS.1);
        }
        if let Some(shipped) = shipped {
            command.env("ROSTERD_BINARY", shipped);
        }
        println!("    {} {} {}", program.target.package, program.target.kind, program.target.name);
        tally += counted(&mut command, Summaries::Last)?;
    }
    if !ran {
        return Ok((tally, Some("not there yet: cargo knows no such test target".to_owned())));
    }
    if tally == Tally::default() && rest.is_empty() {
        bail!("no test ran: the programs hold none");
    }
    Ok((tally, None))
}

/// Which summaries of a program count.
#[derive(Clone, Copy)]
enum Summaries {
    /// A test program: what it says at its end. A failed test may show those of its own child processes before.
    Last,
    /// A cargo that runs several.
    All,
}

/// Runs a test program. One that ends badly without saying that a test failed counts as one failed.
fn counted(command: &mut Command, which: Summaries) -> Result<Tally> {
    let mut counts = Counts::default();
    let status = watched(command, &mut |line| counts.take(line, which))?;
    if !status.success() && counts.tally.failed == 0 {
        println!("    {status}: {}", shown(command));
        counts.tally.failed = 1;
    }
    for test in &counts.not_run {
        println!("    not run: {test}");
    }
    Ok(counts.tally.without(counts.not_run.len() as u64))
}

/// What a test program has said so far.
#[derive(Default)]
struct Counts {
    tally: Tally,
    not_run: Vec<String>,
}

impl Counts {
    fn take(&mut self, line: &str, which: Summaries) {
        self.not_run.extend(not_run(line).map(ToOwned::to_owned));
        match (rust(line), which) {
            (Some(said), Summaries::Last) => self.tally = said,
            (Some(said), Summaries::All) => self.tally += said,
            (None, _) => {}
        }
    }
}

fn broken(name: &'static str, took: Duration, note: String) -> Done {
    Done { name, tally: Tally { failed: 1, ..Tally::default() }, took, note: Some(note) }
}

/// The table of suites, and the line that programs read.
fn close(all: &[Done], took: Duration) -> bool {
    heading(&format!("all suites, {}", seconds(took)));
    let mut sum = Tally::default();
    for Done { name, tally, took, note } in all {
        let mark = if tally.failed > 0 { "FAILED" } else { "ok" };
        let note = note.as_ref().map_or(String::new(), |note| format!("  {note}"));
        println!(
            "    {name:<9} {mark:<6} {:>5} passed {:>3} failed {:>3} not run {:>9}{note}",
            tally.passed,
            tally.failed,
            tally.not_run,
            seconds(*took)
        );
        sum += *tally;
    }
    // `--only check` holds no tests; everything else must.
    let only_checks = all.iter().all(|done| done.name == "check");
    println!("\n{sum}");
    sum.failed == 0 && (sum.passed > 0 || only_checks)
}

fn heading(text: &str) {
    println!("\n=== {text}");
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn suites_and_the_rest_are_told_apart() {
        let request = Request::read(&words("--only sim,edge --only=cli -- seed --nocapture")).unwrap();
        assert_eq!(request.only, ["sim", "edge", "cli"]);
        assert_eq!(request.rest, ["seed", "--nocapture"]);
        assert!(!request.release);
        let request = Request::read(&words("--release --only cluster -- kill")).unwrap();
        assert!(request.release && request.only == ["cluster"] && request.rest == ["kill"]);
        assert!(Request::read(&words("sim")).is_err());
        assert!(Request::read(&words("--only")).is_err());
    }

    #[test]
    fn nothing_passed_is_no_success() {
        let done = |name, passed, failed| Done {
            name,
            tally: Tally { passed, failed, not_run: 0 },
            took: Duration::ZERO,
            note: None,
        };
        assert!(close(&[done("unit", 3, 0), done("it", 0, 0)], Duration::ZERO));
        assert!(!close(&[done("unit", 3, 1)], Duration::ZERO));
        assert!(!close(&[done("it", 0, 0)], Duration::ZERO));
        assert!(close(&[done("check", 0, 0)], Duration::ZERO));
    }

    #[test]
    fn a_program_that_dies_without_a_summary_has_failed() {
        let dies = |script: &str| counted(Command::new("sh").args(["-c", script]), Summaries::Last).unwrap();
        assert_eq!(dies("kill -9 $$"), Tally { passed: 0, failed: 1, not_run: 0 });
        let summary = "echo 'test result: FAILED. 2 passed; 3 failed; 0 ignored'; exit 101";
        assert_eq!(dies(summary), Tally { passed: 2, failed: 3, not_run: 0 });
        let of_a_child =
            "echo 'test result: FAILED. 0 passed; 1 failed'; echo 'test result: ok. 2 passed; 0 failed'";
        assert_eq!(dies(of_a_child), Tally { passed: 2, failed: 0, not_run: 0 });
    }

    /// Only taken in, not printed: who runs these tests counts such lines as well.
    #[test]
    fn a_test_that_says_that_it_does_not_run_has_not_passed() {
        let mut counts = Counts::default();
        for line in ["NOT RUN: a: needs root\n", "test a ... ok\n", "test result: ok. 2 passed; 0 failed\n"] {
            counts.take(line, Summaries::Last);
        }
        assert_eq!(counts.not_run, ["a: needs root"]);
        assert_eq!(counts.tally.without(1), Tally { passed: 1, failed: 0, not_run: 1 });
    }
}
