//! The ZooKeeper server of the tests: fetched from Maven Central once, with what it needs, below `target`.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::{is_installed, must, root, target};

/// The package that fetches it; suites that name it get the server.
pub(crate) const MAVEN: &str = "maven";
/// Marks a complete download.
const SERVER: &str = "zookeeper-3.9.5.jar";

/// Fetches it unless it is there. Maven verifies the repository's digests.
pub(crate) fn setup() -> Result<()> {
    let folder = target().join("zookeeper");
    if folder.join(SERVER).is_file() {
        println!("    ZooKeeper: ready ({})", folder.display());
        return Ok(());
    }
    if !is_installed("mvn") || !is_installed("java") {
        println!("    ZooKeeper: Java or Maven is missing; tests that need a server will fail:");
        println!("    $ sudo apt-get install default-jre-headless maven");
        return Ok(());
    }
    // Copied to a temporary folder and moved in one step: a partial copy would look complete.
    let aside = target().join("zookeeper.part");
    if aside.exists() {
        std::fs::remove_dir_all(&aside)?;
    }
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--strict-checksums", "--file"]);
    maven.arg(root().join("tests/support/zookeeper/pom.xml")).arg("dependency:copy-dependencies");
    maven.arg(format!("-DoutputDirectory={}", aside.display()));
    must(&mut maven).context("ZooKeeper cannot be fetched from Maven Central: see what Maven says above")?;
    if !aside.join(SERVER).is_file() {
        bail!("Maven fetched no {SERVER} to {}", aside.display());
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::rename(&aside, &folder).with_context(|| format!("{} cannot be made", folder.display()))
}
