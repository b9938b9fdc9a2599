//! Each plan that a coordinator makes is checked by `rosterd_domain::check`, which derives from the records and the
//! facts what may be planned, and shares no decision with the planners. A violation is reported as the invariant
//! `right_plans`.
//!
//! A world that starts with a bug on purpose skips the check: there the other invariants are tested, which must find
//! the bug by themselves.

use rosterd_domain::check::{check, check_ahead, check_assign};
use rosterd_domain::mutants;
use rosterd_domain::plan::{Observed, observe};

use crate::oracle::observer::Observer;

/// The name of the invariant in reports.
const RULE: &str = "right_plans";

/// Checks all plans that are made on this thread from now on, until the next world starts.
pub fn look_at(observer: &Observer) {
    if mutants::switched_on().is_some() {
        return observe(None);
    }
    let observer = observer.clone();
    observe(Some(Box::new(move |observed| {
        let (job, wrong) = match *observed {
            Observed::Host { job, records, facts, plan, ahead: false } => {
                (job, check(job, records, facts, plan))
            }
            Observed::Host { job, records, facts, plan, ahead: true } => {
                (job, check_ahead(job, records, facts, plan))
            }
            Observed::Leader { job, candidates, assigned } => (job, check_assign(job, candidates, assigned)),
        };
        let mut inner = observer.lock();
        inner.coverage.count("plan: held against the rules");
        for violation in wrong {
            inner.broke(RULE, format!("a plan of job {}: {violation}", job.name));
        }
    })));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scenes::races::bugs;
    use crate::seeds::play::{block_on, job, plan};
    use crate::world::{World, WorldPlan};

    /// The invariants that a fault-free world breaks if this bug is enabled after the start, and how many plans were
    /// checked.
    fn broken_by(bug: Option<&'static str>) -> (Vec<&'static str>, usize) {
        block_on(async {
            bugs::only(None);
            let mut world = World::new(WorldPlan { jobs: vec![job("again")], ..plan(3) });
            bugs::only(bug);
            world.start_all();
            world.pass(Duration::from_secs(20)).await;
            bugs::only(None);
            let rules = world.observer.lock().broken.iter().map(|broken| broken.rule).collect();
            let seen =
                world.coverage.take().into_iter().find(|(what, _)| what == "plan: held against the rules");
            (rules, seen.map_or(0, |(_, count)| count as usize))
        })
    }

    #[test]
    fn a_plan_that_is_wrong_is_found() {
        let (broken, seen) = broken_by(None);
        assert!(broken.is_empty() && seen > 20, "{seen} plans: {broken:?}");
        // Its starts lack a guard that the rules require.
        let (broken, _) = broken_by(Some(bugs::START_IGNORES_GENERATION));
        assert!(broken.contains(&RULE), "{broken:?}");
    }
}
