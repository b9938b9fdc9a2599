//! This test binary once more, as a separate process that can be killed, traced or put on a small disk.
//!
//! A child is a test that does nothing unless the variable below is set: it is run by name, in a process started
//! by another test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROLE: &str = "ROSTERD_TEST_DIR";

/// The directory that this process was started to work on; `None`: this is an ordinary run of the tests.
pub fn directory() -> Option<PathBuf> {
    std::env::var_os(ROLE).map(PathBuf::from)
}

/// A command that runs the test `name` of this binary as a child on `dir`, below the program `wrapper`.
pub fn child<S: AsRef<OsStr>>(wrapper: &[S], name: &str, dir: &Path) -> Command {
    let me = std::env::current_exe().unwrap();
    let mut command = match wrapper.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(me);
            command
        }
        None => Command::new(me),
    };
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ROLE, dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Whether a program can be started at all.
pub fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Runs a child to its end and returns its output; it must succeed.
pub fn run(mut command: Command) -> String {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the child failed: {}\n{text}\n{errors}", output.status);
    text
}
