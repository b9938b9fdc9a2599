//! `rosterd exec-guard`: the small process between `exec` and a program, so that the program dies with `exec`.
//!
//! Its stdin is a pipe from `exec`. Lines on it: `beat MILLISECONDS` (alive; kill it then if no other word comes),
//! `stop MILLISECONDS` (SIGTERM now, SIGKILL then). When the pipe ends, or is silent for too long since `exec` is
//! stopped or starved, the program and all that it has started get SIGKILL, whatever group or session they are in. It ends as the
//! program ended, by exit code or signal, after it has killed what the program left behind. Without threads of a runtime and
//! without any connection; called by `exec` alone.

use std::ffi::OsString;
use std::io::{BufRead as _, Error};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Parser;
use rosterd_domain::verify::What;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process, kill_process_group,
    setrlimit, waitid,
};
use rustix::time::clock_gettime;

#[cfg(target_os = "linux")]
use self::linux as system;
#[cfg(not(target_os = "linux"))]
use self::other as system;
use super::cgroup::Group;
use super::processes;
use super::run_log::RunLine;

/// The first argument of a guard.
pub(crate) const NAME: &str = "exec-guard";
/// How often the clock is looked at: it counts suspended time, which no wait does.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Parser)]
pub(crate) struct Guard {
    /// Kill after so many milliseconds without a first word
    #[arg(long, default_value_t = 3000)]
    silence_ms: u64,
    /// Where to say that the program was killed, once `exec` is gone or silent
    #[arg(long, requires = "run_line")]
    run_log: Option<PathBuf>,
    /// What to say of the run there
    #[arg(long)]
    run_line: Option<String>,
    /// Become the program of this guard
    #[arg(long)]
    program_of: Option<i32>,
    /// The control group of the run
    #[arg(long)]
    group: Option<PathBuf>,
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// What the guard hears.
enum Word {
    Beat(Duration),
    Stop(Duration),
    Gone,
    Exited,
}

impl Guard {
    pub(crate) fn run(&self) -> ExitCode {
        match self.program_of {
            Some(guard) => self.become_program(guard),
            None => self.supervise(),
        }
    }

    /// Dies with the guard, even where that is killed, and is the program from here on.
    fn become_program(&self, guard: i32) -> ExitCode {
        let asked = system::die_with_parent();
        if asked.is_err() || getppid().map(Pid::as_raw_pid) != Some(guard) {
            return ExitCode::from(126);
        }
        // Without it the guard finds what the program starts all the same, as long as it lives.
        let _joined = self.group().map(|group| group.join());
        cannot_start(&self.program[0], &Command::new(&self.program[0]).args(&self.program[1..]).exec())
    }

    fn supervise(&self) -> ExitCode {
        // What loses its parent comes to the guard, and is found below it.
        if let Err(error) = system::adopt() {
            eprintln!("rosterd exec: processes that leave the program's group may outlive it: {error}");
        }
        let mut command = Command::new(this_program());
        command.args([NAME, "--program-of", &getpid().as_raw_pid().to_string()]);
        if let Some(folder) = &self.group {
            command.arg("--group").arg(folder);
        }
        command.arg("--").args(&self.program).stdin(Stdio::null()).process_group(0);
        match command.spawn() {
            Ok(child) => {
                let (status, alone) =
                    guard(child, Duration::from_millis(self.silence_ms), self.group().as_ref());
                if alone && let Some(line) = self.line() {
                    line.say(What::Drop, "its worker was gone or stood still");
                }
                end_as(status)
            }
            Err(error) => cannot_start(&self.program[0], &error),
        }
    }
}

impl Guard {
    fn group(&self) -> Option<Group> {
        self.group.clone().map(Group::at)
    }

