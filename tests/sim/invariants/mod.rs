//! The promises, one file each; the head of a file says what is promised, and what went wrong elsewhere or how others do it. Each is told of every applied transaction and of every frame to a worker as it
//! leaves, keeps what it needs, and says what it found broken.

use rosterd::session::frame::{FromWorker, ToWorker};
use rosterd_domain::time::Time;

use crate::watch::{Shadow, Step};

mod acknowledged;
mod clean_exit;
mod crashed_again;
mod fenced;
mod few_moves;
mod granted;
mod leaders_settle;
mod lease;
pub mod mirrors;
mod never_early;
mod no_fire_vanishes;
mod once_per_fire;
mod one_leader_writes;
mod one_runner;
mod reports;
pub mod settles;
mod slots;

/// A promise.
pub trait Invariant: Send {
    /// As tests and reports name it.
    fn name(&self) -> &'static str;

    /// A transaction was applied, or a session's ephemerals went.
    fn applied(&mut self, _step: &Step<'_>) -> Result<(), String> {
        Ok(())
    }

    /// A frame of a worker process arrives at a coordinator.
    fn said(&mut self, _process: &str, _frame: &FromWorker) -> Result<(), String> {
        Ok(())
    }

    /// A frame leaves for a worker process.
    fn heard(&mut self, _process: &str, _frame: &ToWorker, _now: &Shadow, _at: Time) -> Result<(), String> {
        Ok(())
    }
}

/// Those that are told of every step.
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<one_runner::OneRunner>::default(),
        Box::<once_per_fire::OncePerFire>::default(),
        Box::<fenced::Fenced>::default(),
        Box::<one_leader_writes::OneLeaderWrites>::default(),
        Box::<acknowledged::Acknowledged>::default(),
        Box::<clean_exit::CleanExit>::default(),
        Box::<no_fire_vanishes::NoFireVanishes>::default(),
        Box::<crashed_again::CrashedAgain>::default(),
        Box::<slots::Slots>::default(),
        Box::<lease::Lease>::default(),
        Box::<reports::Reports>::default(),
        Box::<granted::Granted>::default(),
        Box::<few_moves::FewMoves>::default(),
        Box::<leaders_settle::LeadersSettle>::default(),
        Box::<never_early::NeverEarly>::default(),
    ]
}
