//! One small scenario, again and again: with a coordinator that dies right after each of its writes in turn, and
//! with the reply (or the request) of each write lost in turn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rosterd_coordinator::handle::{Operation, Target};
use rosterd_domain::id::{Item, JobName};

use crate::faults::inject::doom;
use crate::faults::operator_request::apply;
use crate::faults::store::Forced;
use crate::seeds::play::{PlayOutcome, block_on, job, plan, settle_after};
use crate::world::handlers::JobPlan;
use crate::world::operator;
use crate::world::{World, WorldPlan, WorldTimes};

#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// c0 dies after its write of this number.
    Crash(u64),
    Store(Forced),
}

/// A worker crashes, an operator makes changes, a worker leaves. Returns the number of writes of c0 and of all.
fn scenario(fault: Fault) -> (PlayOutcome, u64, u64) {
    block_on(async {
        let jobs = vec![
            JobPlan { items: 2, run: (300, 1400), fails: 0, ..job("again") },
            JobPlan { items: 1, run: (50, 200), fails: 0, ..job("short") },
        ];
        let times = WorldTimes::SHORT;
        let mut world = World::new(WorldPlan { coordinators: 2, workers: 3, jobs, times, ..plan(5) });
        world.calm = true;
        world.start_all();
        match fault {
            Fault::Crash(at) => assert!(doom(&mut world, 0, at)),
            Fault::Store(forced) => world.store_faults.force(forced),
            Fault::None => {}
        }
        world.pass(Duration::from_millis(2600)).await;
        world.crash_worker(0, false);
        world.pass(Duration::from_millis(1000)).await;
        if let Ok(job) = JobName::new("short") {
            let target = Target::Item(Item(0));
            let enabled = |enabled| Operation::Enable {
                job: job.clone(),
                target: target.clone(),
                enabled,
                cancel: false,
            };
            operator::ask(&mut world, enabled(false));
            world.pass(Duration::from_millis(300)).await;
            operator::ask(&mut world, enabled(true));
        }
        let more = JobPlan { items: 3, ..job("again") };
        operator::ask(&mut world, apply(&more));
        world.pass(Duration::from_millis(1200)).await;
        world.leave(1);
        world.pass(Duration::from_millis(1500)).await;
        let writes = (world.observer.lock().writes_of("c0"), world.store_faults.writes());
        settle_after(&mut world, Duration::from_secs(13)).await;
        (PlayOutcome::of(&world), writes.0, writes.1)
    })
}

/// Plays the scenario with each of `faults`.
fn each(faults: &[Fault]) {
    let (next, broken) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(fault) =
                    faults.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX))
                {
                    let (outcome, _, _) = scenario(*fault);
                    if let Some(first) = outcome.broken.first() {
                        let mut broken = broken.lock().unwrap_or_else(PoisonError::into_inner);
                        broken.push(format!("{fault:?}: {} {}", first.rule, first.text));
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(broken.is_empty(), "of {}: {broken:#?}", faults.len());
}

fn writes() -> (u64, u64) {
    let (outcome, own, all) = scenario(Fault::None);
    assert!(outcome.broken.is_empty(), "{:#?}", outcome.broken);
    assert!(own > 20 && all > own, "{own} and {all} writes");
    (own, all)
}

#[test]
fn a_coordinator_may_die_after_any_of_its_writes() {
    let (own, _) = writes();
    each(&(1..=own).map(Fault::Crash).collect::<Vec<_>>());
}

#[test]
fn the_reply_of_any_write_may_be_lost() {
    let (_, all) = writes();
    each(&(1..=all).map(|at| Fault::Store(Forced::LoseAfter(at))).collect::<Vec<_>>());
}

#[test]
fn any_write_may_be_lost_before_it_is_applied() {
    let (_, all) = writes();
    each(&(1..=all).map(|at| Fault::Store(Forced::LoseBefore(at))).collect::<Vec<_>>());
}
