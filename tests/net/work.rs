//! The jobs, their handlers, and the handlers' log.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rosterd_client::{Failure, Job, Run};
use rosterd_domain::verify::{Line, What};
use tokio::time::{Instant, sleep_until};

use crate::handled::Handled;
use crate::rng::Rng;
use crate::time::Since;
use crate::world::base;

/// The log of all worker processes.
#[derive(Clone)]
pub struct Log {
    start: Since,
    handled: Handled,
}

impl Log {
    pub fn new() -> Self {
        Self { start: Since::now(), handled: Handled::new(base(), Duration::MAX) }
    }

    /// Logs an event of a process, or of a run of it.
    pub fn write(&self, process: &str, what: What, run: Option<&Run>) {
        self.handled.write(self.start.elapsed(), process, what, run);
    }

    pub fn lines(&self) -> Vec<Line> {
        self.handled.lines()
    }

    /// Runs that are in user code: job, item and token.
    pub fn in_user_code(&self) -> BTreeSet<(String, u32, u64)> {
        self.handled.in_user_code(|_| true)
    }
}

/// A job of the world.
#[derive(Debug, Clone, Copy)]
pub struct JobPlan {
    pub name: &'static str,
    pub period: u64,
    pub items: u32,
    pub failover: bool,
    /// How long a run takes, in milliseconds.
    pub run: (u64, u64),
    /// Per thousand runs, how many fail.
    pub fails: u64,
}

/// One that is short and often, one whose crashed runs are run again, one that outlives leases.
pub const JOBS: [JobPlan; 3] = [
    JobPlan { name: "short", period: 1, items: 3, failover: false, run: (20, 300), fails: 30 },
    JobPlan { name: "again", period: 2, items: 4, failover: true, run: (400, 1_600), fails: 30 },
    JobPlan { name: "long", period: 5, items: 2, failover: true, run: (5_000, 15_000), fails: 0 },
];

impl JobPlan {
    fn config(&self) -> String {
        let Self { name, period, items, failover, .. } = self;
        format!(
            "jobName: {name}\ncron: \"0/{period} * * * * ?\"\nshardingTotalCount: {items}\nfailover: {failover}\n\
             misfire: true\n"
        )
    }

    /// The job as a worker process offers it.
    pub fn offer(&self, process: &str, log: &Log, rng: &mut Rng) -> Job {
        let (plan, process, log) = (*self, process.to_owned(), log.clone());
        let rng = Arc::new(Mutex::new(rng.fork(self.name)));
        Job::new(self.name).config(self.config()).handler(move |run: Run| {
            let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
            let (length, fails) = (rng.millis(plan.run.0, plan.run.1), rng.permille(plan.fails));
            let work = Work { process: process.clone(), log: log.clone(), over: false, run };
            async move { work.go(length, fails).await }
        })
    }
}

/// A run in user code; its end is always logged.
struct Work {
    process: String,
    log: Log,
    over: bool,
    run: Run,
}

impl Work {
    async fn go(mut self, length: Duration, fails: bool) -> Result<(), Failure> {
        self.log.write(&self.process, What::Start, Some(&self.run));
        tokio::select! {
            biased;
            () = self.run.cancelled() => {
                self.log.write(&self.process, What::Told, Some(&self.run));
                self.end(What::End);
                Err(Failure::cancelled())
            }
            () = sleep_until(Instant::now() + length) => {
                self.end(What::End);
                if fails { Err(Failure::new("as it was told to")) } else { Ok(()) }
            }
        }
    }

    fn end(&mut self, what: What) {
        if !std::mem::replace(&mut self.over, true) {
            self.log.write(&self.process, what, Some(&self.run));
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.end(What::Drop);
    }
}
