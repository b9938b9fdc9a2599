//! `cargo xtask bench`: the benchmarks, in release. Arguments go to the harness.

use anyhow::{Result, bail};

use crate::command::{cargo, succeeds};
use crate::metadata::targets;

/// The harness: a target `bench` of the root package in `tests/bench`.
const HARNESS: &str = "bench";

/// Runs the harness; whether it went well.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    let known = targets()?;
    if !known
        .iter()
        .any(|target| target.package == "rosterd" && target.kind == "bench" && target.name == HARNESS)
    {
        bail!("not there yet: cargo knows no benchmark {HARNESS:?} of rosterd (tests/bench)");
    }
    // What it starts is the shipped program, so that is built first.
    if !succeeds(cargo().args(["build", "--release", "--bin", "rosterd"]))? {
        return Ok(false);
    }
    succeeds(cargo().args(["bench", "--package", "rosterd", "--bench", HARNESS, "--"]).args(arguments))
}
