//! The simulation: whole clusters in one thread under a simulated clock, with faults from a seed, checked against the
//! invariants after every applied transaction.
//!
//! `SEED=7 cargo xtask sim` plays one seed again and prints what happened, `cargo xtask sim --seeds 1000` plays more of
//! them, `cargo xtask sim --mutants` switches off one guard after the other. See `README.md` in this folder.

#![allow(unreachable_pub, reason = "a test binary exports nothing")]
#![allow(
    clippy::disallowed_methods,
    reason = "it takes its seed from the environment, and measures its own speed"
)]

use mimalloc::MiMalloc;

#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

mod faults;
#[path = "../support/handled.rs"]
mod handled;
mod invariants;
#[path = "../support/many.rs"]
mod many;
mod mutants;
mod oracle;
#[allow(dead_code, reason = "shared with other suites, which use what this one does not")]
#[path = "../support/rng.rs"]
mod rng;
mod scenes;
mod seeds;
mod time;
mod world;
