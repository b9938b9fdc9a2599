//! `cargo xtask recording`: records a terminal in which the shipped program runs the demonstration, a worker is killed,
//! and its items move; writes it as the animation in README.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{built, is_installed, must, root, target};

/// Converts the recording of asciinema to SVG.
const RENDERER: &str = "svg-term-cli@2.1.1";
const COLUMNS: &str = "80";
const ROWS: &str = "26";
/// The typed text, as a shell script.
const SCRIPT: &str = "docs/recording.sh";
const PICTURE: &str = "docs/guide/src/drawings/dev.svg";

/// Whether the picture is written.
pub(crate) fn main() -> Result<bool> {
    for (program, package) in [("asciinema", "asciinema"), ("npm", "npm")] {
        if !is_installed(program) {
            bail!("{program} is missing: apt-get install {package}");
        }
    }
    built("release")?;
    let folder = target().join("recording");
    std::fs::create_dir_all(&folder)?;
    let cast = folder.join("dev.cast");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut record = Command::new("asciinema");
    record
        .args(["rec", "--overwrite", "--quiet", "--cols", COLUMNS, "--rows", ROWS, "--idle-time-limit", "3"])
        .args(["--env", "TERM", "--command"])
        .arg(format!("bash {}", root().join(SCRIPT).display()))
        .arg(&cast)
        .env("TERM", "xterm-256color")
        .env("ASCIINEMA_CONFIG_HOME", &folder)
        .env("PATH", format!("{}:{path}", target().join("release").display()));
    must(&mut record)?;
    let mut render = Command::new("npm");
    render
        .args(["exec", "--yes", "--package", RENDERER, "--", "svg-term", "--window", "--no-cursor"])
        .args(["--width", COLUMNS, "--height", ROWS])
        .arg("--in")
        .arg(&cast)
        .arg("--out")
        .arg(root().join(PICTURE));
    must(&mut render)?;
    println!("    written: {PICTURE}");
    Ok(true)
}
