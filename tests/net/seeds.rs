//! Many seeds, one seed again, and the same seed twice, packet by packet.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::apart::command;
use crate::many::{self, env};
use crate::packets;
use crate::play::{play, world_of};

/// How long a seed has faults.
const TROUBLE: Duration = Duration::from_secs(25);
/// How many seeds are played by default.
const SEEDS: u64 = 100;

/// What must have happened at least once in a hundred seeds, or they prove little.
const TAKEN: &[&str] = &[
    "fault: answer of the store lost",
    "fault: coordinator crashes",
    "fault: coordinator held up",
    "fault: coordinator stops",
    "fault: coordinator vanishes",
    "fault: packets held",
    "fault: packets lost both ways",
    "fault: packets slow",
    "fault: packets to a coordinator lost",
    "fault: packets to a worker lost",
    "fault: session of a living coordinator expires",
    "fault: slow store",
    "fault: store out of reach",
    "fault: transaction lost",
    "fault: worker alone",
    "fault: worker crashes",
    "fault: worker leaves",
    "fault: worker vanishes",
    "operation: done",
    "recovery: a new session in the same process",
    "recovery: attached again to the same host",
    "recovery: taken over by another host",
    "recovery: expire by another",
    "recovery: expire by the host",
    "worker ended: left",
];

/// Plays a seed in a separate process. Returns its coverage, or its output.
fn played(seed: u64) -> Result<BTreeMap<String, u64>, String> {
    let output = command("seeds::child").env("ROSTERD_NET_SEED", seed.to_string()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{said}\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let count = |line: &str| {
        let (times, what) = line.strip_prefix("taken ")?.split_once(' ')?;
        Some((what.to_owned(), times.parse().ok()?))
    };
    Ok(said.lines().filter_map(count).collect())
}

#[test]
#[allow(clippy::print_stdout, reason = "its parent reads it")]
fn child() {
    let Ok(seed) = std::env::var("ROSTERD_NET_SEED") else { return };
    let told = std::env::var("ROSTERD_NET_PACKETS").ok().map(|path| packets::write_to(&path));
    let outcome = play(world_of(seed.parse().unwrap()), TROUBLE);
    if let Some(tell) = told {
        outcome.trace.iter().for_each(|line| tell(line));
    }
    outcome.is_clean();
    println!();
    for (what, times) in &outcome.coverage {
        println!("taken {times} {what}");
    }
}

/// The result of the seeds.
#[derive(Default)]
struct Found {
    broken: BTreeMap<u64, String>,
    taken: BTreeMap<String, u64>,
}

impl Found {
    fn count(&mut self, taken: BTreeMap<String, u64>) {
        taken.into_iter().for_each(|(what, n)| *self.taken.entry(what).or_default() += n);
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "what was played is the result")]
fn seeds() {
    let first = env("FIRST").unwrap_or(1);
    let count = env("SEEDS").unwrap_or(SEEDS);
    let (threads, began) =
        (std::thread::available_parallelism().map_or(2, usize::from).min(8), Instant::now());
    let take = |found: &mut Found, seed, result| {
        match result {
            Ok(taken) => found.count(taken),
            Err(text) => {
                println!("seed {seed} breaks a promise: SEED={seed} cargo xtask sim --network");
                found.broken.insert(seed, text);
            }
        }
        found.broken.len()
    };
    let Found { broken, taken: coverage } = many::play_all((first, count), threads, played, take);
    for (what, times) in &coverage {
        println!("{times:>9}  {what}");
    }
    println!(
        "{:.1} s, {:.2} seeds/s",
        began.elapsed().as_secs_f64(),
        count as f64 / began.elapsed().as_secs_f64()
    );
    if !broken.is_empty() {
        println!("broken by {:?}", broken.keys().collect::<Vec<_>>());
    }
    println!("seeds {count}, violations {}", broken.len());
    if let Some((_, text)) = broken.first_key_value() {
        panic!("{text}");
    }
    let never: Vec<&&str> = TAKEN.iter().filter(|what| !coverage.contains_key(**what)).collect();
    assert!(count < 100 || never.is_empty(), "never taken: {never:?}");
}

/// Plays the seed that the environment names, with a full trace.
#[test]
fn replay() {
    let Ok(seed) = std::env::var("SEED") else { return };
    let mut child = command("seeds::child");
    child.env("ROSTERD_NET_SEED", &seed).env("VERBOSE", "1");
    assert!(child.status().unwrap().success(), "seed {seed} breaks a promise");
}

#[test]
fn a_seed_gives_the_same_packets_again() {
    let dir = tempfile::TempDir::new().unwrap();
    let once = |seed: u64, time: u64| {
        let path = dir.path().join(format!("{seed}.{time}"));
        let mut child = command("seeds::child");
        child.env("ROSTERD_NET_SEED", seed.to_string()).env("ROSTERD_NET_PACKETS", &path);
        assert!(child.output().unwrap().status.success(), "seed {seed} breaks a promise");
        std::fs::read_to_string(path).unwrap()
    };
    for seed in [2, 3] {
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| once(seed, 2));
            (once(seed, 1), second.join().unwrap())
        });
        for (number, (a, b)) in first.lines().zip(second.lines()).enumerate() {
            assert_eq!(a, b, "seed {seed}, line {number}");
        }
        assert_eq!(first.len(), second.len(), "seed {seed}");
        assert!(first.lines().count() > 2_000, "seed {seed} says little");
    }
}
