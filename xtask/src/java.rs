//! The Java client: its build tools, its tests, its linters. Maven fetches dependencies into its own cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::{is_installed, must, root, target};
use crate::python;
use crate::summary::{Tally, surefire, tallied};

/// Its build tools, and the servers for its tests.
pub(crate) const PACKAGES: &[&str] =
    &["default-jdk-headless", "maven", "openssl", "postgresql", "redis-server"];

/// Its modules that others use, and that are published.
pub(crate) const PUBLISHED: [&str; 3] =
    ["rosterd-client", "rosterd-elasticjob", "rosterd-spring-boot-starter"];

pub(crate) fn folder() -> PathBuf {
    root().join("clients/java")
}

pub(crate) fn maven(words: &[&str]) -> Command {
    let mut command = Command::new("mvn");
    command.current_dir(folder()).args(["--batch-mode", "--strict-checksums"]).args(words);
    command
}

/// The files that determine the fetched packages: the manifests of all modules.
fn manifests() -> Result<String> {
    let mut texts = std::fs::read_to_string(folder().join("pom.xml"))?;
    let mut modules: Vec<PathBuf> =
        std::fs::read_dir(folder())?.map(|entry| Ok(entry?.path().join("pom.xml"))).collect::<Result<_>>()?;
    modules.sort();
    for manifest in modules.iter().filter(|manifest| manifest.is_file()) {
        texts += &std::fs::read_to_string(manifest)?;
    }
    Ok(texts)
}

/// Fetches its build dependencies, by building it once; does nothing if that is done.
pub(crate) fn setup() -> Result<()> {
    let wanted = manifests()?;
    let stamp = target().join("java-made-from.xml");
    if std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        println!("    java: ready ({})", folder().display());
        return Ok(());
    }
    if !is_installed("mvn") || !is_installed("javac") {
        println!("    java: Maven or a Java compiler is missing; its tests and linters will fail:");
        println!("    $ sudo apt-get install default-jdk-headless maven");
        return Ok(());
    }
    must(&mut maven(&["--quiet", "package", "-DskipTests"]))?;
    Ok(std::fs::write(stamp, wanted)?)
}

/// Builds it, its API's documentation and its packages, and runs its tests.
pub(crate) fn test(shipped: Option<&Path>, mark: &str, rest: &[String]) -> Result<Tally> {
    let mut command = maven(&["-Dmaven.test.failure.ignore=true", "verify"]);
    let (variable, server) = python::s3_server();
    command.args(rest).env(variable, server);
    if let Some(shipped) = shipped {
        command.env("ROSTERD_BINARY", shipped);
    }
    tallied(&mut command, mark, !rest.is_empty(), surefire)
}

/// Builds its conformance worker.
pub(crate) fn conformance() -> Result<PathBuf> {
    must(&mut maven(&["--quiet", "package", "-DskipTests", "--projects", "conformance", "--also-make"]))?;
    Ok(folder().join("conformance/worker"))
}

/// Its formatter. The compiler's warnings are errors, and so are those of the documentation, in each build.
pub(crate) fn linters() -> Result<Vec<Command>> {
    setup()?;
    // The example is built like a user's program, with a parent that is not ours.
    Ok(vec![maven(&["--quiet", "--projects", "!:reports", "spotless:check"])])
}
