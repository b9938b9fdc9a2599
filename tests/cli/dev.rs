//! `rosterd dev`, as a newcomer starts it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::binary::command;

/// How long a line may take. The demonstration fires every five seconds.
const PATIENCE: Duration = Duration::from_secs(60);

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A line without the parts that vary: numbers, names of workers, and who was greeted.
fn shape(line: &str) -> String {
    let line = line.split("greeted ").next().unwrap_or_default();
    let names = ["ann", "ben", "cleo"];
    // Names have different lengths, in a column.
    let words = line.split_whitespace().map(|word| if names.contains(&word) { "NAME" } else { word });
    let text = words.collect::<Vec<_>>().join(" ");
    let mut shape = String::new();
    for part in text.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }) {
        if !(part == '#' && shape.ends_with('#')) {
            shape.push(part);
        }
    }
    shape
}

#[test]
#[allow(clippy::disallowed_methods, reason = "what is tried here is real time")]
fn the_demonstration_tells_what_happens_and_logs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut dev = command();
    dev.args(["dev", "--listen", "127.0.0.1:0"]).current_dir(dir.path());
    let mut dev = Ended(dev.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let out = BufReader::new(dev.0.stdout.take().unwrap());
    let (lines, told) = mpsc::channel();
    std::thread::spawn(move || out.lines().map_while(Result::ok).all(|line| lines.send(line).is_ok()));
    let deadline = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    let readme = include_str!("../../README.md");
    let sample: Vec<&str> = readme.lines().skip_while(|line| !line.starts_with("rosterd is up on")).collect();
    let in_order = [
        "rosterd is up on http://127.0.0.1:",
        "worker      ",
        "assignment  demo: ",
        "  start     demo/",
        "  succeeded demo/",
    ];
    for beginning in in_order {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = told.recv_timeout(left).unwrap_or_else(|_| panic!("no {beginning:?} after {seen:#?}"));
            let found = line.starts_with(beginning);
            if found {
                let told = sample.iter().find(|told| told.starts_with(beginning));
                let told = told.unwrap_or_else(|| panic!("README has no line {beginning:?}"));
                // The assignment depends on which workers have attached.
                let same = beginning.starts_with("assignment") || shape(told) == shape(&line);
                assert!(same, "README says {told:?}, it is {line:?}");
            }
            seen.push(line);
            if found {
                break;
            }
        }
    }
    // A killed worker comes back.
    let process = seen.iter().find_map(|line| line.strip_prefix("worker      ben is process ")).unwrap();
    let process = rustix::process::Pid::from_raw(process.parse().unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    // In any order: the hint is timed.
    let mut awaited = vec!["worker      ben has ended", "Now break something", "worker      ben is process"];
    while !awaited.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = told.recv_timeout(left).unwrap_or_else(|_| panic!("no {awaited:?} after {seen:#?}"));
        awaited.retain(|beginning| !line.starts_with(beginning));
        seen.push(line);
    }
    // The length of this program's path varies.
    seen.retain(|line| !line.contains(env!("CARGO_BIN_EXE_rosterd")));
    assert!(seen.iter().all(|line| line.chars().count() <= 80), "{seen:#?}");
    dev.0.kill().unwrap();
    let mut log = String::new();
    dev.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(!log.contains(" INFO "), "{log}");
}
