//! `cargo xtask check`: formatting, lints, dependencies, and the clients' own linters. Tells how many failed.

use anyhow::Result;

use crate::command::{cargo, is_installed, root, succeeds};
use crate::python;

/// Runs all checks; how many failed.
pub(crate) fn run() -> Result<u64> {
    let mut failed = 0;
    let mut check = |good: bool| failed += u64::from(!good);
    check(succeeds(cargo().args(["fmt", "--all", "--check"]))?);
    check(succeeds(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--features",
        "rosterd/mutants",
        "--",
        "-D",
        "warnings",
    ]))?);
    if is_installed("cargo-deny") {
        check(succeeds(cargo().args(["deny", "check", "licenses", "bans", "sources"]))?);
    } else {
        println!("    cargo-deny is not installed: dependencies are not checked (cargo install cargo-deny)");
    }
    if is_installed("buf") {
        check(succeeds(std::process::Command::new("buf").arg("lint").current_dir(root()))?);
    } else {
        println!("    buf is not installed: proto/ is not checked (npm install -g @bufbuild/buf)");
    }
    for mut linter in python::linters()? {
        check(succeeds(&mut linter)?);
    }
    Ok(failed)
}
