//! One program under its guard, from start to end. Dropping it kills the program before the drop returns.

use std::ffi::OsString;
use std::future::Future;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, Command};
use tokio::task::JoinHandle;

use super::cgroup::Group;
use super::guard::{NAME, this_program};
use super::output::{Printer, Stream, Tail, copy};
use super::processes;
use super::run_log::RunLine;

/// How long output may still come after the program's end: only from what left its process group.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// Together they name one run.
const MARKS: [&str; 4] = ["ROSTERD_INSTANCE", "ROSTERD_JOB", "ROSTERD_ITEM", "ROSTERD_TOKEN"];
/// How long a drop waits for the guard; it needs a few milliseconds.
const DROP_WAIT: Duration = Duration::from_millis(250);

/// A program that runs.
pub(super) struct Child {
    process: tokio::process::Child,
    /// The pipe whose end is the program's end.
    lifeline: Option<ChildStdin>,
    beat: Duration,
    output: Tail,
    copies: [JoinHandle<()>; 2],
    ended: bool,
    /// What its environment has, and no other run's.
    marks: Vec<String>,
    /// Where its processes are.
    group: Option<Arc<Group>>,
}

/// How it ended.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) output: Tail,
    /// It was asked to stop before it ended.
    pub(super) stopped: bool,
}

impl Child {
    /// Starts the guard, which starts the program in a process group of its own. `line`: what the guard says of the run
    /// in our place, once we are gone.
    pub(super) fn start(
        program: &[OsString],
        environment: Vec<(&'static str, String)>,
        silence: Duration,
        label: &str,
        printer: &Printer,
        line: Option<&RunLine>,
        group: Option<Group>,
    ) -> std::io::Result<Self> {
        let marks = environment.iter().filter(|(name, _)| MARKS.contains(name));
        let marks = marks.map(|(name, value)| format!("{name}={value}")).collect();
        let mut command = Command::new(this_program());
        command.arg(NAME).arg("--silence-ms").arg(silence.as_millis().to_string());
        if let Some(line) = line {
            command.arg("--run-log").arg(&line.path).arg("--run-line").arg(line.text());
        }
        if let Some(group) = &group {
            command.arg("--group").arg(group.folder());
        }
        command.arg("--").args(program).envs(environment);
        for secret in ["ROSTERD_CREDENTIAL", "ROSTERD_CREDENTIAL_FILE", "ROSTERD_KEY"] {
            command.env_remove(secret);
        }
        // A group of its own: an interrupt from the terminal is for us to turn into a clean leave.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut process = command.spawn().inspect_err(|_| group.iter().for_each(Group::end))?;
        let output = Tail::default();
        let lifeline = process.stdin.take();
        let missing = || std::io::Error::other("the program has no output");
        let (out, err) =
            (process.stdout.take().ok_or_else(missing)?, process.stderr.take().ok_or_else(missing)?);
        let copies = [
            tokio::spawn(copy(out, Stream::Out, label.into(), output.clone(), printer.clone())),
            tokio::spawn(copy(err, Stream::Err, label.into(), output.clone(), printer.clone())),
        ];
        let beat = (silence / 10).clamp(Duration::from_millis(10), Duration::from_millis(300));
        Ok(Self { process, lifeline, beat, output, copies, ended: false, marks, group: group.map(Arc::new) })
    }

    /// Waits for its end; asks it to stop when `stop` comes first, and kills it `kill_after` later. `patience`: how
    /// long the guard may let it go on without another word.
    pub(super) async fn finish(
        mut self,
        stop: impl Future<Output = ()>,
        kill_after: Duration,
        patience: impl Fn() -> Duration,
    ) -> std::io::Result<Finished> {
        let mut stopped = false;
        let mut beats = tokio::time::interval(self.beat);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(stop);
        let status = loop {
            tokio::select! {
                status = self.process.wait() => break status?,
                () = &mut stop, if !stopped => {
                    stopped = true;
                    self.send_to_guard(&format!("stop {}\n", kill_after.as_millis())).await;
                }
                _ = beats.tick() => self.send_to_guard(&format!("beat {}\n", patience().as_millis())).await,
            }
        };
        self.ended = true;
        if let Some(group) = self.group.take() {
            let _ = tokio::task::spawn_blocking(move || group.end()).await;
        }
        if status.signal().is_some() {
            // Perhaps it was the guard that was killed, which took the program with it, and nothing else.
            let marks = std::mem::take(&mut self.marks);
            let _ = tokio::task::spawn_blocking(move || processes::kill_marked(&marks)).await;
        }
        for copy in &mut self.copies {
            if tokio::time::timeout(LAST_OUTPUT, &mut *copy).await.is_err() {
                copy.abort();
            }
        }
        Ok(Finished { status, output: self.output.clone(), stopped })
    }

    /// A guard that does not read has ended, as its wait shows.
    async fn send_to_guard(&mut self, word: &str) {
        if let Some(lifeline) = &mut self.lifeline {
            let _ = lifeline.write_all(word.as_bytes()).await;
        }
    }
}

impl Drop for Child {
    #[allow(clippy::disallowed_methods, reason = "a drop takes no argument for the time")]
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let until = Instant::now() + DROP_WAIT;
        while !self.ended && Instant::now() < until && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The guard has ended it, unless that was killed.
        self.group.iter().for_each(|group| group.end());
        self.copies.iter().for_each(JoinHandle::abort);
    }
}
