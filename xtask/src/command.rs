//! Runs other programs: passes on their output line by line, and inspects it.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// After this time without output we print that it is still running.
const PULSE: Duration = Duration::from_secs(30);
/// A program that is silent for this long hangs, and is killed.
const HANGS: Duration = Duration::from_secs(20 * 60);

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Where builds go.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds the program in a profile, without anything that only tests need. Returns where cargo put it; the next build in
/// that profile may replace it.
pub(crate) fn built(profile: &str) -> Result<PathBuf> {
    must(cargo().args(["build", "--profile", profile, "--package", "rosterd", "--bin", "rosterd"]))?;
    Ok(target().join(profile).join("rosterd"))
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // `cargo run` sets them for us; a nested cargo must not use them.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
        command.env_remove(name);
    }
    if std::io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command
}

/// Whether a program is in PATH.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// How a command is shown.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command in the foreground; whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    println!("    $ {}", shown(command));
    let status = command.status().with_context(|| format!("{} cannot be run", shown(command)))?;
    Ok(status.success())
}

/// Runs a command that must succeed.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    if !succeeds(command)? {
        bail!("failed: {}", shown(command));
    }
    Ok(())
}

/// The output of a command that must succeed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let done = command.stderr(Stdio::inherit()).output();
    let done = done.with_context(|| format!("{} cannot be run", shown(command)))?;
    if !done.status.success() {
        bail!("failed: {}", shown(command));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

enum Line {
    Out(String),
    Err(String),
}

/// Runs a command, passes its lines on, each after `mark`, and passes each line of its stdout to `look`.
pub(crate) fn watched(command: &mut Command, mark: &str, look: &mut dyn FnMut(&str)) -> Result<ExitStatus> {
    let name = shown(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{name} cannot be run"))?;
    let (lines, inbox) = channel();
    let readers = [
        child.stdout.take().map(|out| reader(out, lines.clone(), Line::Out)),
        child.stderr.take().map(|err| reader(err, lines.clone(), Line::Err)),
    ];
    drop(lines);
    let begin = Instant::now();
    let mut heard = begin;
    loop {
        match inbox.recv_timeout(PULSE) {
            Ok(Line::Out(line)) => {
                heard = Instant::now();
                look(&line);
                // One write per line: two suites may write concurrently.
                let _ = std::io::stdout().write_all(format!("{mark}{line}").as_bytes());
            }
            Ok(Line::Err(line)) => {
                heard = Instant::now();
                let _ = std::io::stderr().write_all(format!("{mark}{line}").as_bytes());
            }
            Err(RecvTimeoutError::Timeout) if heard.elapsed() > HANGS => {
                child.kill()?;
                println!("{mark}    silent for {} s: killed: {name}", HANGS.as_secs());
                // Not joined: its child processes may hold the pipes open.
                return Ok(child.wait()?);
            }
            Err(RecvTimeoutError::Timeout) => {
                println!("{mark}    still running, {} s", begin.elapsed().as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    for reader in readers.into_iter().flatten() {
        let _ = reader.join();
    }
    Ok(child.wait()?)
}

/// Runs a command whose result is a line with one of these beginnings, and prints that again at the end; whether all
/// succeeded.
pub(crate) fn told(command: &mut Command, beginning: &str) -> Result<bool> {
    let mut result = None;
    let done = watched(command, "", &mut |line| {
        if line.starts_with(beginning) {
            result = Some(line.trim_end().to_owned());
        }
    })?;
    println!("\n{}", result.as_deref().unwrap_or("no result"));
    Ok(done.success() && result.is_some())
}

fn reader(pipe: impl Read + Send + 'static, lines: Sender<Line>, kind: fn(String) -> Line) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if lines.send(kind(String::from_utf8_lossy(&line).into_owned())).is_err() {
                return;
            }
            line.clear();
        }
    })
}

/// A duration, for people.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Locks it, even if another thread panicked while it held the lock.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Programs that this thread starts from now on run only while nothing else needs a core (on Linux; elsewhere nothing
/// changes).
pub(crate) fn yield_to_all() {
    let Ok(thread) = std::fs::read_link("/proc/thread-self") else { return };
    let Some(id) = thread.file_name() else { return };
    let mut chrt = Command::new("chrt");
    chrt.args(["--idle", "--pid", "0"]).arg(id).stdout(Stdio::null()).stderr(Stdio::null());
    if !chrt.status().is_ok_and(|status| status.success()) {
        println!("    chrt (util-linux) is missing: suites that run at the same time share the cores evenly");
    }
}
