//! The handlers, and the log that they write.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rosterd_client::{Failure, Job, Run};
use rosterd_domain::verify::{Line, What};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::handled::Handled;
use crate::oracle::planted_secrets::PLANTED_SECRET;
use crate::rng::Rng;
use crate::seeds::vocabulary::{self, KnownWord};
use crate::world::WorldPlan;
use crate::world::process::ProcessControl;

/// The log of all worker processes.
#[derive(Clone)]
pub struct HandlerLog {
    start: Instant,
    handled: Handled,
}

impl HandlerLog {
    pub fn new(plan: &WorldPlan) -> Self {
        let graces = plan.jobs.iter().filter_map(|job| job.grace);
        let shortest = graces.min().map_or(Duration::MAX, Duration::from_millis);
        Self { start: Instant::now(), handled: Handled::new(plan.base, shortest) }
    }

    /// Logs an event of a process, or of a run of it.
    pub fn write(&self, process: &str, what: What, run: Option<&Run>) {
        self.handled.write(self.start.elapsed(), process, what, run);
    }

    pub fn lines(&self) -> Vec<Line> {
        self.handled.lines()
    }

    /// Runs that are in user code of these processes: job, item and token.
    pub fn in_user_code(&self, counts: impl Fn(&str) -> bool) -> BTreeSet<(String, u32, u64)> {
        self.handled.in_user_code(counts)
    }
}

/// A job of the world and how its handlers behave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPlan {
    #[serde(deserialize_with = "vocabulary::word")]
    pub name: KnownWord,
    pub period: u64,
    pub items: u32,
    pub failover: bool,
    pub misfire: bool,
    /// How long a run takes, in milliseconds.
    pub run: (u64, u64),
    /// Per thousand runs: how many fail, and how many ignore a cancellation.
    pub fails: u64,
    pub deaf: u64,
    #[serde(deserialize_with = "vocabulary::word")]
    pub strategy: KnownWord,
    pub grace: Option<u64>,
    #[serde(deserialize_with = "vocabulary::maybe")]
    pub zone: Option<KnownWord>,
    /// Only in these hours of local time; empty: in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hours: Vec<u8>,
    /// A run is cancelled after this time, in milliseconds.
    pub timeout: Option<u64>,
    /// Each fire is held until one worker was notified: what happens to it without an answer.
    #[serde(deserialize_with = "vocabulary::maybe")]
    pub held: Option<KnownWord>,
    /// How long that worker takes to answer, in milliseconds.
    pub answer: (u64, u64),
    /// Whether a record holds its runs (`monitorExecution`).
    #[serde(default = "vocabulary::yes", skip_serializing_if = "vocabulary::is_yes")]
    pub monitor: bool,
}

impl JobPlan {
    /// The job file.
    pub fn config(&self) -> String {
        let Self { name, period, items, failover, misfire, strategy, .. } = self;
        let mut more =
            self.grace.map(|grace| format!("  disconnect_grace_ms: {grace}\n")).unwrap_or_default();
        more.extend(self.timeout.map(|timeout| format!("  run_timeout_ms: {timeout}\n")));
        more.extend(self.held.map(|otherwise| {
            format!("  guarantee:\n    started: true\n    timeout_ms: 1500\n    on_timeout: {otherwise}\n")
        }));
        let monitor = if self.monitor { "" } else { "monitorExecution: false\n" };
        let zone = self.zone.map(|zone| format!("timeZone: \"{zone}\"\n")).unwrap_or_default();
        let hours: Vec<String> = self.hours.iter().map(u8::to_string).collect();
        let hours = if hours.is_empty() { "*".to_owned() } else { hours.join(",") };
        let seconds = if *period < 60 { format!("0/{period}") } else { "0".to_owned() };
        format!(
            "jobName: {name}\ncron: \"{seconds} * {hours} * * ?\"\n{zone}shardingTotalCount: {items}\n\
             {monitor}jobParameter: {PLANTED_SECRET}-{name}\nshardingItemParameters: \"0={PLANTED_SECRET}-of-item\"\n\
             failover: {failover}\nmisfire: {misfire}\nrosterd:\n  strategy: {strategy}\n{more}"
        )
    }

    /// The job as a worker process offers it.
    pub fn offer(
        &self,
        process: &str,
        control: &ProcessControl,
        log: &HandlerLog,
        slowness: Arc<AtomicU64>,
        rng: &mut Rng,
    ) -> Job {
        let (plan, process, control, log) = (self.clone(), process.to_owned(), control.clone(), log.clone());
        let rng = Arc::new(Mutex::new(rng.fork(self.name)));
        let answers = if plan.held.is_some() { Some((control.clone(), rng.clone())) } else { None };
        let job = Job::new(self.name).config(self.config()).handler(move |run: Run| {
            let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner).fork("run");
            let work =
                HandlerWork { process: process.clone(), log: log.clone(), over: false, run: run.clone() };
            let times = u32::try_from(slowness.load(Ordering::Relaxed)).unwrap_or(1);
            let length = times * rng.millis(plan.run.0, plan.run.1);
            let (fails, deaf) = (rng.permille(plan.fails), rng.permille(plan.deaf));
            let held = control.run(work.go(length, fails, deaf));
            async move { held.await.unwrap_or_else(|| Err(Failure::cancelled())) }
        });
        let Some((control, rng)) = answers else { return job };
        let (soonest, latest) = self.answer;
        job.on_all_started(move |_fire| {
            let takes = rng.lock().unwrap_or_else(PoisonError::into_inner).millis(soonest, latest);
            let held = control.run(tokio::time::sleep(takes));
            async move { held.await.ok_or_else(Failure::cancelled) }
        })
    }
}

struct HandlerWork {
    process: String,
    log: HandlerLog,
    over: bool,
    run: Run,
}

impl HandlerWork {
    async fn go(mut self, length: Duration, fails: bool, deaf: bool) -> Result<String, Failure> {
        self.log.write(&self.process, What::Start, Some(&self.run));
        let token = self.run.token();
        self.run.set_offset(token.to_string()).ok();
        let over = Instant::now() + length;
        let half = tokio::time::sleep(length / 2);
        tokio::pin!(half);
        tokio::select! {
            biased;
            () = self.run.cancelled() => {}
            () = &mut half => drop(self.run.set_offset(format!("{token}, half"))),
        }
        tokio::select! {
            biased;
            () = self.run.cancelled() => {
                self.log.write(&self.process, What::Told, Some(&self.run));
                if deaf {
                    tokio::time::sleep_until(over).await;
                }
            }
            () = tokio::time::sleep_until(over) => {}
        }
        self.end(false);
        if self.run.is_cancelled() && !deaf {
            return Err(Failure::cancelled());
        }
        if fails { Err(Failure::new("as it was told to")) } else { Ok(format!("done by {token}")) }
    }

    fn end(&mut self, dropped: bool) {
        if !std::mem::replace(&mut self.over, true) {
            let what = if dropped { What::Drop } else { What::End };
            self.log.write(&self.process, what, Some(&self.run));
        }
    }
}

impl Drop for HandlerWork {
    fn drop(&mut self) {
        self.end(true);
    }
}
