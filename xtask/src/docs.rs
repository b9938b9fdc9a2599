//! `cargo xtask docs`: writes the guide's generated pages anew, and builds the guide where mdBook is installed.

use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, is_installed, must, root};
use crate::metadata::{FEATURES, PROFILE};

/// Ignored tests that write a page; beside each stands the test that compares it.
const WRITER: &str = "write_the_guides_page";

/// Writes the pages; whether that went well.
pub(crate) fn main() -> Result<bool> {
    must(cargo().args(["test", "--workspace", "--lib"]).args(PROFILE).args(FEATURES).args([
        WRITER,
        "--",
        "--ignored",
    ]))?;
    if is_installed("mdbook") {
        must(Command::new("mdbook").args(["build", "docs"]).current_dir(root()))?;
    } else {
        println!("    mdbook is not installed: the pages are written, the book is not built");
    }
    Ok(true)
}
