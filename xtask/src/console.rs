//! Elastic-Job's released console API for the tests, and our program for it: fetched from Maven Central and compiled once, below
//! `target/console`.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::{is_installed, must, root, target};

/// The package that compiles it; suites that name it get the console.
pub(crate) const JDK: &str = "default-jdk-headless";
const PROJECT: &str = "tests/cluster/console";
/// Marks a complete build, with its sources.
const DONE: &str = "sources";

/// Builds it unless it is there for the current sources. Maven does not look up what it has fetched.
pub(crate) fn setup() -> Result<()> {
    let folder = target().join("console");
    let read = |file: &str| std::fs::read_to_string(root().join(PROJECT).join(file));
    let sources = read("pom.xml")? + &read("src/main/java/rosterd/console/Console.java")?;
    if std::fs::read_to_string(folder.join(DONE)).is_ok_and(|done| done == sources) {
        println!("    Elastic-Job's console: ready ({})", folder.display());
        return Ok(());
    }
    if !is_installed("mvn") || !is_installed("javac") {
        println!(
            "    Elastic-Job's console: Maven or a Java compiler is missing; tests that need it will fail:"
        );
        println!("    $ sudo apt-get install default-jdk-headless maven");
        return Ok(());
    }
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--strict-checksums", "--file"]);
    maven.arg(root().join(PROJECT).join("pom.xml")).arg(format!("-Dout={}", folder.display()));
    must(maven.args(["compile", "dependency:copy-dependencies"])).context(
        "Elastic-Job's console cannot be fetched from Maven Central or compiled: see what Maven says above",
    )?;
    std::fs::write(folder.join(DONE), sources)?;
    Ok(())
}
