//! The simulation: whole clusters in one thread under a simulated clock, with faults from a seed, held against the
//! promises after every applied transaction.
//!
//! `SEED=7 cargo xtask sim` plays one seed again and prints what happened, `cargo xtask sim --seeds 1000` plays more of
//! them, `cargo xtask sim --mutants` switches off one guard after the other. See `README.md` beside this file.

#![allow(unreachable_pub, reason = "a test binary exports nothing")]
#![allow(
    clippy::disallowed_methods,
    reason = "it is told which seed by its environment, and measures its own speed"
)]

use mimalloc::MiMalloc;

#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

mod barrier;
mod by_hand;
mod canary;
mod clock;
mod coverage;
mod desks;
mod due;
mod faults;
mod follow;
mod foreign;
mod found;
#[path = "../support/handled.rs"]
mod handled;
mod hostile;
mod invariants;
mod leaders;
mod lines;
mod log;
#[path = "../support/many.rs"]
mod many;
mod mutants;
mod operator;
mod panics;
mod play;
mod process;
mod races;
mod regressions;
mod required;
mod rest;
#[allow(dead_code, reason = "shared with other suites, which use what this one does not")]
#[path = "../support/rng.rs"]
mod rng;
mod rows;
mod script;
mod seats;
mod seeds;
mod shrink;
mod smoke;
mod stability;
mod strike;
mod systematic;
mod time;
mod trouble;
mod wall;
mod watch;
mod wire;
mod wish;
mod words;
mod world;
