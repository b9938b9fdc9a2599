//! `cargo xtask bench`: the benchmarks, with the program as it is released. Arguments go to the harness.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::clients;
use crate::command::{built, cargo, is_installed, must, root, succeeds, target};
use crate::release::DIST;

/// The harness: a package of its own in `tests/bench`.
const HARNESS: &str = "rosterd-bench";

/// Runs the harness; whether it went well.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    let against = arguments.iter().skip_while(|argument| *argument != "--against").nth(1);
    match against.map(String::as_str) {
        Some("elasticjob") => java("elasticjob", "Elastic-Job")?,
        Some("quartz") => java("quartz", "Quartz")?,
        _ => {}
    }
    if measures_clients(arguments) {
        clients::table()?;
    }
    // It starts the shipped program: built first, and separately, so that it contains nothing that only the harness
    // needs.
    built(DIST)?;
    succeeds(cargo().args(["run", "--profile", DIST, "--package", HARNESS, "--"]).args(arguments))
}

/// Whether the clients' own figures are requested by name; otherwise the workers in five languages are not built.
fn measures_clients(arguments: &[String]) -> bool {
    let mut words = arguments.iter().skip_while(|argument| *argument != "--only").skip(1);
    let asked = words.next().is_some_and(|names| names.split(',').any(|name| name == "clients"));
    asked && !arguments.iter().any(|argument| argument == "--client")
}

/// A released scheduler and our program for it, below `target`. Maven does not look up what is there.
fn java(folder: &str, name: &str) -> Result<()> {
    if !is_installed("mvn") || !is_installed("javac") {
        bail!("{name} needs Maven and a Java compiler: sudo apt-get install default-jdk-headless maven");
    }
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--strict-checksums", "--file"]);
    maven.arg(root().join("tests/bench").join(folder).join("pom.xml"));
    maven.arg(format!("-Dout={}", target().join(folder).display()));
    must(maven.args(["compile", "dependency:copy-dependencies"])).with_context(|| {
        format!("{name} cannot be fetched from Maven Central or compiled: see what Maven says above")
    })
}
