//! `cargo xtask setup`: makes a fresh machine ready for the tests. Installs only what is missing, and only as root.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::command::{is_installed, must, output};
use crate::suites::{SUITES, Suite, SuiteKind};
use crate::{console, go, java, node, python, tools, web, zookeeper};

/// The requirements of all suites.
pub(crate) fn everything() -> Result<()> {
    for_suites(SUITES)
}

/// The requirements of these suites.
pub(crate) fn for_suites(suites: &[Suite]) -> Result<()> {
    let mut packages: BTreeSet<_> = suites.iter().flat_map(|suite| suite.packages).copied().collect();
    let python = suites.iter().any(|suite| {
        suite.s3 || matches!(suite.kind, SuiteKind::Python | SuiteKind::Conformance | SuiteKind::Check)
    });
    if python {
        packages.extend(python::packages());
    }
    let java = suites.iter().any(|suite| matches!(suite.kind, SuiteKind::Java | SuiteKind::Check));
    if java {
        packages.extend(java::PACKAGES);
    }
    install(&packages)?;
    if java {
        java::setup()?;
    }
    if suites
        .iter()
        .any(|suite| matches!(suite.kind, SuiteKind::Node | SuiteKind::Conformance | SuiteKind::Check))
    {
        node::setup()?;
    }
    if suites.iter().any(|suite| matches!(suite.kind, SuiteKind::Console | SuiteKind::Check)) {
        web::setup()?;
    }
    if suites.iter().any(|suite| suite.scripts) {
        node::rest()?;
    }
    if suites.iter().any(|suite| matches!(suite.kind, SuiteKind::Go | SuiteKind::Check)) {
        go::setup()?;
    }
    if python {
        python::setup()?;
    }
    if suites.iter().any(|suite| matches!(suite.kind, SuiteKind::Check)) {
        tools::setup()?;
    }
    if suites.iter().any(|suite| suite.packages.contains(&zookeeper::MAVEN)) {
        zookeeper::setup()?;
    }
    if suites.iter().any(|suite| suite.packages.contains(&console::JDK)) {
        console::setup()?;
    }
    Ok(())
}

fn install(packages: &BTreeSet<&str>) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = |names: &[&str]| names.join(" ");
    let all: Vec<_> = packages.iter().copied().collect();
    if !is_installed("dpkg-query") {
        println!("    packages: this is not Debian: install these yourself: {}", list(&all));
        return Ok(());
    }
    let missing: Vec<_> = all.iter().copied().filter(|name| !is_package_installed(name)).collect();
    if missing.is_empty() {
        println!("    packages: ready ({})", list(&all));
        return Ok(());
    }
    if !is_root()? {
        println!("    packages: missing, and only root may install them; tests that need them will fail:");
        println!("    $ sudo apt-get install {}", list(&missing));
        return Ok(());
    }
    must(apt().arg("update"))?;
    must(apt().args(["install", "--yes", "--no-install-recommends"]).args(&missing))
        .with_context(|| format!("install them manually: {}", list(&missing)))
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("--quiet=2").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_package_installed(name: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat", "${db:Status-Status}", name]).stderr(Stdio::null());
    query.output().is_ok_and(|done| done.status.success() && done.stdout == b"installed")
}

fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}
