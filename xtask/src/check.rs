//! `cargo xtask check`: formatting, lints, dependencies, and the clients' own linters. Tells how many failed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, must, output, root, succeeds, target};
use crate::metadata::{FEATURES, PROFILE};
use crate::{python, tools};

/// Runs all checks; how many failed.
pub(crate) fn run() -> Result<u64> {
    let mut failed = 0;
    let mut check = |good: bool| failed += u64::from(!good);
    check(succeeds(cargo().args(["fmt", "--all", "--check"]))?);
    let mut clippy = cargo();
    clippy
        .args(["clippy", "--workspace", "--all-targets"])
        .args(PROFILE)
        .args(FEATURES)
        .args(["--", "-D", "warnings"]);
    check(succeeds(&mut clippy)?);
    tools::setup()?;
    check(succeeds(tools::command("cargo-deny").args([
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ]))?);
    check(succeeds(tools::command("buf").arg("lint"))?);
    match released(&root(), &target().join("proto-of-the-last-release"))? {
        Some(before) => check(succeeds(tools::command("buf").arg("breaking").arg("--against").arg(before))?),
        None => println!("    nothing was released yet: there is no protocol that must go on working"),
    }
    for mut linter in python::linters()? {
        check(succeeds(&mut linter)?);
    }
    Ok(failed)
}

/// The protocol of the last release, in a folder of its own; `None`: nothing was released yet.
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
