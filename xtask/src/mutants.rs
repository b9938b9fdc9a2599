//! `cargo xtask mutants`: mutates the domain in one place after the other and checks whether its tests notice. The last
//! line is the score; the missed mutants are listed above it. Not part of `test`: all of it takes hours.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::command::{cargo, must, root, succeeds, target};

const WRITE: &str = "write `mutants [--shard K/N] [--file GLOB] [-- ARGUMENTS FOR cargo mutants]`";
/// Another version generates other mutants, with another score.
const VERSION: &str = "27.1.0";
/// The command by which the tool lets this program run tests.
pub(crate) const QUICK_FIRST: &str = "quick-first";

/// Slow tests that take seconds each: they run only on mutants that the others missed.
const SLOW: &[&str] = &[
    "schedule::tests::change_days::every",
    "schedule::tests::quartz",
    "strategy::properties_test::sticky_makes_the_fewest",
    "verify::tests::many_runs",
];
/// The cases of each property before the slow tests run.
const FEW_CASES: &str = "24";
/// A mutant may loop or allocate forever. So the tests, first the quick ones and then all, get a limit of processor
/// seconds, several times what they normally take, and a limit of memory in KiB: beyond these they fail, and the load
/// of the machine does not affect the result.
const SECONDS: [u32; 2] = [20, 150];
const MEMORY: u32 = 6_000_000;
/// The timeout of the tool itself, in seconds.
const HANGS: &str = "3600";

/// The request.
#[derive(Debug, PartialEq, Eq, Default)]
struct Request {
    shard: Option<String>,
    file: Option<String>,
    more: Vec<String>,
}

impl Request {
    fn read(arguments: &[String]) -> Result<Self> {
        let (mut request, mut arguments) = (Self::default(), arguments.iter());
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().cloned().with_context(|| format!("{argument} needs a value: {WRITE}"));
            match argument.as_str() {
                "--shard" => {
                    let shard = value()?;
                    let numbers =
                        shard.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
                    if numbers.is_none_or(|(k, n): (u32, u32)| k >= n) {
                        bail!("--shard is {shard:?}: the first of four is 0/4, the last 3/4: {WRITE}");
                    }
                    request.shard = Some(shard);
                }
                "--file" => request.file = Some(value()?),
                "--" => request.more.extend(arguments.by_ref().cloned()),
                _ => bail!("unknown argument {argument:?}: {WRITE}"),
            }
        }
        Ok(request)
    }
}

/// Runs the request; whether the tests caught all mutants.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    let request = Request::read(arguments)?;
    let program = installed()?;
    let folder = target().join("mutants-of-domain");
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new(program);
    command.current_dir(root()).arg("mutants").args(["--package", "rosterd-domain"]);
    command.args(["--profile", "mutants", "--jobs", "1", "--no-shuffle", "--colors", "never"]);
    command.args(["--timeout", HANGS]);
    // In every phase: otherwise targets that are not tests are built too.
    command.args(["--cargo-arg", "--lib", "--cargo-arg"]).arg(runner()?).arg("--output").arg(&folder);
    for (name, value) in [("--shard", &request.shard), ("--file", &request.file)] {
        if let Some(value) = value {
            command.args([name, value]);
        }
    }
    command.args(&request.more);
    // Each copy of the sources finds the libraries built.
    command.env("CARGO_TARGET_DIR", folder.join("build"));
    let well = succeeds(&mut command)?;
    let outcomes = folder.join("mutants.out");
    let missed = std::fs::read_to_string(outcomes.join("missed.txt")).unwrap_or_default();
    if !missed.is_empty() {
        println!("\nno test noticed:\n{missed}");
    }
    println!("\n{}", score(&outcomes)?);
    Ok(well)
}

/// The tool, installed below `target` if it is missing.
fn installed() -> Result<PathBuf> {
    let tools = target().join("tools");
    let program = tools.join("bin/cargo-mutants");
    let said = Command::new(&program).args(["mutants", "--version"]).output();
    if said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim().ends_with(VERSION)) {
        return Ok(program);
    }
    let mut install = cargo();
    install.args(["install", "cargo-mutants", "--version", VERSION, "--locked", "--debug", "--force"]);
    install.arg("--root").arg(&tools).env("CARGO_TARGET_DIR", tools.join("build"));
    must(&mut install).context("cargo-mutants cannot be installed")?;
    Ok(program)
}

/// Makes cargo run the tests through this program.
fn runner() -> Result<String> {
    let me = std::env::current_exe()?;
    let words = serde_json::to_string(&[me.to_string_lossy().as_ref(), QUICK_FIRST])?;
    Ok(format!("--config=target.'cfg(all())'.runner={words}"))
}

/// Runs a test program for cargo; the slow tests only if the quick ones notice nothing. The first failure is enough: no
/// test is started after it, and its input is not shrunk.
pub(crate) fn quick_first(arguments: &[String]) -> Result<ExitCode> {
    if arguments.is_empty() {
        bail!("which program?");
    }
    let tests = |seconds: u32| {
        let bounded = format!("ulimit -t {seconds} && ulimit -v {MEMORY} && exec \"$@\"");
        let mut tests = Command::new("sh");
        tests.args(["-c", &bounded, "sh"]).args(arguments);
        tests.args(["-Zunstable-options", "--fail-fast"]).env("RUSTC_BOOTSTRAP", "1");
        tests.env("PROPTEST_MAX_SHRINK_ITERS", "0").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
        tests
    };
    let [few, all] = SECONDS;
    let mut quick = tests(few);
    quick.env("PROPTEST_CASES", FEW_CASES).args(SLOW.iter().flat_map(|slow| ["--skip", slow]));
    let well = quick.status()?.success() && tests(all).status()?.success();
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(101) })
}

/// The line with the result.
fn score(outcomes: &Path) -> Result<String> {
    let path = outcomes.join("outcomes.json");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let told: Value = serde_json::from_str(&text)?;
    let count = |name: &str| told[name].as_u64().with_context(|| format!("{} has no {name}", path.display()));
    let (caught, missed) = (count("caught")?, count("missed")?);
    let (unviable, timeout) = (count("unviable")?, count("timeout")?);
    Ok(format!("mutants of domain: caught {caught}, missed {missed}, unviable {unviable}, timeout {timeout}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Request> {
        Request::read(&text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_tried_is_what_was_asked() {
        assert_eq!(read("").unwrap(), Request::default());
        let request = read("--shard 2/8 --file src/domain/item.rs -- --list --diff").unwrap();
        assert_eq!(
            (request.shard.as_deref(), request.file.as_deref()),
            (Some("2/8"), Some("src/domain/item.rs"))
        );
        assert_eq!(request.more, ["--list", "--diff"]);
        for wrong in ["--shard", "--shard 8/8", "--shard x/2", "--shard 1", "--file", "--all"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_score_is_what_the_tool_counted() {
        let folder = std::env::temp_dir().join(format!("rosterd-score-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let told =
            r#"{"total_mutants": 10, "missed": 2, "caught": 5, "timeout": 1, "unviable": 2, "success": 0}"#;
        std::fs::write(folder.join("outcomes.json"), told).unwrap();
        let line = score(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(line.unwrap(), "mutants of domain: caught 5, missed 2, unviable 2, timeout 1");
    }
}
