//! Many seeds, on as many threads as there are cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A number that the environment names.
pub fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Plays `count` seeds on this many threads, one on each at a time, and collects the results. `take` adds one, and
/// returns how many have broken an invariant so far.
pub fn play_all<O, F: Default + Send>(
    (first, count): (u64, u64),
    threads: usize,
    play: impl Fn(u64) -> O + Sync,
    take: impl Fn(&mut F, u64, O) -> usize + Sync,
) -> F {
    let (next, said) = (AtomicU64::new(first), AtomicU64::new(0));
    let (found, began) = (Mutex::<(F, u64)>::default(), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let outcome = play(seed);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    let (found, played) = &mut *found;
                    let violations = take(found, seed, outcome);
                    *played += 1;
                    progress(&said, *played, count, violations, began);
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner).0
}

/// A line every ten seconds: count, rate, findings.
#[allow(clippy::print_stdout, reason = "who waits wants to know")]
fn progress(said: &AtomicU64, played: u64, count: u64, violations: usize, began: Instant) {
    let (passed, rate) = (began.elapsed(), played as f64 / began.elapsed().as_secs_f64());
    if said.fetch_max(passed.as_secs() / 10, Ordering::Relaxed) < passed.as_secs() / 10 {
        println!("played {played} of {count}, {rate:.2} a second, violations {violations}");
    }
}
