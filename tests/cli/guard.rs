//! The process between `exec` and a program.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::binary::command;

/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(20);

fn guard(args: &[&str], script: &str) -> Child {
    let mut command = command();
    command.arg("exec-guard").args(args).args(["--", "sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The state of a process, as the kernel shows it; `None`: there is no such process.
fn state(pid: &str) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit(')').next()?.split_whitespace().next()?.to_owned())
}

/// Whether a process is running: a zombie is not.
pub(crate) fn alive(pid: &str) -> bool {
    state(pid).is_some_and(|state| state != "Z")
}

/// Whether a process is stopped: a stop signal takes effect when the process is next scheduled.
pub(crate) fn stopped(pid: &str) -> bool {
    state(pid).as_deref() == Some("T")
}

/// The pids that a script wrote into a file, once it has.
pub(crate) fn pids(path: &std::path::Path, count: usize) -> Vec<String> {
    let read = || -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
    };
    until("the program has started", || read().len() >= count);
    read()
}

/// A script that writes its pid and that of a child into a file, and waits.
pub(crate) fn family(file: &std::path::Path) -> String {
    let file = file.display();
    format!("sleep 1000 & echo $! >> {file}; echo $$ >> {file}; wait")
}

fn ended(mut guard: Child) -> ExitStatus {
    until("the guard has ended", || guard.try_wait().unwrap().is_some());
    guard.wait().unwrap()
}

#[test]
fn it_ends_as_the_program_ended() {
    assert_eq!(ended(guard(&[], "exit 0")).code(), Some(0));
    assert_eq!(ended(guard(&[], "exit 37")).code(), Some(37));
    assert_eq!(ended(guard(&[], "kill -9 $$")).signal(), Some(9));
    assert_eq!(ended(guard(&[], "kill -TERM $$")).signal(), Some(15));
}

#[test]
fn a_program_that_is_not_there_is_exit_code_127_with_a_message() {
    let mut command = command();
    let command = command.args(["exec-guard", "--", "/nowhere/at/all"]).stdin(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(127));
    assert!(told.starts_with("rosterd exec: /nowhere/at/all: No such file"), "{told}");
}

#[test]
fn the_end_of_the_pipe_kills_the_whole_group() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let mut guard = guard(&["--silence-ms", "600000"], &family(&file));
    let pids = pids(&file, 2);
    assert!(pids.iter().all(|pid| alive(pid)));
    drop(guard.stdin.take());
    assert_eq!(ended(guard).signal(), Some(9));
    until("the group is gone", || !pids.iter().any(|pid| alive(pid)));
}

#[test]
fn silence_kills_as_well() {
    let guard = guard(&["--silence-ms", "300"], "sleep 1000");
    let started = Instant::now();
    assert_eq!(ended(guard).signal(), Some(9));
    assert!(started.elapsed() >= Duration::from_millis(250));
}

#[test]
fn beats_keep_a_program_alive() {
    let mut guard = guard(&["--silence-ms", "5000"], "sleep 7");
    let mut pipe = guard.stdin.take().unwrap();
    while guard.try_wait().unwrap().is_none() {
        let _ = pipe.write_all(b"beat 5000\n");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(guard.wait().unwrap().code(), Some(0));
}

/// Each message extends how long the program may go on: the remaining process enforces the end of the lease.
#[test]
fn the_last_beat_says_how_long_a_program_may_go_on() {
    let mut guard = guard(&["--silence-ms", "600000"], "sleep 600");
    let mut pipe = guard.stdin.take().unwrap();
    pipe.write_all(b"beat 600000\nbeat 300\n").unwrap();
    let started = Instant::now();
    assert_eq!(ended(guard).signal(), Some(9));
    assert!(started.elapsed() >= Duration::from_millis(250));
    drop(pipe);
}

#[test]
fn stop_asks_first_and_kills_later() {
    let mut polite =
        guard(&["--silence-ms", "600000"], "trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done");
    polite.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
    polite.stdin.as_mut().unwrap().write_all(b"stop 600000\n").unwrap();
    let pipe = polite.stdin.take();
    assert_eq!(ended(polite).code(), Some(5));
    drop(pipe);

    let mut deaf = guard(&["--silence-ms", "600000"], "trap '' TERM; echo up; while :; do sleep 0.01; done");
    deaf.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
    let asked = Instant::now();
    deaf.stdin.as_mut().unwrap().write_all(b"stop 300\n").unwrap();
    let pipe = deaf.stdin.take();
    assert_eq!(ended(deaf).signal(), Some(9));
    assert!(asked.elapsed() >= Duration::from_millis(300));
    drop(pipe);
}

/// A script that starts a process in a session of its own, whose parent is gone, writes its pid into a file, and goes
/// on once that is written.
pub(crate) fn escapes(file: &std::path::Path) -> String {
    let file = file.display();
    format!(
        "(setsid sh -c 'echo $$ >> {file}; exec sleep 1000' >/dev/null 2>&1 &); while [ ! -s {file} ]; do sleep 0.01; done"
    )
}

#[test]
fn what_leaves_its_session_ends_with_the_program_and_with_the_pipe() {
    for ending in ["exit 5", "while :; do sleep 0.01; done"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pids");
        let mut guard = guard(&["--silence-ms", "600000"], &format!("{}; {ending}", escapes(&file)));
        let escaped = pids(&file, 1);
        if ending != "exit 5" {
            assert!(alive(&escaped[0]));
            drop(guard.stdin.take());
        }
        let pipe = guard.stdin.take();
        let status = ended(guard);
        assert!(status.code() == Some(5) || status.signal() == Some(9), "{status:?}");
        assert!(!alive(&escaped[0]), "{ending}");
        drop(pipe);
    }
}

#[test]
fn what_left_its_session_is_asked_to_stop_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let (up, asked) = (dir.path().join("up"), dir.path().join("asked"));
    let (up_at, asked_at) = (up.display(), asked.display());
    let trap =
        format!("trap \"echo > {asked_at}; exit\" TERM; echo up >> {up_at}; while :; do sleep 0.01; done");
    let script = format!(
        "trap 'while [ ! -e {asked_at} ]; do sleep 0.01; done; exit 5' TERM; \
         (setsid sh -c '{trap}' &); while :; do sleep 0.01; done"
    );
    let mut guard = guard(&["--silence-ms", "600000"], &script);
    pids(&up, 1);
    guard.stdin.as_mut().unwrap().write_all(b"stop 600000\n").unwrap();
    let pipe = guard.stdin.take();
    assert_eq!(ended(guard).code(), Some(5));
    drop(pipe);
}

#[test]
fn what_a_program_leaves_behind_in_its_group_goes_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = format!("sleep 1000 >/dev/null 2>&1 & echo $! >> {}", file.display());
    let guard = guard(&["--silence-ms", "600000"], &script);
    let left = pids(&file, 1);
    assert_eq!(ended(guard).code(), Some(0));
    until("it is gone", || !alive(&left[0]));
}

#[test]
fn the_program_dies_with_its_guard() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let mut guard =
        guard(&["--silence-ms", "600000"], &format!("echo $$ >> {}; exec sleep 1000", file.display()));
    let program = pids(&file, 1);
    guard.kill().unwrap();
    guard.wait().unwrap();
    until("the program is gone", || !alive(&program[0]));
}
