//! The test oracle: the observable behavior of a world (applied transactions, frames, log lines), and a model of the
//! jobs that is derived from it alone, independently of the code under test. The invariants use it. Shared with the
//! suite `net`.

pub mod coverage;
pub mod item_transitions;
pub mod observer;
pub mod planted_secrets;
pub mod reference_schedule;
pub mod shadow_commits;
pub mod shadow_foreign;
pub mod trace_lines;
