//! Checks plans independently of the planners: derives what a plan should write from the records before it, the
//! transition table of an item, the schedule counted one scheduled time after the other, and what the host knows. It
//! shares no decision with [`crate::plan`]. The planners' tests call it after every plan, and so does the simulation
//! (`tests/sim/world/plans.rs`), which sees each plan that a coordinator makes.

mod assigned;
mod case;
mod due;
mod mirrors;
mod rights;
mod slots;
mod story;

pub use assigned::check_assign;
pub use case::Violation;

use case::Case;

use crate::item::Records;
use crate::plan::{Facts, Plan};
use crate::view::Job;

/// Everything that is wrong with a host's plan; empty: it may be committed.
pub fn check(job: &Job, before: &Records, facts: &Facts<'_>, plan: &Plan) -> Vec<Violation> {
    let mut case = Case { job, before, facts, plan, found: Vec::new() };
    case.transaction();
    for item in case.items() {
        story::check(&mut case, item);
        mirrors::check(&mut case, item);
    }
    rights::check(&mut case);
    slots::check(&mut case);
    if !plan.more {
        due::check(&mut case);
    }
    case.found
}

/// The same for a plan ahead of time, which starts only the plain cases and leaves the rest to the scheduled time
/// itself: that something is left undone or waits is not an error there.
pub fn check_ahead(job: &Job, before: &Records, facts: &Facts<'_>, plan: &Plan) -> Vec<Violation> {
    let mut case = Case { job, before, facts, plan, found: Vec::new() };
    case.transaction();
    for item in case.items() {
        story::check(&mut case, item);
        mirrors::check(&mut case, item);
    }
    rights::check(&mut case);
    case.found
}
