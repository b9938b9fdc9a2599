//! The decisions of rosterd, without their execution.
//!
//! Everything here is a plain function of its arguments: no clock, no I/O, no async, no randomness, no log. Maps are
//! ordered, so equal input gives equal decisions.

mod candidates;
pub mod check;
mod counters;
pub mod explain;
pub mod id;
pub mod item;
pub mod job;
pub mod mutants;
mod outcome;
pub mod ownership;
pub mod plan;
mod purpose;
pub mod rank;
pub mod schedule;
pub mod sharding;
pub mod snapshot;
pub mod span;
pub mod strategy;
pub mod time;
pub mod txn;
pub mod unattended;
pub mod verify;
pub mod view;
