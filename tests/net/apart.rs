//! A separate process for every world.
//!
//! When a runtime ends, tokio drops its tasks in the order of their numbers, which are counted through a whole process.
//! So the order in which a crashed host's connections are reset depends on what ran before, and a world replays exactly
//! only in a fresh process. And tokio wakes tasks that wait for one value in a random order, from the system's random
//! source: in these processes it is not random.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const HERE: &str = "ROSTERD_NET_APART";

/// Plays `world` in a separate process that runs the test `name`, which must be the calling one.
pub fn apart(name: &str, world: impl FnOnce()) {
    if std::env::var_os(HERE).is_some() {
        return world();
    }
    let output = command(name).output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{said}\n{wrong}", output.status);
    assert!(said.contains("1 passed"), "{name} is not the name of the test: {said}");
}

/// A process that runs one test of this program.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(HERE, "1")
        .env("LD_PRELOAD", &*STEADY);
    command
}

/// The library that replaces the random source, built by each run of the tests, since it is that small.
static STEADY: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/net/steady.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("steady.so");
    // Another run may be using it.
    let draft = library.with_extension(format!("{}.so", std::process::id()));
    let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&draft).arg(source).status();
    assert!(made.is_ok_and(|made| made.success()), "cc is missing or fails: run `cargo xtask setup`");
    std::fs::rename(draft, &library).unwrap();
    library
});
