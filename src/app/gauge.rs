//! What the coordinator's driver measures, as metrics.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::item::{Missed, Outcome, Source};
use rosterd_domain::plan::{Became, Entry};
use rosterd_domain::txn::Purpose;

use rosterd_coordinator::driver::Gauge;
use rosterd_coordinator::handle::Health;
use rosterd_runtime::telemetry::Metrics;

/// Outcomes of a transaction.
const COMMITS: [&str; 2] = ["applied", "not_applied"];

pub(super) struct ToMetrics(Arc<Metrics>);

impl ToMetrics {
    /// Every series whose labels are known is there from the start: what appears with its first event has no rate at it.
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        for source in Source::ALL {
            drop(metrics.runs_started.get_or_create(&[("source", source.as_str())]));
        }
        for outcome in Outcome::ALL {
            drop(metrics.runs.get_or_create(&[("outcome", outcome.as_str())]));
        }
        for reason in Missed::ALL {
            drop(metrics.missed.get_or_create(&[("reason", reason.as_str())]));
        }
        for outcome in COMMITS {
            drop(metrics.commits.get_or_create(&[("outcome", outcome)]));
        }
        Self(metrics)
    }
}

impl Gauge for ToMetrics {
    fn committed(&mut self, purpose: Purpose, took: Duration, applied: bool) {
        let what = COMMITS[usize::from(!applied)];
        self.0.commits.get_or_create(&[("outcome", what)]).inc();
        self.0.commit_seconds.observe(took.as_secs_f64());
        if applied && purpose == Purpose::Verdict {
            self.0.workers_expired.inc();
        }
    }

    fn there(&mut self, jobs: usize, led: usize, waiting: usize) {
        let gauges = [(&self.0.jobs, jobs), (&self.0.jobs_led, led), (&self.0.inbox_depth, waiting)];
        for (gauge, count) in gauges {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    fn unattended(&mut self, jobs: usize, items: usize, oldest: Duration) {
        let gauges = [(&self.0.jobs_without_workers, jobs), (&self.0.items_without_owner, items)];
        for (gauge, count) in gauges {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.0.oldest_waiting_seconds.set(oldest.as_secs_f64());
    }

    #[allow(clippy::cast_precision_loss, reason = "of milliseconds there are not so many")]
    fn clock(&mut self, ahead: i64) {
        self.0.clock_ahead_seconds.set(ahead as f64 / 1000.0);
    }

    fn health(&mut self, health: Health) {
        self.0.serving.set(i64::from(health == Health::Serving));
    }

    fn sent(&mut self, lag: Duration) {
        self.0.fire_lag_seconds.observe(lag.as_secs_f64());
    }

    fn entry(&mut self, entry: &Entry) {
        match entry {
            Entry::Started { run, .. } => {
                self.0.runs_started.get_or_create(&[("source", run.source.as_str())]).inc();
            }
            Entry::Ended { outcome, .. } => {
                self.0.runs.get_or_create(&[("outcome", outcome.as_str())]).inc();
            }
            Entry::Unrun { count, became, .. } => match became {
                Became::Misfired => {
                    self.0.misfired.inc_by(*count);
                }
                Became::Skipped => {
                    self.0.skipped.inc_by(*count);
                }
                Became::Missed(reason) => {
                    self.0.missed.get_or_create(&[("reason", reason.as_str())]).inc_by(*count);
                }
            },
        }
    }
}
