//! `cargo xtask bench`: the benchmarks, in release. Arguments go to the harness.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::clients;
use crate::command::{cargo, is_installed, must, root, succeeds, target};

/// The harness: a package of its own in `tests/bench`.
const HARNESS: &str = "rosterd-bench";

/// Runs the harness; whether it went well.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    if arguments.iter().any(|argument| argument == "--against") {
        elastic_job()?;
    }
    if measures_clients(arguments) {
        clients::table()?;
    }
    // What it starts is the shipped program: built first, and apart, so that nothing is in it that the harness needs.
    if !succeeds(cargo().args(["build", "--release", "--package", "rosterd", "--bin", "rosterd"]))? {
        return Ok(false);
    }
    succeeds(cargo().args(["run", "--release", "--package", HARNESS, "--"]).args(arguments))
}

/// Whether the clients' own figures are asked for by name; elsewhere nobody waits until workers in five languages are built.
fn measures_clients(arguments: &[String]) -> bool {
    let mut words = arguments.iter().skip_while(|argument| *argument != "--only").skip(1);
    let asked = words.next().is_some_and(|names| names.split(',').any(|name| name == "clients"));
    asked && !arguments.iter().any(|argument| argument == "--client")
}

/// The released Elastic-Job and our program for it, below `target/elasticjob`. Maven looks nothing up that is there.
fn elastic_job() -> Result<()> {
    if !is_installed("mvn") || !is_installed("javac") {
        bail!("Elastic-Job needs Maven and a Java compiler: sudo apt-get install default-jdk-headless maven");
    }
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--strict-checksums", "--file"]);
    maven.arg(root().join("tests/bench/elasticjob/pom.xml"));
    maven.arg(format!("-Dout={}", target().join("elasticjob").display()));
    must(maven.args(["compile", "dependency:copy-dependencies"]))
        .context("Elastic-Job cannot be fetched from Maven Central or compiled: see what Maven says above")
}
