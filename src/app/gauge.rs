//! What the coordinator's driver measures, as metrics.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::item::{Missed, Outcome, Running, Source};
use rosterd_domain::plan::{Entry, FireResult};
use rosterd_domain::time::Time;
use rosterd_domain::txn::Purpose;

use rosterd_coordinator::driver::Gauge;
use rosterd_coordinator::handle::Health;
use rosterd_coordinator::standing::Standing;
use rosterd_runtime::telemetry::{JobSeries, Metrics};
use rosterd_session::code::Code;
use rosterd_session::frame::Completed;

/// Outcomes of a transaction.
const COMMITS: [&str; 2] = ["applied", "not_applied"];

pub(super) struct ToMetrics(Arc<Metrics>, JobSeries);

impl ToMetrics {
    /// Every series whose labels are known is there from the start: what appears with its first event has no rate at it.
    /// `jobs`: so many have series of their own.
    pub(super) fn new(metrics: Arc<Metrics>, jobs: usize) -> Self {
        for source in Source::ALL {
            drop(metrics.runs_started.get_or_create(&[("source", source.as_str())]));
        }
        for outcome in Outcome::ALL {
            drop(metrics.runs.get_or_create(&[("outcome", outcome.as_str())]));
            drop(metrics.run_seconds.get_or_create(&[("outcome", outcome.as_str())]));
        }
        for reason in Missed::ALL {
            drop(metrics.missed.get_or_create(&[("reason", reason.as_str())]));
        }
        for outcome in COMMITS {
            drop(metrics.commits.get_or_create(&[("outcome", outcome)]));
        }
        for code in Code::ALL {
            drop(metrics.refused.get_or_create(&[("code", code.as_str())]));
        }
        let jobs = JobSeries::new(metrics.clone(), jobs);
        Self(metrics, jobs)
    }
}

impl Gauge for ToMetrics {
    fn committed(&mut self, purpose: Purpose, took: Duration, applied: bool) {
        let what = COMMITS[usize::from(!applied)];
        self.0.commits.get_or_create(&[("outcome", what)]).inc();
        self.0.commit_seconds.observe(took.as_secs_f64());
        if applied && purpose == Purpose::Expire {
            self.0.workers_expired.inc();
        }
    }

    fn there(&mut self, jobs: usize, led: usize, waiting: usize) {
        let gauges = [(&self.0.jobs, jobs), (&self.0.jobs_led, led), (&self.0.inbox_depth, waiting)];
        for (gauge, count) in gauges {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    fn workers(&mut self, attached: usize) {
        self.0.workers.set(i64::try_from(attached).unwrap_or(i64::MAX));
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

    fn job(&mut self, job: &JobName, standing: Option<Standing>) {
        match standing {
            Some(Standing { status, last_success }) => self.1.stands(job, status.as_str(), last_success),
            None => self.1.gone(job),
        }
    }

    fn entry(&mut self, job: Option<&JobName>, entry: &Entry, detail: Option<&Completed>) {
        match entry {
            Entry::Started { run, .. } => {
                self.0.runs_started.get_or_create(&[("source", run.source.as_str())]).inc();
            }
            Entry::Ended { outcome, run, at, .. } => {
                let label = [("outcome", outcome.as_str())];
                self.0.runs.get_or_create(&label).inc();
                let took = took(run, *at, detail).as_secs_f64();
                self.0.run_seconds.get_or_create(&label).observe(took);
                if let Some(job) = job {
                    self.1.ended(job, *outcome, *at);
                }
            }
            Entry::NotRun { count, result, .. } => match result {
                FireResult::Misfired => {
                    self.0.misfired.inc_by(*count);
                }
                FireResult::Skipped => {
                    self.0.skipped.inc_by(*count);
                }
                FireResult::Missed(reason) => {
                    self.0.missed.get_or_create(&[("reason", reason.as_str())]).inc_by(*count);
                }
            },
        }
    }
}

/// How long a run took: its user code, where its worker told of both ends, else from when its start was decided.
fn took(run: &Running, at: Time, detail: Option<&Completed>) -> Duration {
    let reported = detail.and_then(|detail| Some(detail.ended_at?.since(detail.started_at?)));
    reported.unwrap_or_else(|| at.since(run.since))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates and alerts find a series that is there before its first event.
    #[test]
    fn what_can_be_named_is_there_from_the_start() {
        let metrics = Metrics::new();
        let _gauge = ToMetrics::new(metrics.clone(), 10);
        let page = metrics.encode();
        for code in Code::ALL {
            let series = format!("rosterd_refused_total{{code=\"{code}\"}} 0\n");
            assert!(page.contains(&series), "{series}");
        }
        for outcome in Outcome::ALL {
            let series = format!("rosterd_run_seconds_count{{outcome=\"{}\"}} 0\n", outcome.as_str());
            assert!(page.contains(&series), "{series}");
        }
    }

    #[test]
    fn a_run_is_timed_by_its_worker_and_counted_for_a_job_that_is_there() {
        use rosterd_domain::id::{InstanceId, Item, Token, WorkerId};

        let metrics = Metrics::new();
        let mut gauge = ToMetrics::new(metrics.clone(), 10);
        let run = Running {
            fire: Time(1000),
            source: Source::NormalTrigger,
            instance: InstanceId::new("10.0.0.1@-@w").unwrap(),
            worker: WorkerId::new("w").unwrap(),
            since: Time(1000),
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        };
        let ended = |outcome| Entry::Ended {
            item: Item(0),
            token: Token(1),
            run: run.clone(),
            outcome,
            at: Time(9000),
            requeued: false,
        };
        let job = JobName::new("j").unwrap();
        gauge.entry(Some(&job), &ended(Outcome::Crashed), None);
        gauge.entry(None, &ended(Outcome::Succeeded), None);
        let page = metrics.encode();
        for line in [
            "rosterd_run_seconds_sum{outcome=\"crashed\"} 8.0",
            "rosterd_run_seconds_bucket{le=\"5.0\",outcome=\"crashed\"} 0",
            "rosterd_run_seconds_bucket{le=\"10.0\",outcome=\"crashed\"} 1",
            "rosterd_job_runs_total{job=\"j\",outcome=\"crashed\"} 1",
            "rosterd_job_runs_total{job=\"j\",outcome=\"succeeded\"} 0",
            "rosterd_runs_total{outcome=\"succeeded\"} 1",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        gauge.job(&job, None);
        assert!(!metrics.encode().contains("{job="));
    }
}
