//! A control group (cgroup v2) for each run, where this process may make groups below its own: systemd's `Delegate=yes`, or a
//! container that may. What a program starts stays in the group of its run, whatever session, parent or environment it takes,
//! and is killed with it in one step. Where groups are not allowed nothing is made, and `processes` is all there is.
//!
//! Groups are named for their process. One that was killed with its guards leaves its groups behind: the next that starts here
//! ends them.

use std::fs;
use std::io::{Error, ErrorKind, Result, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::processes;

/// How the names of all groups begin.
const NAME: &str = "rosterd-exec";
/// How often it is looked whether killed processes have ended, each time a millisecond later.
const LOOKS: u32 = 2000;

/// Where groups of runs are made.
#[derive(Debug)]
pub(super) struct Groups {
    below: PathBuf,
    /// The process as names have it.
    own: String,
    made: AtomicU64,
}

impl Groups {
    /// Below this process's own group; none if that is not allowed, or without cgroups, which it logs.
    pub(super) fn of_this_process() -> Option<Self> {
        if let Some(lost) = processes::LOST {
            tracing::warn!("{lost}");
            return None;
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let space = fs::read_link("/proc/self/ns/pid").ok()?;
        let digits: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        let (pid, started) = processes::this()?;
        Self::below(own_folder(&mounts, &groups)?, format!("{NAME}-{digits}-{pid}-{started}"))
    }

    fn below(below: PathBuf, own: String) -> Option<Self> {
        let groups = Self { below, own, made: AtomicU64::new(0) };
        // Whether it may is known once it did.
        groups.make()?.end();
        groups.end_left(processes::runs);
        Some(groups)
    }

    /// A group for one run.
    pub(super) fn make(&self) -> Option<Group> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Group::make(self.below.join(format!("{}-{number}", self.own))).ok()
    }

    /// Ends the groups of processes that run no more; those of another space of process numbers are not ours to judge.
    fn end_left(&self, runs: impl Fn(i32, u64) -> bool) {
        let space = self.own.rsplitn(3, '-').nth(2).unwrap_or_default();
        for entry in fs::read_dir(&self.below).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let whose = name.to_str().and_then(|name| name.strip_prefix(space)?.strip_prefix('-'));
            let mut numbers = whose.into_iter().flat_map(|whose| whose.splitn(3, '-'));
            let pid = numbers.next().and_then(|pid| pid.parse().ok());
            let started = numbers.next().and_then(|started| started.parse().ok());
            if let (Some(pid), Some(started)) = (pid, started)
                && !runs(pid, started)
            {
                Group { folder: entry.path() }.end();
            }
        }
    }
}

/// The group of one run.
#[derive(Debug)]
pub(super) struct Group {
    folder: PathBuf,
}

impl Group {
    fn make(folder: PathBuf) -> Result<Self> {
        fs::create_dir(&folder)?;
        let group = Self { folder };
        // A kernel before 5.14 kills no groups, and a folder that is not a group has no such file.
        if group.folder.join("cgroup.kill").exists() {
            return Ok(group);
        }
        fs::remove_dir(&group.folder)?;
        Err(Error::from(ErrorKind::Unsupported))
    }

    /// One that `exec` has made.
    pub(super) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// This process, and all that it starts, is in the group from here on.
    pub(super) fn join(&self) -> Result<()> {
        self.write("cgroup.procs", b"0")
    }

    /// Kills all that is in it.
    pub(super) fn kill(&self) {
        // One that is not there holds nobody.
        let _ = self.write("cgroup.kill", b"1");
    }

    /// The kernel makes the files of a group; none is made here.
    fn write(&self, file: &str, word: &[u8]) -> Result<()> {
        fs::OpenOptions::new().write(true).open(self.folder.join(file))?.write_all(word)
    }

    /// Kills all that is in it, and removes it once they have ended.
    pub(super) fn end(&self) {
        self.kill();
        for _ in 0..LOOKS {
            match remove(&self.folder) {
                Err(error) if error.kind() != ErrorKind::NotFound => thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
    }
}

/// With the groups that programs have made in it.
fn remove(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

/// The folder of this process's group, of what `/proc` says of mounts and groups.
fn own_folder(mounts: &str, groups: &str) -> Option<PathBuf> {
    let own = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut fields = place.split(' ').skip(3);
        let (root, mounted) = (fields.next()?, fields.next()?);
        let below = own.strip_prefix(root).ok().filter(|_| kind.starts_with("cgroup2 "))?;
        Some(if below.as_os_str().is_empty() { mounted.into() } else { Path::new(mounted).join(below) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 28 0:20 / /proc rw - proc proc rw\n\
                          30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_folder_is_found_below_the_mount() {
        let found = |groups: &str| own_folder(MOUNTS, groups).map(|path| path.display().to_string());
        assert_eq!(found("0::/\n").as_deref(), Some("/sys/fs/cgroup"));
        let own = found("4:memory:/a\n0::/system.slice/worker.service\n");
        assert_eq!(own.as_deref(), Some("/sys/fs/cgroup/system.slice/worker.service"));
        assert_eq!(found("4:memory:/a\n"), None, "cgroup v1 alone");
        let inside = MOUNTS.replace("0:26 / ", "0:26 /system.slice ");
        let found = |groups: &str| own_folder(&inside, groups).map(|path| path.display().to_string());
        assert_eq!(found("0::/system.slice/w\n").as_deref(), Some("/sys/fs/cgroup/w"));
        assert_eq!(found("0::/elsewhere\n"), None);
    }

    #[test]
    fn where_groups_cannot_be_made_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Groups::below(dir.path().to_owned(), format!("{NAME}-1-2-3")).is_none());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(Groups::below(dir.path().join("nowhere"), format!("{NAME}-1-2-3")).is_none());
    }

    #[test]
    fn groups_of_the_dead_are_ended_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["1-20-5-0", "1-21-5-7", "2-20-5-0"].map(|of| format!("{NAME}-{of}")) {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::create_dir(dir.path().join("of-another")).unwrap();
        let own = format!("{NAME}-1-22-9");
        let groups = Groups { below: dir.path().to_owned(), own, made: AtomicU64::new(0) };
        fs::create_dir(dir.path().join(format!("{NAME}-1-20-5-0/of-the-program"))).unwrap();
        groups.end_left(|pid, _| pid == 21);
        let entries = fs::read_dir(dir.path()).unwrap();
        let mut left: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        let others = ["1-21-5-7", "2-20-5-0"].map(|of| format!("{NAME}-{of}"));
        assert_eq!(left, [&["of-another".to_owned()], &others[..]].concat());
    }
}
