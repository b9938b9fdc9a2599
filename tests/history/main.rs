//! The history in PostgreSQL, on real servers: writes and reads, by one and by several coordinators; servers that are
//! killed, slow, full or foreign; rows that wait on the disk meanwhile, and which of them are dropped.

#![allow(unreachable_pub, reason = "a test binary has no users")]
#![allow(clippy::disallowed_methods, reason = "what is tried here is real time")]

mod desk;
mod reading;
mod secure;
mod trouble;
mod upkeep;

#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../cluster/proxy.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod proxy;
