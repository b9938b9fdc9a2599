//! `cargo xtask docs`: writes the guide's generated pages anew, and builds the book.

use anyhow::Result;

use crate::book;
use crate::command::{cargo, must};
use crate::metadata::{FEATURES, PROFILE};

/// Ignored tests that write a page; next to each is the test that compares it.
const WRITER: &str = "write_the_guides_page";

/// Writes the pages; whether that succeeded.
pub(crate) fn main() -> Result<bool> {
    must(cargo().args(["test", "--workspace", "--lib"]).args(PROFILE).args(FEATURES).args([
        WRITER,
        "--",
        "--ignored",
    ]))?;
    book::is_whole()
}
