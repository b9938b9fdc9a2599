//! The series of single jobs: a bounded number of jobs has them, and they go with their job. Held by whoever is told what
//! becomes of jobs; the numbers themselves are [`Metrics`]'.

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::JobName;
use rosterd_domain::item::Outcome;
use rosterd_domain::time::Time;

use super::{Labels, Metrics};

/// What is shown of a job, or would be if there was room.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    status: Option<&'static str>,
    last_success: Option<Time>,
}

/// Keeps the series of jobs, of so many at the most.
#[derive(Debug)]
pub struct JobSeries {
    metrics: Arc<Metrics>,
    most: usize,
    shown: BTreeMap<JobName, Shown>,
    /// Those for which there was no room.
    left_out: BTreeMap<JobName, Shown>,
}

impl JobSeries {
    /// None yet: those of an earlier keeper of these metrics are taken away. `most` 0: it has no series, and leaves none out.
    pub fn new(metrics: Arc<Metrics>, most: usize) -> Self {
        metrics.job_runs.clear();
        metrics.job_last_success_timestamp_seconds.clear();
        metrics.job_status.clear();
        metrics.metrics_jobs_left_out.set(0);
        Self { metrics, most, shown: BTreeMap::new(), left_out: BTreeMap::new() }
    }

    /// How a job stands: its status, and when a run of it last succeeded, which may be known to be later already.
    pub fn stands(&mut self, job: &JobName, status: &'static str, last_success: Option<Time>) {
        self.take(job, Shown { status: Some(status), last_success });
    }

    /// A run of it has ended.
    pub fn ended(&mut self, job: &JobName, outcome: Outcome, at: Time) {
        let last_success = (outcome == Outcome::Succeeded).then_some(at);
        if self.take(job, Shown { status: None, last_success }) {
            self.metrics.job_runs.get_or_create(&of_outcome(job, outcome)).inc();
        }
    }

    /// It was removed; who waited longest by name has its place.
    pub fn gone(&mut self, job: &JobName) {
        self.left_out.remove(job);
        if let Some(shown) = self.shown.remove(job) {
            for outcome in Outcome::ALL {
                self.metrics.job_runs.remove(&of_outcome(job, outcome));
            }
            self.metrics.job_last_success_timestamp_seconds.remove(&of(job));
            self.show_status(job, shown.status, None);
            if let Some((next, shown)) = self.left_out.pop_first() {
                self.take(&next, shown);
            }
        }
        self.count_left_out();
    }

    /// Takes in what is known of a job; false: it has no series.
    fn take(&mut self, job: &JobName, known: Shown) -> bool {
        if !self.shown.contains_key(job) {
            if self.shown.len() >= self.most {
                self.leave_out(job, known);
                return false;
            }
            self.shown.insert(job.clone(), Shown::default());
            for outcome in Outcome::ALL {
                drop(self.metrics.job_runs.get_or_create(&of_outcome(job, outcome)));
            }
        }
        let Some(shown) = self.shown.get_mut(job) else { return false };
        let before = *shown;
        shown.join(known);
        let after = *shown;
        if after.status != before.status {
            self.show_status(job, before.status, after.status);
        }
        if let Some(at) = after.last_success.filter(|at| Some(*at) != before.last_success) {
            let gauge = self.metrics.job_last_success_timestamp_seconds.get_or_create(&of(job));
            gauge.set(seconds(at));
        }
        true
    }

    fn leave_out(&mut self, job: &JobName, known: Shown) {
        if self.most > 0 {
            self.left_out.entry(job.clone()).or_default().join(known);
            self.count_left_out();
        }
    }

    fn count_left_out(&self) {
        self.metrics.metrics_jobs_left_out.set(self.left_out.len().try_into().unwrap_or(i64::MAX));
    }

    fn show_status(&self, job: &JobName, before: Option<&'static str>, after: Option<&'static str>) {
        let labels = |status: &str| vec![("job", job.to_string()), ("status", status.to_owned())];
        if let Some(before) = before {
            self.metrics.job_status.remove(&labels(before));
        }
        if let Some(after) = after {
            self.metrics.job_status.get_or_create(&labels(after)).set(1);
        }
    }
}

