//! The guide's page of metrics: made from the table, and held against what is committed.

use super::{MetricType, Metrics};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/metrics.md");

const HEAD: &str = "# Metrics

<!-- Written by `cargo xtask docs` from src/runtime/telemetry.rs. -->

Served at `/metrics` as OpenMetrics text to who accepts that, as Prometheus does, and in Prometheus' older text format to others.
How to watch and what to alert on: [Operate](operate.md#monitoring). A Grafana dashboard is `deploy/grafana/rosterd.json`, rules for alerts are
`deploy/prometheus/rules.yml`.

Names have their unit, counters end in `_total`. What OpenTelemetry's conventions have a name for has that name, with underscores.
A histogram is `…_bucket`, `…_sum` and `…_count`. Labels have values from closed sets, nothing that a client sends, but for `job`: so
many jobs as `metrics_jobs` says have series of their own, those that this coordinator heard of first. They go with their job. Each
coordinator tells of itself alone: of `rosterd_job_status` and `rosterd_job_last_success_timestamp_seconds` take the maximum over
all, of counters the sum.

| metric | type | labels | what it says |
| --- | --- | --- | --- |
";

fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for metric in Metrics::described() {
        let name = match metric.kind {
            MetricType::Counter => format!("{}_total", metric.name),
            MetricType::Info => format!("{}_info", metric.name),
            _ => metric.name,
        };
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (kind, help) = (metric.kind.as_str(), metric.help);
        page.push_str(&format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    page
}

#[test]
fn the_guides_page_of_metrics_is_up_to_date() {
    let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(committed == markdown(), "metrics.md is out of date; run: cargo xtask docs");
}

#[test]
#[ignore = "writes docs/guide/src/metrics.md"]
fn write_the_guides_page() {
    std::fs::write(PAGE, markdown()).unwrap();
}

#[test]
fn names_and_texts_keep_the_conventions() {
    for metric in Metrics::described() {
        let name = &metric.name;
        assert!(name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_'), "{name}");
        assert!(!name.ends_with("_total"), "{name}: the encoder says so of every counter");
        let is_time = matches!(metric.kind, MetricType::Histogram);
        assert!(!is_time || name.ends_with("_seconds") || name.ends_with("_bytes"), "{name} has no unit");
        assert!(!metric.help.is_empty() && !metric.help.ends_with('.'), "{name}: {:?}", metric.help);
    }
}
