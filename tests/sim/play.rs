//! How a seed is played.

use std::future::Future;

use crate::log::JobPlan;
use crate::world::{Plan, Times};

/// Runs a world on one thread, in simulated time.
pub fn block_on<T>(play: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(play),
        Err(error) => panic!("no runtime: {error}"),
    }
}

/// One of the jobs that worlds are made of.
pub fn job(name: &str) -> JobPlan {
    let plan = JobPlan {
        name: "short",
        period: 1,
        items: 3,
        failover: false,
        misfire: true,
        run: (20, 300),
        fails: 30,
        deaf: 0,
        strategy: "AVG_ALLOCATION",
        grace: None,
    };
    match name {
        "again" => JobPlan { name: "again", period: 2, items: 4, failover: true, run: (400, 1600), ..plan },
        "long" => JobPlan { name: "long", period: 5, items: 2, failover: true, run: (5000, 15000), ..plan },
        _ => plan,
    }
}

/// A world of one coordinator, two workers and no jobs.
pub fn plan(seed: u64) -> Plan {
    let verbose = std::env::var("VERBOSE").is_ok();
    let (jobs, slots, times) = (Vec::new(), (8, 8), Times::LONG);
    Plan { seed, coordinators: 1, workers: 2, times, jobs, slots, verbose }
}
