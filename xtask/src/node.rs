//! The TypeScript client: its build tools, its tests, its linters. npm installs its packages next to it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::{must, root};
use crate::python;
use crate::summary::{Tally, node, tallied};

/// The servers for its tests of fences.
pub(crate) const PACKAGES: &[&str] = &["openssl", "postgresql", "redis-server"];

/// Its folders of tests: unit tests, over real sockets, against a real coordinator, and fences against real servers.
const TESTS: [&str; 4] =
    ["build/test/unit/", "build/test/wire/", "build/test/coordinator/", "build/test/fences/"];

fn folder() -> PathBuf {
    root().join("clients/typescript")
}

pub(crate) fn npm(words: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(folder()).args(words);
    command
}

/// Installs its packages.
pub(crate) fn setup() -> Result<()> {
    packages(&folder())
}

/// The same for programs of the REST tests: a client that is generated from its description, and a provider of
/// identities.
pub(crate) fn rest() -> Result<()> {
    ["tests/openapi", "tests/oidc"].into_iter().try_for_each(|folder| packages(&root().join(folder)))
}

/// Installs the packages of a folder by its lock file; does nothing if that is done.
pub(crate) fn packages(folder: &Path) -> Result<()> {
    let wanted = std::fs::read_to_string(folder.join("package-lock.json"))?;
    let stamp = folder.join("node_modules/made-from.json");
    if std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        println!("    node: ready in {}", folder.join("node_modules").display());
        return Ok(());
    }
    must(Command::new("npm").current_dir(folder).args(["ci", "--no-audit", "--no-fund"]))?;
    Ok(std::fs::write(stamp, wanted)?)
}

/// Builds and runs its tests.
pub(crate) fn test(shipped: Option<&Path>, mark: &str, rest: &[String]) -> Result<Tally> {
    must(&mut npm(&["run", "build:tests"]))?;
    let mut command = Command::new("node");
    command.current_dir(folder()).args(["--enable-source-maps", "--test", "--test-reporter=spec"]);
    let (variable, server) = python::s3_server();
    command.args(rest).args(TESTS).env(variable, server);
    if let Some(shipped) = shipped {
        command.env("ROSTERD_BINARY", shipped);
    }
    tallied(&mut command, mark, !rest.is_empty(), node)
}

/// Builds its conformance worker: the program for `node`.
pub(crate) fn conformance() -> Result<PathBuf> {
    must(&mut npm(&["run", "build:tests"]))?;
    Ok(folder().join("build/conformance/worker.js"))
}

/// Its linters.
pub(crate) fn linters() -> Result<Vec<Command>> {
    setup()?;
    // Like `npm run lint`, but each separately.
    let program = |words: &[&str]| {
        let mut command = Command::new("node");
        command.current_dir(folder()).args(words);
        command
    };
    Ok(vec![
        program(&["node_modules/eslint/bin/eslint.js", "."]),
        program(&["node_modules/prettier/bin/prettier.cjs", "--check", "."]),
    ])
}
