//! `cargo xtask test`: setup and builds, then the suites: compute-bound ones concurrently with those that wait. Its
//! last line has the number of passed tests.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::command::{built, cargo, locked, seconds, shown, target, watched, yield_to_all};
use crate::metadata::{FEATURES, PROFILE, Program, Target, build, targets};
use crate::release::DIST;
use crate::suites::{Lane, Pick, SEEDS, Suite, SuiteKind, build_arguments, chosen};
use crate::summary::{Tally, not_run, rust, timed};
use crate::{changed, check, clients, conformance, go, java, node, python, setup, web};

/// The request.
#[derive(Default)]
struct Request {
    only: Vec<String>,
    /// Only suites that a change since this revision can affect.
    changed: Option<String>,
    /// Test the shipped program, as it is released, unless a test needs its own build.
    release: bool,
    /// How many seeds the simulation plays.
    seeds: Option<String>,
    /// Passed on to each test program.
    rest: Vec<String>,
}

const WRITE: &str =
    "write `test [--only SUITE[,SUITE]] [--changed[=REVISION]] [--seeds N] [--release] [-- ARGUMENTS]`";

impl Request {
    fn read(arguments: &[String]) -> Result<Self> {
        let mut request = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            match name {
                "--" => {
                    request.rest = arguments.cloned().collect();
                    break;
                }
                "--release" => request.release = true,
                "--changed" => request.changed = Some(value.unwrap_or_default()),
                "--only" | "--seeds" => {
                    let Some(value) = value.or_else(|| arguments.next().cloned()) else {
                        bail!("{argument} needs a value: {WRITE}")
                    };
                    match name {
                        "--only" => request.only.extend(value.split(',').map(ToOwned::to_owned)),
                        _ if value.parse::<u64>().is_ok() => request.seeds = Some(value),
                        _ => bail!("--seeds is {value:?}, which is not a number: {WRITE}"),
                    }
                }
                _ => bail!("unknown argument {argument:?}: {WRITE}"),
            }
        }
        Ok(request)
    }

    fn suites(&self) -> Result<Vec<Suite>> {
        let suites = chosen(&self.only)?;
        let Some(since) = &self.changed else { return Ok(suites) };
        let reached = changed::suites(since)?;
        Ok(suites.into_iter().filter(|suite| reached.contains(suite.name)).collect())
    }
}

/// The result of a suite.
struct Done {
    name: &'static str,
    tally: Tally,
    took: Duration,
    /// Why it counts as failed although no test failed, or was skipped.
    note: Option<String>,
}

/// Runs the request; whether all of it succeeded.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    let request = Request::read(arguments)?;
    let suites = request.suites()?;
    if suites.is_empty() {
        println!("the changes affect no suite\n\n{}", Tally::default());
        return Ok(true);
    }
    let mut split = Split::new();
    let ships = |suite: &Suite| request.release || suite.shipped;
    let profile = if request.release { DIST } else { "release" };
    // Downloads run during the compilation.
    let (ready, built) = std::thread::scope(|scope| {
        let setup = scope.spawn(|| setup::for_suites(&suites));
        let shipped = suites.iter().any(ships).then(|| shipped(profile)).transpose();
        split.ended("build of the program that is shipped");
        let programs = shipped.and_then(|shipped| Ok((shipped, programs(&suites)?)));
        split.ended("build of the tests");
        let setup = setup.join().unwrap_or_else(|_| bail!("setup panicked"));
        split.ended("setup, beyond the builds");
        (setup, programs)
    });
    // Before the lanes: the suites of a client build into the same folders.
    let ready = ready.and_then(|()| match suites.iter().any(|suite| suite.workers) {
        true => clients::workers().map(drop),
        false => Ok(()),
    });
    split.ended("build of the clients' workers");
    let all = match ready.and(built) {
        Err(error) => vec![broken("build", split.begin.elapsed(), format!("{error:#}"))],
        Ok((_, None)) => vec![broken("build", split.begin.elapsed(), "the tests cannot be built".into())],
        Ok((shipped, Some(programs))) => {
            let run = SuiteRun { programs, shipped, request: &request };
            lanes(&suites, |suite, mark| run.suite(suite, mark, run.request.release || suite.shipped))
        }
    };
    split.ended("suites");
    Ok(close(&all, &split))
}

/// Where the time went.
struct Split {
    begin: Instant,
    last: Instant,
    parts: Vec<(&'static str, Duration)>,
}

impl Split {
    fn new() -> Self {
        Self { begin: Instant::now(), last: Instant::now(), parts: Vec::new() }
    }