impl Shown {
    fn join(&mut self, later: Self) {
        self.status = later.status.or(self.status);
        self.last_success = self.last_success.max(later.last_success);
    }
}

fn of(job: &JobName) -> Labels {
    vec![("job", job.to_string())]
}

fn of_outcome(job: &JobName, outcome: Outcome) -> Labels {
    vec![("job", job.to_string()), ("outcome", outcome.as_str().to_owned())]
}

#[allow(clippy::cast_precision_loss, reason = "of milliseconds there are not so many")]
fn seconds(at: Time) -> f64 {
    at.0 as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> JobName {
        JobName::new(name).unwrap()
    }

    /// Lines of series of single jobs, in order.
    fn lines(metrics: &Metrics) -> Vec<String> {
        let page = metrics.encode();
        let of_jobs = |line: &&str| line.contains("{job=") || line.starts_with("rosterd_metrics_jobs");
        let mut lines: Vec<String> = page.lines().filter(of_jobs).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_job_is_shown_until_it_is_removed() {
        let metrics = Metrics::new();
        let mut series = JobSeries::new(metrics.clone(), 10);
        series.stands(&job("a"), "no_worker", None);
        assert!(!metrics.encode().contains("rosterd_job_last_success_timestamp_seconds{"));
        series.stands(&job("a"), "enabled", None);
        series.ended(&job("a"), Outcome::Succeeded, Time(1_500));
        series.ended(&job("a"), Outcome::Failed, Time(2_500));
        // The records are behind what was told.
        series.stands(&job("a"), "enabled", Some(Time(500)));
        assert_eq!(
            lines(&metrics),
            [
                "rosterd_job_last_success_timestamp_seconds{job=\"a\"} 1.5",
                "rosterd_job_runs_total{job=\"a\",outcome=\"cancelled\"} 0",
                "rosterd_job_runs_total{job=\"a\",outcome=\"crashed\"} 0",
                "rosterd_job_runs_total{job=\"a\",outcome=\"failed\"} 1",
                "rosterd_job_runs_total{job=\"a\",outcome=\"succeeded\"} 1",
                "rosterd_job_runs_total{job=\"a\",outcome=\"timed_out\"} 0",
                "rosterd_job_status{job=\"a\",status=\"enabled\"} 1",
                "rosterd_metrics_jobs_left_out 0",
            ]
        );
        series.gone(&job("a"));
        assert_eq!(lines(&metrics), ["rosterd_metrics_jobs_left_out 0"]);
    }

    #[test]
    fn a_job_too_many_waits_for_the_place_of_one_that_goes() {
        let metrics = Metrics::new();
        let mut series = JobSeries::new(metrics.clone(), 2);
        for name in ["a", "b", "c", "d"] {
            series.stands(&job(name), "enabled", Some(Time(1000)));
        }
        series.ended(&job("c"), Outcome::Succeeded, Time(3000));
        let of =
            |name: &str| lines(&metrics).iter().filter(|line| line.contains(&format!("\"{name}\""))).count();
        let left_out = || lines(&metrics).pop().unwrap();
        assert_eq!((of("b"), of("c"), of("d"), &*left_out()), (7, 0, 0, "rosterd_metrics_jobs_left_out 2"));
        series.gone(&job("a"));
        assert_eq!((of("a"), of("c"), of("d"), &*left_out()), (0, 7, 0, "rosterd_metrics_jobs_left_out 1"));
        assert!(
            lines(&metrics).contains(&"rosterd_job_last_success_timestamp_seconds{job=\"c\"} 3.0".to_owned())
        );
        series.gone(&job("d"));
        assert_eq!(left_out(), "rosterd_metrics_jobs_left_out 0");
    }

    #[test]
    fn none_at_all_is_a_choice_and_a_new_keeper_starts_again() {
        let metrics = Metrics::new();
        JobSeries::new(metrics.clone(), 2).stands(&job("a"), "enabled", None);
        assert_eq!(lines(&metrics).len(), 7);
        let mut off = JobSeries::new(metrics.clone(), 0);
        off.stands(&job("a"), "enabled", None);
        off.ended(&job("a"), Outcome::Crashed, Time(0));
        assert_eq!(lines(&metrics), ["rosterd_metrics_jobs_left_out 0"]);
    }
}
