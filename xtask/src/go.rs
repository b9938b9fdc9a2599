//! The Go client: its modules, their tests and linters. Their dependencies come through Go's module proxy.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::{must, output, root, target};
use crate::summary::{Tally, go, tallied};

/// The servers for its tests of fences.
pub(crate) const PACKAGES: &[&str] = &["postgresql", "redis-server"];

/// The client; the tools that generate its code and lint it; tests that need other libraries; its bridge to
/// OpenTelemetry.
const MODULES: [&str; 4] = [".", "tools", "tests", "oteltrace"];

fn folder() -> PathBuf {
    root().join("clients/go")
}

fn program(module: &str, words: &[&str]) -> Command {
    let mut command = Command::new("go");
    // Only modules in go.sum, only the installed toolchain, and no version control data in the build.
    command
        .current_dir(folder().join(module))
        .args(words)
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .env("GOTOOLCHAIN", "local");
    command
}

/// Fetches the dependencies of its modules; does nothing if they are there.
pub(crate) fn setup() -> Result<()> {
    output(&mut program(".", &["version"])).context("no Go in PATH: install 1.25 or newer")?;
    for module in MODULES {
        must(&mut program(module, &["mod", "download"]))?;
    }
    Ok(())
}

/// Runs the tests of all its modules.
pub(crate) fn test(shipped: Option<&Path>, mark: &str, rest: &[String]) -> Result<Tally> {
    let mut all = Tally::default();
    for module in MODULES {
        // One package at a time: most tests wait for processes, which need the other core.
        let mut command = program(module, &["test", "-v", "-p", "1", "-count", "1"]);
        if module == "." {
            command.arg("-race");
        }
        command.arg("./...").args(rest);
        if let Some(shipped) = shipped {
            command.env("ROSTERD_BINARY", shipped);
        }
        all += tallied(&mut command, mark, !rest.is_empty(), go)?;
    }
    Ok(all)
}

/// Builds its conformance worker.
pub(crate) fn conformance() -> Result<PathBuf> {
    let worker = target().join("clients/go-conformance");
    let mut build = program(".", &["build", "-o"]);
    must(build.arg(&worker).arg("./conformance"))?;
    Ok(worker)
}

/// Its linters.
pub(crate) fn linters() -> Result<Vec<Command>> {
    setup()?;
    let mut linters = vec![formatting()];
    for module in MODULES {
        linters.push(program(module, &["vet", "./..."]));
        let tools = if module == "tools" { "go.mod" } else { "../tools/go.mod" };
        let tools = if module == "." { "tools/go.mod" } else { tools };
        let modfile = format!("-modfile={tools}");
        linters.push(program(module, &["tool", &modfile, "staticcheck", "./..."]));
    }
    Ok(linters)
}

/// gofmt lists files that are not formatted, but still exits with 0.
fn formatting() -> Command {
    let mut command = Command::new("sh");
    command
        .current_dir(folder())
        .args(["-c", "found=$(gofmt -l .) && echo \"$found\" && test -z \"$found\""]);
    command
}
