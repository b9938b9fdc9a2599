//! `cargo xtask recording`: records a terminal in which the program that ships runs the demonstration, a worker is killed, and its
//! items move; writes it as the moving picture that README shows.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{cargo, is_installed, must, root, target};

/// Makes an SVG of what asciinema recorded.
const RENDERER: &str = "svg-term-cli@2.1.1";
const COLUMNS: &str = "80";
const ROWS: &str = "26";
/// What is typed, by whom it is run: a shell.
const SCRIPT: &str = "docs/recording.sh";
const PICTURE: &str = "docs/guide/src/drawings/dev.svg";

/// Whether the picture is written.
pub(crate) fn main() -> Result<bool> {
    for (program, package) in [("asciinema", "asciinema"), ("npm", "npm")] {
        if !is_installed(program) {
            bail!("{program} is missing: apt-get install {package}");
        }
    }
    must(cargo().args(["build", "--release", "--package", "rosterd", "--bin", "rosterd"]))?;
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