    fn line(&self) -> Option<RunLine> {
        RunLine::parse(self.run_log.clone()?, self.run_line.as_ref()?)
    }
}

fn cannot_start(program: &OsString, error: &Error) -> ExitCode {
    eprintln!("rosterd exec: {}: {error}", program.to_string_lossy());
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Watches over the program until it has ended; also whether `exec` was gone or silent by then.
fn guard(mut child: Child, silence: Duration, run: Option<&Group>) -> (ExitStatus, bool) {
    let group = Pid::from_child(&child);
    let words = listen(group);
    let (mut silent_at, mut kill_at, mut killed) = (now() + silence, None::<Duration>, false);
    let mut alone = false;
    loop {
        let next = if killed {
            LOOK
        } else {
            kill_at.map_or(silent_at, |at| at.min(silent_at)).saturating_sub(now())
        };
        match words.recv_timeout(next.min(LOOK)) {
            Ok(Word::Exited) => break,
            Ok(Word::Beat(patience)) => silent_at = now() + patience,
            Ok(Word::Stop(after)) => {
                let at = now() + after;
                signal(group, Signal::TERM);
                let outside =
                    processes::below().into_iter().filter(|process| process.group != group.as_raw_pid());
                outside.for_each(|process| process.signal(Signal::TERM));
                // One that is stopped would not see it.
                signal(group, Signal::CONT);
                kill_at = Some(kill_at.map_or(at, |before| before.min(at)));
            }
            Ok(Word::Gone) => (kill_at, alone) = (Some(Duration::ZERO), true),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => processes::reap_but(group),
        }
        let silent = now() >= silent_at;
        if !killed && (silent || kill_at.is_some_and(|at| now() >= at)) {
            signal(group, Signal::KILL);
            run.iter().for_each(|run| run.kill());
            processes::kill_below();
            killed = true;
            // A process that was paused would report its end when it wakes: long after its item went to another worker.
            alone |= silent;
        }
    }
    // The program is not reaped yet, so its number cannot mean another group.
    signal(group, Signal::KILL);
    processes::kill_below();
    run.iter().for_each(|run| run.end());
    (child.wait().unwrap_or_else(|_| ExitStatus::from_raw(127 << 8)), alone)
}

/// The words of `exec`, and the program's end.
fn listen(program: Pid) -> mpsc::Receiver<Word> {
    let (sender, words) = mpsc::channel();
    let ended = sender.clone();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Some((word, millis)) = line.split_once(' ') else { continue };
            let Ok(millis) = millis.parse().map(Duration::from_millis) else { continue };
            let _ = sender.send(if word == "stop" { Word::Stop(millis) } else { Word::Beat(millis) });
        }
        sender.send(Word::Gone)
    });
    thread::spawn(move || {
        let ends = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(program), ends), Err(rustix::io::Errno::INTR)) {}
        ended.send(Word::Exited)
    });
    words
}

fn signal(group: Pid, signal: Signal) {
    // The only error left is that the group has ended.
    let _ = kill_process_group(group, signal);
}

/// Ends this process as the program ended.
fn end_as(status: ExitStatus) -> ExitCode {
    if let Some(code) = status.code() {
        return ExitCode::from(u8::try_from(code).unwrap_or(1));
    }
    let number = status.signal().unwrap_or(9);
    if let Some(signal) = Signal::from_named_raw(number) {
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        let _ = kill_process(getpid(), signal);
    }
    ExitCode::from(u8::try_from(128 + number).unwrap_or(255))
}

/// Counts suspended time, where a clock does.
fn now() -> Duration {
    let now = clock_gettime(processes::CLOCK);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// This binary.
pub(super) fn this_program() -> PathBuf {
    system::this_program()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::path::PathBuf;

    use rustix::io::Result;
    use rustix::process::{Signal, getpid, set_child_subreaper, set_parent_process_death_signal};

    /// Also when its file was replaced.
    pub(super) fn this_program() -> PathBuf {
        "/proc/self/exe".into()
    }

    pub(super) fn die_with_parent() -> Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))
    }

    /// What loses its parent becomes a child of this process.
    pub(super) fn adopt() -> Result<()> {
        set_child_subreaper(Some(getpid()))
    }
}

/// There are no such calls: `exec` has said at its start what that means.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::path::PathBuf;

    use rustix::io::Result;

    /// Where its file is, or was.
    pub(super) fn this_program() -> PathBuf {
        std::env::current_exe().unwrap_or_else(|_| "rosterd".into())
    }

    #[allow(clippy::unnecessary_wraps, reason = "the other one can fail")]
    pub(super) fn die_with_parent() -> Result<()> {
        Ok(())
    }

    #[allow(clippy::unnecessary_wraps, reason = "the other one can fail")]
    pub(super) fn adopt() -> Result<()> {
        Ok(())
    }
}
