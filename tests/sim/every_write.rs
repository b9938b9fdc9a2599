//! One small scenario, and at each of its writes in turn one thing that goes wrong: the reply is lost, the request
//! is lost, or the coordinator dies right after it. All must settle, and no promise may be broken.

use std::time::Duration;

use crate::faults::Forced;
use crate::play::{Outcome, block_on, doom, job, plan, settle};
use crate::world::{Plan, World};

/// How long the scenario lasts: a worker comes, jobs fire, a worker crashes, one leaves.
const SCENE: [u64; 4] = [4_000, 3_000, 6_000, 3_000];
/// Writes of the scenario that are tried, so that a suite has an end; all by `EVERY=1`.
const STRIDE: u64 = 10;

#[derive(Debug, Clone, Copy)]
enum Wrong {
    Nothing,
    ReplyLost(u64),
    RequestLost(u64),
    Dies(u64),
}

fn scene(wrong: Wrong) -> (Outcome, u64) {
    block_on(async {
        let jobs = vec![job("short"), job("again")];
        let mut world = World::new(Plan { coordinators: 2, workers: 3, jobs, ..plan(7) });
        match wrong {
            Wrong::ReplyLost(at) => world.chaos.force(Forced::LoseAfter(at)),
            Wrong::RequestLost(at) => world.chaos.force(Forced::LoseBefore(at)),
            Wrong::Dies(_) | Wrong::Nothing => {}
        }
        world.start_all();
        if let Wrong::Dies(after) = wrong {
            doom(&mut world, 0, after);
        }
        for (act, span) in SCENE.into_iter().enumerate() {
            world.pass(Duration::from_millis(span)).await;
            match act {
                0 => world.crash_worker(1, false),
                1 => {
                    let running = world.desks[2].running.as_ref();
                    let process = running.map(|running| running.process.clone()).unwrap_or_default();
                    world.net.cut(&process);
                }
                2 => world.leave(0),
                _ => {}
            }
        }
        let writes = world.chaos.writes();
        settle(&mut world).await;
        (Outcome::of(&world), writes)
    })
}

fn every(wrong: fn(u64) -> Wrong) {
    let (calm, writes) = scene(Wrong::Nothing);
    assert!(calm.broken.is_empty(), "{:#?}", calm.broken);
    let stride = if std::env::var("EVERY").is_ok() { 1 } else { STRIDE };
    // The first writes are each of another kind; of the many alike later on some are enough.
    let tried = (1..=20).chain((21..=writes).step_by(usize::try_from(stride).unwrap_or(1)));
    for at in tried {
        let (outcome, _) = scene(wrong(at));
        assert!(outcome.broken.is_empty(), "{:?}: {:#?}", wrong(at), outcome.broken);
    }
}

#[test]
fn a_lost_reply_of_any_write_breaks_nothing() {
    every(Wrong::ReplyLost);
}

#[test]
fn a_lost_request_of_any_write_breaks_nothing() {
    every(Wrong::RequestLost);
}

#[test]
fn a_coordinator_that_dies_after_any_write_breaks_nothing() {
    every(Wrong::Dies);
}
