//! The real network stack in a simulated network: the real accept loop, gRPC, sessions and Rust client, on hosts that
//! are cut off, delayed, crashed and restarted, over the store in memory; checked against the invariants of
//! `tests/sim`.
//!
//! Every world has a separate process: see `apart`. `cargo xtask sim --network --seeds 1000` plays many, `SEED=7 cargo
//! xtask sim --network` replays one, with a trace. See `tests/sim/README.md`.

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

#[path = "../support/handled.rs"]
mod handled;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../sim/invariants/mod.rs"]
mod invariants;
#[path = "../support/many.rs"]
mod many;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../sim/oracle/mod.rs"]
mod oracle;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../support/rng.rs"]
mod rng;
