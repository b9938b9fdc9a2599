//! The processes that a program has started, wherever they have gone: found in `/proc`, by their parents or by their
//! environment. A process that leaves its group or session stays below its guard, which adopts what loses its parent.
//! Called by the guard for all that is below it, and by `exec` for what a killed guard has left.
//!
//! Without `/proc` nothing is found, and a program's own process group is all that is killed: see [`LOST`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, waitid};
use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
use self::linux as system;
#[cfg(not(target_os = "linux"))]
use self::other as system;

/// What `exec` cannot promise on this system; none on Linux.
pub(super) const LOST: Option<&str> = if cfg!(target_os = "linux") {
    None
} else {
    Some(
        "on this system only the program's own process group is killed: what leaves that group may outlive the run, \
         and so may the program where its guard is killed; programs may read this process's memory, with the credential in it; \
         a wait does not count the machine's sleep",
    )
};
/// Keeps programs of this user from reading this process's memory, where the system can.
pub(super) use system::hide_memory;
/// Counts suspended time, where a clock does.
pub(super) const CLOCK: ClockId = system::CLOCK;

/// How long the end of killed processes is waited for: one that hangs in a device does not end.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// One process as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pid: Pid,
    parent: i32,
    pub(super) group: i32,
    /// In ticks since the machine started: tells it from a later process of the same number.
    started: u64,
    zombie: bool,
}

impl Process {
    fn read(pid: Pid) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
        Self::parse(pid, &stat)
    }

    /// The name in parentheses may hold anything, so the fields count from its end.
    fn parse(pid: Pid, stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            zombie: matches!(*fields.first()?, "Z" | "X"),
        })
    }

    /// Signals this process, and no other that got its number meanwhile.
    pub(super) fn signal(&self, signal: Signal) {
        let still = || Self::read(self.pid).is_some_and(|now| now.started == self.started);
        system::signal(self.pid, still, signal);
    }

    fn has(&self, marks: &[String]) -> bool {
        let environment =
            std::fs::read(format!("/proc/{}/environ", self.pid.as_raw_pid())).unwrap_or_default();
        let entries: BTreeSet<&[u8]> = environment.split(|byte| *byte == 0).collect();
        marks.iter().all(|mark| entries.contains(mark.as_bytes()))
    }
}

/// This process: its number, and when it started.
pub(super) fn this() -> Option<(i32, u64)> {
    Process::read(getpid()).map(|own| (own.pid.as_raw_pid(), own.started))
}

/// Whether that process still runs.
pub(super) fn runs(pid: i32, started: u64) -> bool {
    Pid::from_raw(pid).and_then(Process::read).is_some_and(|found| found.started == started)
}

/// All processes that run.
fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    pids.filter_map(Process::read).filter(|process| !process.zombie).collect()
}

/// The children of this process, their children, and so on.
pub(super) fn below() -> Vec<Process> {
    below_of(getpid().as_raw_pid(), all())
}

fn below_of(root: i32, all: Vec<Process>) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut roots) = (Vec::new(), vec![root]);
    while let Some(root) = roots.pop() {
        let next = children.remove(&root).unwrap_or_default();
        roots.extend(next.iter().map(|process| process.pid.as_raw_pid()));
        found.extend(next);
    }
    found
}

/// Kills all that is below this process.
pub(super) fn kill_below() {
    kill_while(below);
}

/// Kills all whose environment has these entries.
pub(super) fn kill_marked(marks: &[String]) {
    kill_while(|| {
        all().into_iter().filter(|process| process.pid != getpid() && process.has(marks)).collect()
    });
}

/// Kills what is found until nothing is: between two looks a process may start others.
fn kill_while(find: impl Fn() -> Vec<Process>) {
    let end = now() + KILL_PATIENCE;
    loop {
        let found = find();
        if found.is_empty() || now() >= end {
            return;
        }
        found.iter().for_each(|process| process.signal(Signal::KILL));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes note of the end of adopted processes, but not of this child's. Where the kernel does not list children, they
/// stay in its table until this process ends.
pub(super) fn reap_but(child: Pid) {
    let own = getpid().as_raw_pid();
    let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw));
    for adopted in children.filter(|pid| *pid != child) {
        let _ = waitid(WaitId::Pid(adopted), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

fn now() -> Duration {
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::process::{
        DumpableBehavior, Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_dumpable_behavior,
    };
    use rustix::time::ClockId;

    pub(super) const CLOCK: ClockId = ClockId::Boottime;

    pub(in crate::cli::exec) fn hide_memory() -> rustix::io::Result<()> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
    }

    /// `still` is asked once nothing else can get the number.
    pub(super) fn signal(pid: Pid, still: impl Fn() -> bool, signal: Signal) {
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if still() {
            let _ = pidfd_send_signal(process, signal);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use rustix::process::{Pid, Signal, kill_process};
    use rustix::time::ClockId;

    pub(super) const CLOCK: ClockId = ClockId::Monotonic;

    #[allow(clippy::unnecessary_wraps, reason = "the other one can fail")]
    pub(in crate::cli::exec) fn hide_memory() -> rustix::io::Result<()> {
        Ok(())
    }

    /// Between the question and the signal the number may become another's.
    pub(super) fn signal(pid: Pid, still: impl Fn() -> bool, signal: Signal) {
        if still() {
            let _ = kill_process(pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        let tail = "1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0";
        let stat = format!("{pid} (a ) S 9 (b) S {parent} {tail}");
        Process::parse(Pid::from_raw(pid).unwrap(), &stat).unwrap()
    }

    #[test]
    fn a_name_that_looks_like_fields_misleads_nobody() {
        let found = process(10, 3);
        assert_eq!((found.parent, found.group, found.started, found.zombie), (3, 1, 77, false));
    }

    #[test]
    fn children_of_children_are_found_whatever_their_order() {
        let all = [(13, 12), (12, 10), (11, 1), (10, 5), (14, 11)].map(|(pid, parent)| process(pid, parent));
        let found: Vec<i32> = below_of(5, all.to_vec()).iter().map(|found| found.pid.as_raw_pid()).collect();
        assert_eq!(found, [10, 12, 13]);
    }
}
