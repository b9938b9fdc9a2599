//! Many seeds, one seed again, and the same seed twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::play::{Outcome, play, world_of};

/// How long a seed has trouble.
const TROUBLE: Duration = Duration::from_secs(60);

fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn report(outcome: &Outcome) -> String {
    let tail = outcome.trace.len().saturating_sub(40);
    format!(
        "seed {} breaks {:#?}\n{}\nplay it again: SEED={} cargo xtask sim\n",
        outcome.seed,
        outcome.broken,
        outcome.trace[tail..].join("\n"),
        outcome.seed
    )
}

/// What must have happened at least once in a hundred seeds, or they prove little.
const TAKEN: &[&str] = &[
    "end of FAILOVER",
    "fault: coordinator crashes",
    "fault: coordinator dies after a write",
    "fault: coordinator stands still",
    "fault: coordinator stops",
    "fault: coordinator vanishes",
    "fault: network slow",
    "fault: operator",
    "fault: read failed",
    "fault: reply lost",
    "fault: request lost",
    "fault: session of a frozen coordinator expires",
    "fault: session of a living coordinator expires",
    "fault: slow store",
    "fault: store out of reach",
    "fault: stream breaks",
    "fault: stream falls silent",
    "fault: worker crashes",
    "fault: worker leaves",
    "fault: worker stands still",
    "fault: worker vanishes",
    "fault: write refused",
    "item: claim",
    "item: end cancelled (reported)",
    "item: end crashed (reported)",
    "item: end crashed (reported, to be run again)",
    "item: end crashed (verdict)",
    "item: end crashed (verdict, to be run again)",
    "item: end failed (reported)",
    "item: end succeeded (reported)",
    "item: give_up",
    "item: misfire",
    "item: miss disabled",
    "item: miss down",
    "item: miss no_slot",
    "item: miss no_worker",
    "item: miss paused",
    "item: new",
    "item: skip",
    "item: start MANUAL",
    "item: start MISFIRE",
    "item: start NORMAL_TRIGGER",
    "operation Apply: done",
    "operation Cancel: done",
    "operation Drain: done",
    "operation Enable: done",
    "operation Pause: done",
    "operation Remove: done",
    "operation Trigger: done",
    "recovery: another leader",
    "recovery: attached again to the same host",
    "recovery: attached to its host's next process",
    "recovery: goodbye by the host",
    "recovery: taken over by another host",
    "recovery: verdict by another",
    "recovery: verdict by the host",
    "worker ended: left",
    "write: lease",
    "write: sweep",
];

/// A line each ten seconds: how many, how fast, what was found.
#[allow(clippy::print_stdout, reason = "who waits wants to know")]
fn progress(said: &AtomicU64, played: u64, count: u64, violations: usize, began: Instant) {
    let (passed, rate) = (began.elapsed(), played as f64 / began.elapsed().as_secs_f64());
    if said.fetch_max(passed.as_secs() / 10, Ordering::Relaxed) < passed.as_secs() / 10 {
        println!("played {played} of {count}, {rate:.2} seeds/s, violations {violations}");
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "what was played is the result")]
fn seeds() {
    let (first, count) = (env("FIRST", 1), env("SEEDS", 60));
    let (next, began) = (AtomicU64::new(first), Instant::now());
    let found: Mutex<(Vec<Outcome>, BTreeMap<String, u64>)> = Mutex::default();
    let (played, said) = (AtomicU64::new(0), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let outcome = play(world_of(seed), TROUBLE);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    for (what, times) in &outcome.coverage {
                        *found.1.entry(what.clone()).or_default() += times;
                    }
                    if !outcome.broken.is_empty() {
                        found.0.push(outcome);
                    }
                    let played = played.fetch_add(1, Ordering::Relaxed) + 1;
                    progress(&said, played, count, found.0.len(), began);
                }
            });
        }
    });
    let (mut broken, coverage) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (what, times) in &coverage {
        println!("{times:>9}  {what}");
    }
    broken.sort_by_key(|outcome| outcome.seed);
    for outcome in &broken {
        println!("seed {}: {} {}", outcome.seed, outcome.broken[0].rule, outcome.broken[0].text);
    }
    let (passed, violations) = (began.elapsed().as_secs_f64(), broken.len());
    println!("{:.1} s, {:.2} seeds/s", passed, count as f64 / passed);
    let never: Vec<&&str> = TAKEN.iter().filter(|what| !coverage.contains_key(**what)).collect();
    assert!(count < 100 || never.is_empty(), "never taken: {never:?}");
    println!("seeds {count}, violations {violations}");
    if let Some(first) = broken.first() {
        panic!("{}", report(first));
    }
}

/// Plays the seed that the environment names, with everything that happens.
#[test]
fn replay() {
    let Ok(seed) = std::env::var("SEED") else { return };
    let seed = seed.parse().unwrap_or(1);
    if let Ok(filter) = std::env::var("RUST_LOG") {
        let _set = tracing_subscriber::fmt().without_time().with_env_filter(filter).try_init();
    }
    let outcome = play(world_of(seed), TROUBLE);
    assert!(outcome.broken.is_empty(), "{}", report(&outcome));
}

#[test]
fn a_seed_gives_the_same_history_again() {
    for seed in [3, 4] {
        let (once, again) = (play(world_of(seed), TROUBLE), play(world_of(seed), TROUBLE));
        for (a, b) in once.trace.iter().zip(&again.trace) {
            assert_eq!(a, b, "seed {seed}");
        }
        assert_eq!(once.trace.len(), again.trace.len());
    }
}