    fn ended(&mut self, part: &'static str) {
        self.parts.push((part, self.last.elapsed()));
        self.last = Instant::now();
    }
}

/// Runs suites of different lanes concurrently, compute-bound ones two at a time on the cores that the others leave.
/// Returns the results in the order in which they ended; with a single lane, in the given order.
fn lanes(suites: &[Suite], run: impl Fn(&Suite, &str) -> Done + Sync) -> Vec<Done> {
    let of = |lane: Lane| suites.iter().filter(move |suite| suite.lane == lane).collect::<VecDeque<_>>();
    let lanes = [Lane::Waits, Lane::Clients, Lane::Computes].map(|lane| (lane, Mutex::new(of(lane))));
    let beside = lanes.iter().filter(|(_, suites)| !locked(suites).is_empty()).count() > 1;
    let all = Mutex::new(Vec::new());
    let play = |lane: Lane, suites: &Mutex<VecDeque<&Suite>>| {
        if beside && lane == Lane::Computes {
            yield_to_all();
        }
        loop {
            // The lock ends before the suite begins.
            let Some(suite) = locked(suites).pop_front() else { return };
            let mark = if beside { format!("{:<9}| ", suite.name) } else { String::new() };
            heading(&format!("{}: {}", suite.name, suite.what));
            let done = run(suite, &mark);
            println!("{mark}    {}: {} in {}", done.name, done.tally, seconds(done.took));
            locked(&all).push(done);
        }
    };
    std::thread::scope(|scope| {
        for (lane, suites) in &lanes {
            // A check is seldom busy on two cores, and the simulation fills what it leaves.
            for _ in 0..if beside && *lane == Lane::Computes { 2 } else { 1 } {
                scope.spawn(|| play(*lane, suites));
            }
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Builds all programs of the suites together.
fn programs(suites: &[Suite]) -> Result<Option<Vec<Program>>> {
    let known = targets()?;
    let built = |suite: &&Suite| match suite.kind {
        SuiteKind::Programs(picks) => picks.iter().any(|pick| known.iter().any(|target| pick.takes(target))),
        SuiteKind::Check
        | SuiteKind::Doctests
        | SuiteKind::Python
        | SuiteKind::Node
        | SuiteKind::Conformance
        | SuiteKind::Go
        | SuiteKind::Java
        | SuiteKind::Console => false,
    };
    let suites: Vec<Suite> = suites.iter().filter(built).copied().collect();
    if suites.is_empty() {
        return Ok(Some(Vec::new()));
    }
    heading("build of the tests");
    build(&build_arguments(&suites))
}

/// The shipped program, built now; in a separate place, since cargo builds the tests' program to its own.
fn shipped(profile: &str) -> Result<PathBuf> {
    heading("build of the program that is shipped");
    let program = built(profile)?;
    let folder = target().join("shipped");
    std::fs::create_dir_all(&folder)?;
    let place = folder.join("rosterd");
    // Never overwritten: the previous one may still be running.
    let aside = folder.join("rosterd.new");
    std::fs::copy(program, &aside)?;
    std::fs::rename(&aside, &place)?;
    Ok(place)
}

/// State that the suites of one call share.
struct SuiteRun<'a> {
    programs: Vec<Program>,
    shipped: Option<PathBuf>,
    request: &'a Request,
}

impl SuiteRun<'_> {
    fn suite(&self, suite: &Suite, mark: &str, ships: bool) -> Done {
        let begin = Instant::now();
        let rest = &self.request.rest;
        let result = match suite.kind {
            SuiteKind::Check => check::run().map(|tally| (tally, None)),
            SuiteKind::Programs(picks) => {
                let shipped = self.shipped.as_deref().filter(|_| ships);
                self.run_programs(suite, picks, shipped, mark)
            }
            SuiteKind::Doctests => doctests(rest, mark).map(|tally| (tally, None)),
            SuiteKind::Node => node::test(self.shipped.as_deref(), mark, rest).map(|tally| (tally, None)),
            SuiteKind::Conformance => {
                conformance::test(self.shipped.as_deref(), mark, rest).map(|tally| (tally, None))
            }
            SuiteKind::Go => go::test(self.shipped.as_deref(), mark, rest).map(|tally| (tally, None)),
            SuiteKind::Console => web::test(self.shipped.as_deref(), mark, rest).map(|tally| (tally, None)),
            SuiteKind::Java => java::test(self.shipped.as_deref(), mark, rest).map(|tally| (tally, None)),
            SuiteKind::Python => python::test(mark, rest).map(|tally| match tally {
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
        &self,
        suite: &Suite,
        picks: &[Pick],
        shipped: Option<&Path>,
        mark: &str,
    ) -> Result<(Tally, Option<String>)> {
        let mut tally = Tally::default();
        let mut ran = false;
        let picked = |program: &&Program| picks.iter().any(|pick| pick.takes(&program.target));
        for program in self.programs.iter().filter(picked) {
            ran = true;
            let mut command = Command::new(&program.path);
            command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
            command
                .args(suite.arguments)
                .args(&self.request.rest)
                .args(TIMED.1)
                .env(TIMED.0, "1")
                .env("RUST_BACKTRACE", "1");
            if let Some(threads) = suite.threads {
                command.env("RUST_TEST_THREADS", threads);
            }
            match &self.request.seeds {
                Some(seeds) => drop(command.env(SEEDS.0, seeds)),
                None if std::env::var_os(SEEDS.0).is_none() => drop(command.env(SEEDS.0, SEEDS.1)),
                None => {}
            }
            if let Some(shipped) = shipped {
                command.env("ROSTERD_BINARY", shipped);
            }
            if suite.s3 {
                let (variable, server) = python::s3_server();
                command.env(variable, server);
            }
            if suite.workers {
                command.env("ROSTERD_CLIENTS", clients::table()?);
            }
            let Target { package, kind, name } = &program.target;
            println!("{mark}    {package} {kind} {name}");
            tally += counted(&mut command, Summaries::Last, mark)?;
        }
        if !ran {
            return Ok((tally, Some("not there yet: cargo knows no such test target".to_owned())));
        }
        if tally == Tally::default() && self.request.rest.is_empty() {
            bail!("no test ran: the programs contain none");
        }
        Ok((tally, None))
    }
}

/// The test harness prints the time of each test only with unstable options; it is for display only.
const TIMED: (&str, [&str; 3]) = ("RUSTC_BOOTSTRAP", ["-Z", "unstable-options", "--report-time"]);

fn doctests(rest: &[String], mark: &str) -> Result<Tally> {
    let mut command = cargo();
    command
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .args(PROFILE)
        .args(FEATURES)
        .arg("--")
        .args(rest);
    counted(&mut command, Summaries::All, mark)
}

/// Which summaries of a program count.
#[derive(Clone, Copy)]
enum Summaries {
    /// A test program: the last one. A failed test may print those of its child processes before.
    Last,
    /// A cargo that runs several.
    All,
}

/// Runs a test program. An error exit without a failed test counts as one failed.
fn counted(command: &mut Command, which: Summaries, mark: &str) -> Result<Tally> {
    let mut counts = Counts::default();
    let begin = Instant::now();
    let status = watched(command, mark, &mut |line| counts.take(line, which))?;
    if !status.success() && counts.tally.failed == 0 {
        println!("{mark}    {status}: {}", shown(command));
        counts.tally.failed = 1;
    }
    for test in &counts.not_run {
        println!("{mark}    not run: {test}");
    }
    for line in slowest(&mut counts.times, begin.elapsed()) {
        println!("{mark}    {line}");
    }
    Ok(counts.tally.without(counts.not_run.len() as u64))
}

/// How many of a program's tests are shown with their times.
const SLOWEST: usize = 10;
/// Faster tests, in seconds, are not shown.
const SHORT: f64 = 0.1;

fn slowest(times: &mut [(String, f64)], took: Duration) -> Vec<String> {
    times.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let long = times.iter().filter(|(_, time)| *time >= SHORT).take(SLOWEST);
    let all = format!("{:>7.1} s  for all {}; the slowest:", took.as_secs_f64(), times.len());
    std::iter::once(all).chain(long.map(|(name, time)| format!("{time:>7.1} s  {name}"))).collect()
}

/// The output of a test program so far.
#[derive(Default)]
struct Counts {
    tally: Tally,
    not_run: Vec<String>,
    times: Vec<(String, f64)>,
}

impl Counts {
    fn take(&mut self, line: &str, which: Summaries) {
        self.not_run.extend(not_run(line).map(ToOwned::to_owned));
        self.times.extend(timed(line));
        match (rust(line), which) {
            (Some(said), Summaries::Last) => {
                let so_far = std::mem::take(&mut self.tally);
                self.tally = Tally { passed: said.passed, failed: said.failed, ..so_far };
            }
            (Some(said), Summaries::All) => self.tally += said,
            (None, _) => self.tally.read(line),
        }
    }
}

fn broken(name: &'static str, took: Duration, note: String) -> Done {
    Done { name, tally: Tally { failed: 1, ..Tally::default() }, took, note: Some(note) }
}

/// The table of suites with their times, and the line that programs parse.
fn close(all: &[Done], split: &Split) -> bool {
    heading(&format!("all suites, {}", seconds(split.begin.elapsed())));
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
        sum += tally.clone();
    }
    println!();
    // At the end, where a reader finds them.
    for Done { name, tally, .. } in all.iter().filter(|done| done.tally.failed > 0) {
        for test in &tally.names {
            println!("    FAILED  {name}: {test}");
        }
        for line in &tally.said {
            println!("            {line}");
        }
    }
    for (part, took) in &split.parts {
        println!("    {:>9}  {part}", seconds(*took));
    }
    // `--only check` holds no tests; everything else must.
    let only_checks = all.iter().all(|done| done.name == "check");
    println!("\n{sum}");
    sum.failed == 0 && (sum.passed > 0 || only_checks)
}

fn heading(text: &str) {
    println!("\n=== {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(passed: u64, failed: u64, not_run: u64) -> Tally {
        Tally { passed, failed, not_run, ..Tally::default() }
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn suites_and_the_rest_are_distinguished() {
        let request = Request::read(&words("--only sim,edge --only=cli -- seed --nocapture")).unwrap();
        assert_eq!(request.only, ["sim", "edge", "cli"]);
        assert_eq!(request.rest, ["seed", "--nocapture"]);
        assert!(!request.release);
        let request = Request::read(&words("--release --only cluster -- kill")).unwrap();
        assert!(request.release && request.only == ["cluster"] && request.rest == ["kill"]);
        assert_eq!(Request::read(&words("--changed")).unwrap().changed.as_deref(), Some(""));
        assert_eq!(Request::read(&words("--changed=HEAD~3")).unwrap().changed.as_deref(), Some("HEAD~3"));
        assert_eq!(Request::read(&words("--seeds 200")).unwrap().seeds.as_deref(), Some("200"));
        for wrong in ["sim", "--only", "--seeds", "--seeds x", "--all"] {
            assert!(Request::read(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_passed_is_not_a_success() {
        let done = |name, passed, failed| Done {
            name,
            tally: Tally { passed, failed, ..Tally::default() },
            took: Duration::ZERO,
            note: None,
        };
        let close = |all: &[Done]| close(all, &Split::new());
        assert!(close(&[done("unit", 3, 0), done("it", 0, 0)]));
        assert!(!close(&[done("unit", 3, 1)]));
        assert!(!close(&[done("it", 0, 0)]));
        assert!(close(&[done("check", 0, 0)]));
    }

    #[test]
    fn a_program_that_dies_without_a_summary_has_failed() {
        let dies =
            |script: &str| counted(Command::new("sh").args(["-c", script]), Summaries::Last, "").unwrap();
        assert_eq!(dies("kill -9 $$"), of(0, 1, 0));
        let summary = "echo 'test result: FAILED. 2 passed; 3 failed; 0 ignored'; exit 101";
        assert_eq!(dies(summary), of(2, 3, 0));
        let of_a_child =
            "echo 'test result: FAILED. 0 passed; 1 failed'; echo 'test result: ok. 2 passed; 0 failed'";
        assert_eq!(dies(of_a_child), of(2, 0, 0));
    }

    /// Only parsed, not printed: the runner of these tests counts such lines as well.
    #[test]
    fn a_test_that_says_that_it_does_not_run_has_not_passed() {
        let mut counts = Counts::default();
        for line in ["NOT RUN: a: needs root\n", "test a ... ok\n", "test result: ok. 2 passed; 0 failed\n"] {
            counts.take(line, Summaries::Last);
        }
        assert_eq!(counts.not_run, ["a: needs root"]);
        assert_eq!(counts.tally.without(1), of(1, 0, 1));
    }

    #[test]
    fn the_slowest_tests_are_shown_and_the_short_ones_are_not() {
        let mut times: Vec<_> = (0..20).map(|n| (format!("t{n}"), f64::from(n) / 5.0)).collect();
        let lines = slowest(&mut times, Duration::from_secs(9));
        assert_eq!((lines.len(), lines[0].trim()), (11, "9.0 s  for all 20; the slowest:"));
        assert!(lines[1].ends_with("3.8 s  t19"), "{}", lines[1]);
        assert_eq!(slowest(&mut [("a".into(), 0.05)], Duration::from_secs(9)).len(), 1);
    }

    #[test]
    fn every_suite_of_each_lane_is_run_once() {
        let suites = chosen(&[]).unwrap();
        let ran = lanes(&suites, |suite, _| Done {
            name: suite.name,
            tally: Tally::default(),
            took: Duration::ZERO,
            note: None,
        });
        let mut names: Vec<_> = ran.iter().map(|done| done.name).collect();
        let mut all: Vec<_> = suites.iter().map(|suite| suite.name).collect();
        names.sort_unstable();
        all.sort_unstable();
        assert_eq!(names, all);
    }
}
