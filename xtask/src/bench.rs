//! `cargo xtask bench`: the benchmarks, in release. Arguments go to the harness.

use anyhow::Result;

use crate::command::{cargo, succeeds};

/// The harness: a package of its own in `tests/bench`.
const HARNESS: &str = "rosterd-bench";

/// Runs the harness; whether it went well.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    // What it starts is the shipped program: built first, and apart, so that nothing is in it that the harness needs.
    if !succeeds(cargo().args(["build", "--release", "--package", "rosterd", "--bin", "rosterd"]))? {
        return Ok(false);
    }
    succeeds(cargo().args(["run", "--release", "--package", HARNESS, "--"]).args(arguments))
}
