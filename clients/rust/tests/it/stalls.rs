//! A process that is frozen in the middle of a burst.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rosterd_client::embedding::proto::session_request::Frame as Request;
use rosterd_client::embedding::proto::{RunOutcome, Welcome};
use rosterd_client::embedding::{Clock, TokioClock};
use rosterd_client::{Job, Run, Worker};

use crate::script::*;

/// A clock that a test advances, as if the process had been frozen.
#[derive(Clone)]
struct Jumps {
    inner: TokioClock,
    by: Arc<AtomicU64>,
}

impl Jumps {
    fn by(&self) -> Duration {
        ms(self.by.load(Ordering::Relaxed))
    }
}

impl Clock for Jumps {
    fn now(&self) -> Duration {
        self.inner.now() + self.by()
    }

    fn wall(&self) -> SystemTime {
        self.inner.wall() + self.by()
    }

    fn sleep_until(&self, at: Duration) -> impl Future<Output = ()> + Send {
        self.inner.sleep_until(at.saturating_sub(self.by()))
    }
}

/// A run that ends while frames from the socket are processed is reported like any other.
#[tokio::test(start_paused = true)]
async fn a_burst_in_which_the_process_freezes_loses_no_report() {
    const RUNS: u32 = 1_000;
    let mut coordinators = Coordinators::new();
    let worker = Worker::connect("a").slots(RUNS).add(Job::new("j").handler(|_: Run| async { Ok(()) }));
    let clock = Jumps { inner: clock(), by: Arc::default() };
    tokio::spawn(worker.drive(coordinators.net.clone(), clock.clone()));
    let mut a = coordinators.accept().await;
    a.attach(Welcome { max_unacknowledged_reports: 10 * RUNS, ..welcome("w1") }).await;
    for item in 0..RUNS {
        // Beyond the next heartbeat, and well within the lease.
        if item == RUNS / 4 {
            clock.by.fetch_add(1_500, Ordering::Relaxed);
        }
        a.trigger(item, 1).await;
    }
    let mut missing: BTreeSet<u32> = (0..RUNS).collect();
    let reports = async {
        while !missing.is_empty() {
            let Some(frame) = a.next().await else { break };
            if let Request::RunCompleted(report) = frame {
                assert_eq!(report.outcome(), RunOutcome::Succeeded, "{report:?}");
                let run = report.run.expect("a run");
                missing.remove(&run.item);
                a.acknowledge(run).await;
            }
        }
    };
    let in_time = tokio::time::timeout(ms(3_000), reports).await.is_ok();
    assert!(in_time, "{} of {RUNS} runs have ended, and nobody was told: {missing:?}", missing.len());
}
