//! The registry: one contract for every backend, and the durability of the embedded store.
//!
//! `contract` runs on each backend; `same` compares them on random transactions, `histories` on random histories with
//! sessions that end, connections that are cut, watches and hints; `kill`, `full_disk`, `damage`, `crash` and `sync`
//! test the embedded store as real processes on real files.

#![allow(clippy::disallowed_methods, reason = "tests measure, and tell their child processes what to be")]
// A test binary exports nothing: items that its modules share are `pub`.
#![allow(unreachable_pub)]

mod backend;
mod contract;
mod crash;
mod damage;
mod full_disk;
mod histories;
mod kill;
mod memory;
mod private;
mod process;
mod same;
mod sync;
mod throughput;
mod words;
mod zookeeper;
#[allow(dead_code, reason = "it is shared with other suites, which use more of it")]
#[path = "../support/zookeeper.rs"]
mod zookeeper_server;
