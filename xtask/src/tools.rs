//! Programs of `check` that are not part of Rust: with the versions and digests in `tools.txt`, in a separate
//! environment below `target`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::{must, root, target};
use crate::python;

const LIST: &str = "xtask/tools.txt";

fn environment() -> PathBuf {
    target().join("tools")
}

/// Installs them; does nothing if they are there.
pub(crate) fn setup() -> Result<()> {
    let wanted = std::fs::read_to_string(root().join(LIST))?;
    let stamp = environment().join("made-from.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        println!("    tools: ready in {}", environment().display());
        return Ok(());
    }
    python::make(&environment())?;
    let mut install = command("pip");
    install.args(["install", "--disable-pip-version-check", "--quiet", "--only-binary", ":all:"]);
    must(install.args(["--require-hashes", "--requirement", LIST])).with_context(|| {
        format!("the programs of {LIST} cannot be fetched from PyPI: see what pip says above")
    })?;
    Ok(std::fs::write(stamp, wanted)?)
}

/// One of them, at the top of the repository.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(environment().join("bin").join(name));
    command.current_dir(root());
    command
}
