//! A metric as people are told of it.

use prometheus_client::metrics::MetricType;

/// What a metric is: for the guide, and for tests that hold what is served against it.
#[derive(Debug, Clone)]
pub struct Described {
    /// As it is registered: a counter's series have `_total` behind it, a histogram's `_bucket`, `_sum` and `_count`.
    pub name: String,
    /// counter, gauge, histogram or info.
    pub kind: MetricType,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}
