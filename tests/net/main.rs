//! The real network stack in a simulated network: the real accept loop, gRPC, sessions and Rust client, on hosts that are
//! cut off, held up, crashed and started again, over the store in memory; held against the promises that `tests/sim`
//! holds its worlds against.
//!
//! Every world has a process of its own: see `apart`. `cargo xtask sim --network --seeds 1000` plays many,
//! `SEED=7 cargo xtask sim --network` one again, with what happens in it. See `tests/sim/README.md`.

#![allow(unreachable_pub, reason = "a test binary exports nothing")]
#![allow(
    clippy::disallowed_methods,
    reason = "it is told which seed by its environment, and measures its own speed"
)]

mod apart;
mod host;
mod network;
mod packets;
mod play;
mod scenes;
mod seeds;
mod store;
mod tap;
mod time;
mod work;
mod world;

#[allow(dead_code, reason = "shared with the simulation, whose worlds it listens to")]
#[path = "../sim/barrier.rs"]
mod barrier;
#[path = "../sim/canary.rs"]
mod canary;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../sim/clock.rs"]
mod clock;
#[path = "../sim/coverage.rs"]
mod coverage;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../sim/due.rs"]
mod due;
#[path = "../sim/follow.rs"]
mod follow;
#[path = "../sim/foreign.rs"]
mod foreign;
#[path = "../support/handled.rs"]
mod handled;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../sim/invariants/mod.rs"]
mod invariants;
#[path = "../sim/lines.rs"]
mod lines;
#[path = "../support/many.rs"]
mod many;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../sim/process.rs"]
mod process;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../support/rng.rs"]
mod rng;
#[path = "../sim/rows.rs"]
mod rows;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../sim/watch.rs"]
mod watch;
