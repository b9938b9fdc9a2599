//! Several coordinators on real ZooKeeper servers, with real workers, while any of them dies, freezes or is cut off.
//! The workers' logs decide whether the promises were kept.
//!
//! A worker process is this binary once more (`worker`), as in the tests of one coordinator, whose harness is used.

#![allow(
    unreachable_pub,
    dead_code,
    unused_imports,
    reason = "a test binary has no users, and shares files with another"
)]
#![allow(clippy::disallowed_methods, reason = "what is tried here is real time")]

#[path = "../it/accounts.rs"]
mod accounts;
mod backup;
mod clock;
mod console;
mod coordinators;
mod doctor;
mod ensemble;
mod fleet;
mod guarantee;
#[path = "../it/harness.rs"]
mod harness;
mod history;
#[path = "../it/judge.rs"]
mod judge;
mod languages;
mod large;
mod late;
mod left;
mod moving;
#[path = "../it/mutants.rs"]
mod mutants;
#[path = "../it/net.rs"]
mod net;
mod panics;
mod partition;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../it/process.rs"]
mod process;
mod proxy;
#[path = "../it/raw.rs"]
mod raw;
#[path = "../it/recorder.rs"]
mod recorder;
mod sizes;
mod tools;
mod verify;
mod versions;
#[path = "../it/worker.rs"]
mod worker;
mod workers;
#[path = "../support/zookeeper.rs"]
mod zookeeper;
