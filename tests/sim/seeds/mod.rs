//! Many seeds, one seed again, and the same seed twice.

pub mod play;
mod required;
pub mod script;
mod shrink;
pub mod vocabulary;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::many::{self, env};
use crate::oracle::coverage::Counts;
use crate::seeds::play::{PlayOutcome, play};
use crate::seeds::script::Script;
use crate::seeds::shrink::shrink;

/// How many failures are shrunk, each of another invariant, unless the environment overrides it (`SHRUNK=0`: none); the
/// others are only named.
const SHRUNK: u64 = 3;

/// How many a plain `cargo test` plays; a build sets `ROSTERD_SIM_SEEDS` (`cargo xtask test`).
const SEEDS: u64 = 60;

/// The script of a seed. `HOSTILE=RATE`: always with the hostile worker, at no fewer frames a second.
fn script(seed: u64) -> Script {
    let script = Script::of(seed);
    Script { hostile: script.hostile.max(env("HOSTILE").unwrap_or(0)), ..script }
}

/// Prints a seed that broke an invariant: which one, the last events, and how to replay it.
#[allow(clippy::print_stdout, reason = "what was found is the result")]
fn report(seed: u64) {
    let script = script(seed);
    let Some(first) = play(&script, false).broken.into_iter().next() else {
        return println!("seed {seed} breaks nothing when it is played again: the simulation is not exact");
    };
    println!("seed {seed} breaks {}: {}\nit is made shorter …", first.rule, first.text);
    let short = shrink(&script, first.rule);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("seed-{seed}.script"));
    let kept = fs::write(&file, short.text());
    let outcome = play(&short, true);
    let tail = outcome.trace.len().saturating_sub(60);
    println!("{}", outcome.trace[tail..].join("\n"));
    println!("{} of {} events are left:\n{}", short.events.len(), script.events.len(), short.text());
    match kept {
        Ok(()) => println!("play it again: SCRIPT={} cargo xtask sim", file.display()),
        Err(error) => println!("it could not be kept at {}: {error}", file.display()),
    }
    let hostile = env("HOSTILE").map(|rate| format!("HOSTILE={rate} ")).unwrap_or_default();
    println!("the whole of it: {hostile}SEED={seed} cargo xtask sim\n");
}

#[derive(Default)]
struct Found {
    broken: Vec<PlayOutcome>,
    counts: Counts,
    steps: u64,
}

impl Found {
    fn take(&mut self, outcome: PlayOutcome) {
        for (what, times) in &outcome.coverage {
            *self.counts.entry(what.clone()).or_default() += times;
        }
        self.steps += outcome.simulated.as_secs();
        if !outcome.broken.is_empty() {
            self.broken.push(outcome);
        }
    }
}

/// Plays seeds, and prints each finding at once.
#[allow(clippy::print_stdout, reason = "findings are printed at once")]
fn play_all(first: u64, count: u64, threads: usize) -> Found {
    let take = |found: &mut Found, seed, outcome: PlayOutcome| {
        if let Some(first) = outcome.broken.first() {
            println!("seed {seed}: {} {}", first.rule, first.text);
        }
        found.take(outcome);
        found.broken.len()
    };
    many::play_all((first, count), threads, |seed| play(&script(seed), false), take)
}

/// The first seed of each of the first few broken invariants.
fn worth_shrinking(broken: &[PlayOutcome]) -> Vec<u64> {
    let mut rules = BTreeSet::new();
    let first = broken.iter().filter(|outcome| rules.insert(outcome.broken[0].rule));
    let most = usize::try_from(env("SHRUNK").unwrap_or(SHRUNK)).unwrap_or(usize::MAX);
    first.take(most).map(|outcome| outcome.seed).collect()
}

#[test]
#[allow(clippy::print_stdout, reason = "what was played is the result")]
fn seeds() {
    let first = env("FIRST").unwrap_or(1);
    let count = env("SEEDS").or(env("ROSTERD_SIM_SEEDS")).unwrap_or(SEEDS);
    let cores = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    let began = Instant::now();
    let mut found = play_all(first, count, env("THREADS").map_or(cores, |threads| threads as usize));
    let passed = began.elapsed().as_secs_f64();
    for (what, times) in &found.counts {
        println!("{times:>9}  {what}");
    }
    let missing = required::missing(&found.counts, count);
    let unheard_of = required::unheard_of(&found.counts);
    missing.iter().chain(&unheard_of).for_each(|line| println!("{line}"));
    found.broken.sort_by_key(|outcome| outcome.seed);
    for outcome in &found.broken {
        println!("seed {}: {} {}", outcome.seed, outcome.broken[0].rule, outcome.broken[0].text);
    }
    worth_shrinking(&found.broken).into_iter().for_each(report);
    let rate = count as f64 / passed;
    println!("{passed:.1} s, {rate:.2} seeds/s, {} simulated hours", found.steps / 3600);
    println!("seeds {count}, violations {}", found.broken.len());
    assert!(found.broken.is_empty(), "{} seeds of {count} break a promise", found.broken.len());
    assert!(count < required::SOME || missing.is_empty(), "too seldom: {missing:#?}");
    assert!(unheard_of.is_empty(), "not foreseen: {unheard_of:#?}");
}

/// Plays the seed or the script that the environment names, with a full trace. `KEEP=FILE` writes the script there.
#[test]
fn replay() {
    let script = match (std::env::var("SCRIPT"), env("SEED")) {
        (Ok(file), _) => fs::read_to_string(&file)
            .map_err(|error| error.to_string())
            .and_then(|text| Script::read(&text))
            .unwrap_or_else(|why| panic!("SCRIPT={file}: {why}")),
        (_, Some(seed)) => script(seed),
        _ => return,
    };
    if let Ok(file) = std::env::var("KEEP") {
        fs::write(&file, script.text()).unwrap_or_else(|error| panic!("KEEP={file}: {error}"));
    }
    if let Ok(filter) = std::env::var("RUST_LOG") {
        let filter: Targets = filter.parse().unwrap_or_else(|error| panic!("RUST_LOG={filter}: {error}"));
        let lines = tracing_subscriber::fmt::layer().without_time().with_filter(filter);
        let _set = tracing_subscriber::registry().with(lines).try_init();
    }
    let outcome = play(&script, true);
    let tail = outcome.trace.len().saturating_sub(60);
    let last = outcome.trace[tail..].join("\n");
    assert!(outcome.broken.is_empty(), "{last}\n{}\n{:#?}", script.text(), outcome.broken);
}

#[test]
fn a_seed_gives_the_same_history_again() {
    for seed in [3, 4, 5, 6] {
        let script = Script::of(seed);
        let (once, again) = (play(&script, true), play(&script, true));
        for (a, b) in once.trace.iter().zip(&again.trace) {
            assert_eq!(a, b, "seed {seed}");
        }
        assert_eq!(once.trace.len(), again.trace.len());
        let counts: BTreeMap<_, _> = play(&script, false).coverage;
        assert_eq!(counts, again.coverage, "seed {seed} depends on whether it is traced");
    }
}
