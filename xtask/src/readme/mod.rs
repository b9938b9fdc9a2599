//! `cargo xtask readme`: executes README's first section literally, on a bare Debian.

mod blocks;
mod place;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::command::root;
use blocks::{Block, Do, PATIENCE, Step, planned};
use place::FreshSystem;

const WRITE: &str = "write `readme [--clean]`";
/// How long a program may take to end after the request.
const LEAVE: Duration = Duration::from_secs(30);

/// Whether a reader gets to the end.
pub(crate) fn main(arguments: &[String]) -> Result<bool> {
    let clean = match arguments {
        [] => false,
        [word] if word == "--clean" => true,
        _ => bail!("invalid arguments {arguments:?}: {WRITE}"),
    };
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    let planned = planned(&readme)?;
    let place = FreshSystem::make(clean)?;
    place.clone_repository()?;
    let (begin, mut staying) = (Instant::now(), Vec::new());
    for (block, step) in &planned {
        let first = block.text.lines().next().unwrap_or_default();
        println!("\n=== {:>5.0} s  {first}", begin.elapsed().as_secs_f64());
        take(&place, block, step, &mut staying)
            .with_context(|| format!("README's block that begins {first:?}"))?;
    }
    for terminal in staying.iter_mut().rev() {
        terminal.interrupt()?;
    }
    println!("\nREADME: all {} blocks went well, {:.0} s", planned.len(), begin.elapsed().as_secs_f64());
    Ok(true)
}

fn take(place: &FreshSystem, block: &Block, step: &Step, staying: &mut Vec<Terminal>) -> Result<()> {
    match step.what {
        Do::Prepare if !place.is_bare() => println!("    skipped: this machine is set up already"),
        Do::Prepare => {
            let has_rust = place.home().join(".cargo/bin/rustc").exists();
            run(place, "", "apt-get update")?;
            for line in block.text.lines().filter(|line| !(has_rust && line.contains("rustup"))) {
                run(place, "", line)?;
            }
            place.configure()?;
        }
        Do::Run => run(place, step.folder, &block.text)?,
        Do::File(name) => std::fs::write(place.home().join(step.folder).join(name), &block.text)?,
        Do::Ends(marker) => open(place, step.folder, &block.text, marker)?.interrupt()?,
        Do::Stays(marker) => staying.push(open(place, step.folder, &block.text, marker)?),
        Do::Said => {
            let terminal = staying.last_mut().context("nothing stays")?;
            for line in block.text.lines().filter(|line| *line != "…") {
                let word = line.split_whitespace().next().unwrap_or_default();
                ensure!(terminal.has_said(word), "it has not said {word:?}");
            }
        }
        Do::LeftOut(why) => println!("    skipped: {why}"),
    }
    Ok(())
}

/// Runs a script that must succeed.
fn run(place: &FreshSystem, folder: &str, script: &str) -> Result<()> {
    let mut terminal = Terminal::open(place.shell(folder, &format!("set -e\n{script}")))?;
    terminal.ends()
}

/// Runs all lines except the last, then that one until it has printed this.
fn open(place: &FreshSystem, folder: &str, script: &str, marker: &str) -> Result<Terminal> {
    let script = script.trim_end();
    let (before, last) = script.rsplit_once('\n').unwrap_or(("", script));
    if !before.is_empty() {
        run(place, folder, before)?;
    }
    let mut terminal = Terminal::open(place.shell(folder, &format!("exec {last}")))?;
    terminal.says(marker)?;
    Ok(terminal)
}

/// A terminal with a running program.
struct Terminal {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Terminal {
    fn open(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // Answers questions like a reader.
            stdin.write_all(b"y\n")?;
        }
        let (sender, lines) = channel();
        let pipes: [Option<Box<dyn std::io::Read + Send>>; 2] = [
            child.stdout.take().map(|pipe| Box::new(pipe) as _),
            child.stderr.take().map(|pipe| Box::new(pipe) as _),
        ];
        for pipe in pipes.into_iter().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                    let _gone = sender.send(String::from_utf8_lossy(&line).into_owned());
                }
            });
        }
        Ok(Self { child, lines, said: Vec::new() })
    }

    /// Waits for a line that contains this.
    fn says(&mut self, marker: &str) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    println!("    | {line}");
                    let found = line.contains(marker);
                    self.said.push(line);
                    if found {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => bail!("it did not print {marker:?} within {PATIENCE:?}"),
                Err(RecvTimeoutError::Disconnected) => bail!("it ended without printing {marker:?}"),
            }
        }
    }

    fn has_said(&mut self, word: &str) -> bool {
        self.said.extend(self.lines.try_iter());
        self.said.iter().any(|line| line.trim_start().starts_with(word))
    }

    /// Waits until it ends successfully.
    fn ends(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            println!("    | {line}");
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }

    /// Ctrl-C.
    fn interrupt(&mut self) -> Result<()> {
        self.signal("INT")?;
        let until = Instant::now() + LEAVE;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < until, "it does not end within {LEAVE:?} of Ctrl-C");
            self.said.extend(self.lines.recv_timeout(Duration::from_millis(100)));
        }
        Ok(())
    }
}

impl Terminal {
    /// To its whole group.
    fn signal(&self, name: &str) -> Result<()> {
        let group = format!("-{}", self.child.id());
        let sent = Command::new("kill").args(["-s", name, "--", &group]).status()?;
        ensure!(sent.success(), "{name} cannot be sent to it");
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _gone = self.signal("KILL");
            let _gone = self.child.wait();
        }
    }
}
