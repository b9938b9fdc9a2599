//! `cargo xtask check`: formatting, lints, dependencies, the clients' own linters, and what registries ask of their packages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::command::{cargo, must, output, root, seconds, shown, succeeds, target};
use crate::metadata::{FEATURES, PROFILE};
use crate::summary::Tally;
use crate::{book, go, java, manifests, node, prose, python, tools, web};

/// Further feature sets of the Rust client: the workspace enables the features that its members need, which hides what
/// is missing without them. The library alone, which costs no more than `cargo check`; its tests are in the workspace.
const OF_THE_CLIENT: [&[&str]; 2] =
    [&["--no-default-features"], &["--no-default-features", "--features", "tls-ring"]];

/// A check that takes longer prints its duration, to show where a build spends its time.
const LONG: Duration = Duration::from_secs(5);

/// The checks so far.
#[derive(Default)]
struct Checks(Tally);

impl Checks {
    fn command(&mut self, command: &mut Command) -> Result<()> {
        let begin = Instant::now();
        let good = succeeds(command)?;
        let took = begin.elapsed();
        if took > LONG {
            println!("    {}: {}", seconds(took), shown(command));
        }
        self.one(&shown(command), good);
        Ok(())
    }

    fn one(&mut self, name: &str, good: bool) {
        match good {
            true => self.0.passed += 1,
            false => {
                self.0.failed += 1;
                self.0.names.push(name.to_owned());
            }
        }
    }
}

/// `cargo xtask check`.
pub(crate) fn main() -> Result<bool> {
    let found = run()?;
    found.names.iter().for_each(|name| println!("    FAILED: {name}"));
    println!("    check: {found}");
    Ok(found.failed == 0)
}

/// Runs all checks, and names those that failed.
pub(crate) fn run() -> Result<Tally> {
    let mut checks = Checks::default();
    checks.command(cargo().args(["fmt", "--all", "--check"]))?;
    let mut clippy = cargo();
    clippy
        .args(["clippy", "--workspace", "--all-targets"])
        .args(PROFILE)
        .args(FEATURES)
        .args(["--", "-D", "warnings"]);
    checks.command(&mut clippy)?;
    for features in OF_THE_CLIENT {
        let mut clippy = cargo();
        clippy.args(["clippy", "--package", "rosterd-client"]).args(PROFILE).args(features);
        checks.command(clippy.args(["--", "-D", "warnings"]))?;
    }
    tools::setup()?;
    checks.command(tools::command("cargo-deny").args([
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ]))?;
    let databases = databases_below(&cargo_home());
    match has_database(&databases) {
        true => checks.command(tools::command("cargo-deny").args(ADVISORIES))?,
        false => println!("{}", unchecked(&databases)),
    }
    checks.command(tools::command("buf").arg("lint"))?;
    match released(&root(), &target().join("proto-of-the-last-release"))? {
        Some(before) => checks.command(tools::command("buf").arg("breaking").arg("--against").arg(before))?,
        None => println!("    no release yet: there is no protocol to stay compatible with"),
    }
    let linters = python::linters()?.into_iter().chain(node::linters()?).chain(go::linters()?);
    for mut linter in linters.chain(java::linters()?).chain(web::linters()?) {
        checks.command(&mut linter)?;
    }
    for (name, defects) in manifests::checked()? {
        defects.iter().for_each(|defect| println!("    DEFECT: {defect}"));
        checks.one(name, defects.is_empty());
    }
    checks.one("prose keeps the style page", prose::is_plain()?);
    checks.one("the guide is a book whose links lead somewhere", book::is_whole()?);
    checks.one("console/dist is what its sources make", web::is_fresh()?);
    Ok(checks.0)
}

/// Known defects of dependencies, by the local copy of the database: a check does not depend on the network.
const ADVISORIES: [&str; 4] = ["--offline", "check", "--hide-inclusion-graph", "advisories"];

fn cargo_home() -> PathBuf {
    let below_home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(below_home, PathBuf::from)
}

/// Where cargo-deny keeps its databases.
fn databases_below(cargo_home: &Path) -> PathBuf {
    cargo_home.join("advisory-dbs")
}

fn has_database(databases: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(databases) else { return false };
    entries.any(|entry| entry.is_ok_and(|entry| entry.path().join(".git").exists()))
}

/// The line that is printed without a database: an unchecked list must not look like a clean one.
fn unchecked(databases: &Path) -> String {
    format!(
        "    NOT CHECKED: known advisories against dependencies: their database is missing in {}: run `cargo deny fetch db`",
        databases.display()
    )
}

/// The protocol of the last release, in a folder of its own; `None`: there is no release yet.
fn released(repository: &Path, folder: &Path) -> Result<Option<PathBuf>> {
    let git = || {
        let mut git = Command::new("git");
        git.current_dir(repository);
        git
    };
    let tags = output(git().args(["tag", "--list", "v*", "--sort=-version:refname"]))?;
    let Some(tag) = tags.lines().next() else { return Ok(None) };
    let unpacked = folder.join(tag);
    std::fs::create_dir_all(&unpacked)?;
    let packed = folder.join("proto.tar");
    must(git().args(["archive", "--output"]).arg(&packed).args([tag, "--", "buf.yaml", "proto"]))?;
    must(Command::new("tar").arg("--extract").arg("--file").arg(&packed).arg("--directory").arg(&unpacked))?;
    Ok(Some(unpacked))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: advisories were never looked up, and no message reported it.
    #[test]
    fn advisories_are_looked_up_where_a_database_is_and_named_as_not_checked_elsewhere() {
        let home = target().join(format!("tmp/advisories-{}", std::process::id()));
        let databases = databases_below(&home);
        assert!(!has_database(&databases));
        std::fs::create_dir_all(databases.join("empty")).unwrap();
        assert!(!has_database(&databases), "a folder is no database");
        let said = unchecked(&databases);
        assert!(said.contains("NOT CHECKED") && said.contains("cargo deny fetch db"), "{said}");
        assert!(said.contains(databases.to_str().unwrap()), "{said}");
        std::fs::create_dir_all(databases.join("advisory-db-1/.git")).unwrap();
        assert!(has_database(&databases));
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn the_protocol_of_the_last_release_is_found() {
        let folder = target().join(format!("tmp/released-{}", std::process::id()));
        let (repository, out) = (folder.join("repository"), folder.join("out"));
        std::fs::create_dir_all(repository.join("proto")).unwrap();
        let git = |words: &[&str]| {
            let us = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
            must(Command::new("git").current_dir(&repository).args(us).args(words)).unwrap();
        };
        git(&["init", "--quiet"]);
        for release in ["v0.9.0", "v0.10.0", "later"] {
            std::fs::write(repository.join("buf.yaml"), "version: v2").unwrap();
            std::fs::write(repository.join("proto/a.proto"), release).unwrap();
            git(&["add", "--all"]);
            git(&["commit", "--quiet", "--message", release]);
            if release == "later" {
                break;
            }
            assert_eq!(released(&repository, &out).unwrap().is_none(), release == "v0.9.0");
            git(&["tag", release]);
        }
        let found = released(&repository, &out).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(found.join("proto/a.proto")).unwrap(), "v0.10.0");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
