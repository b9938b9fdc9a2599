//! What the process says about itself: logs by `tracing`, and the numbers behind `/metrics`.
//!
//! [`Metrics`] is made once by the composition root and handed to whoever counts; there is no global one, so
//! tests and several coordinators in one process do not see each other's numbers. Label values come from
//! closed sets (codes, outcomes, reasons, known methods), never from what a client sends.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("log filter {value:?} is not one: {reason}; write for example info or warn,rosterd=debug")]
    Filter {
        /// The refused filter.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is a subscriber already.
    #[error("logging was set up before")]
    Twice,
}

/// Sends the process's log to stderr: lines of `format`, those that `filter` lets through.
pub fn init(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let parsed = EnvFilter::builder().parse(filter).map_err(|error| TelemetryError::Filter {
        value: filter.chars().take(200).collect(),
        reason: error.to_string(),
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(std::io::stderr);
    let done = match format {
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(|| OneLine(std::io::stderr()))
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    done.map_err(|_| TelemetryError::Twice)
}

/// From now on a panic of any thread or task is a line of the log, with the place where it happened, and counted.
/// What it means is said again by whoever owns the task.
pub fn report_panics(metrics: Arc<Metrics>) {
    std::panic::set_hook(Box::new(move |panic| {
        metrics.panics.inc();
        let thread = std::thread::current();
        let (thread, place) = (thread.name().unwrap_or("unnamed"), panic.location().map(ToString::to_string));
        let why = super::tasks::panic_text(panic.payload());
        let trace = std::backtrace::Backtrace::capture();
        tracing::error!(thread, place, why, "panicked: this is a defect, report it\n{trace}");
    }));
}

/// Keeps an event on one line: what a worker or a job file says is in it, and must not pass for another event.
/// An event comes as one write.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let body = event.strip_suffix(b"\n").unwrap_or(event);
        if !body.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return self.0.write_all(event).map(|()| event.len());
        }
        let mut line = Vec::with_capacity(event.len() + 16);
        for byte in body {
            match byte {
                b'\n' => line.extend_from_slice(b"\\n"),
                b'\r' => line.extend_from_slice(b"\\r"),
                byte => line.push(*byte),
            }
        }
        line.extend_from_slice(&event[body.len()..]);
        self.0.write_all(&line).map(|()| event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// One label and its value.
pub type Label = [(&'static str, &'static str); 1];
/// Labels with values that are made at run time.
pub type Labels = Vec<(&'static str, String)>;

/// Makes histograms of seconds, 100 µs to about 26 s.
#[derive(Debug, Clone, Copy)]
pub struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.0001, 2.0, 19))
    }
}

macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $name:ident: $type:ty = $made:expr;)*) => {
        /// Everything that is counted. Cheap to share: counters are atomics.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            $($(#[doc = $help])+ pub $name: $type,)*
        }

        impl Metrics {
            /// All at zero.
            pub fn new() -> Arc<Self> {
                let mut registry = Registry::with_prefix("rosterd");
                $(
                    let $name: $type = $made;
                    registry.register(stringify!($name), concat!($($help),+).trim(), $name.clone());
                )*
                Arc::new(Self { registry, $($name,)* })
            }
        }
    };
}

// The help texts end without a full stop: the encoder adds one. Counters get `_total`.
metrics! {
    /// Fires dispatched, by source
    fires: Family<Label, Counter> = Family::default();
    /// Runs that ended, by outcome
    runs: Family<Label, Counter> = Family::default();
    /// Due times that were not run, by reason
    missed: Family<Label, Counter> = Family::default();
    /// Due times merged into a later run
    misfired: Counter = Counter::default();
    /// Due times skipped by policy
    skipped: Counter = Counter::default();
    /// Registry transactions, by what became of them
    commits: Family<Label, Counter> = Family::default();
    /// From handing a transaction over to its answer
    commit_seconds: Histogram = Seconds.new_metric();
    /// From a due time to the commit of its start
    fire_lag_seconds: Histogram = Seconds.new_metric();
    /// Workers declared dead
    verdicts: Counter = Counter::default();
    /// Jobs known to this coordinator
    jobs: Gauge = Gauge::default();
    /// Jobs led by this coordinator
    jobs_led: Gauge = Gauge::default();
    /// Worker streams that are open
    streams: Gauge = Gauge::default();
    /// Frames of workers that wait to be taken in
    inbox_depth: Gauge = Gauge::default();
    /// Refused frames and requests, by code
    refused: Family<Label, Counter> = Family::default();
    /// History entries dropped because the history could not keep up
    history_dropped: Counter = Counter::default();
    /// Connections that are open
    connections: Gauge = Gauge::default();
    /// Connections that were closed at once or early, by reason
    connections_refused: Family<Label, Counter> = Family::default();
    /// Requests, by method and gRPC status or HTTP status
    requests: Family<Labels, Counter> = Family::default();
    /// From a request's head to its response's head, by method
    request_seconds: Family<Labels, Histogram, Seconds> = Family::new_with_constructor(Seconds);
    /// Panics caught in request handlers
    handler_panics: Counter = Counter::default();
    /// Panics of any task or thread
    panics: Counter = Counter::default();
}

impl Metrics {
    /// As OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = Metrics::new();
        metrics.runs.get_or_create(&[("outcome", "succeeded")]).inc_by(2);
        metrics.commit_seconds.observe(0.003);
        let text = metrics.encode();
        assert!(text.contains("rosterd_runs_total{outcome=\"succeeded\"} 2"), "{text}");
        assert!(text.contains("rosterd_commit_seconds_count 1"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn what_is_said_with_line_ends_stays_one_event() {
        let mut out = OneLine(Vec::new());
        out.write_all(b"INFO a callback failed: x\nERROR made up\r\n").unwrap();
        out.write_all(b"INFO plain\n").unwrap();
        assert_eq!(out.0, b"INFO a callback failed: x\\nERROR made up\\r\nINFO plain\n");
    }

    #[test]
    fn a_filter_that_is_none_is_refused_with_its_text() {
        let error = init(LogFormat::Json, "rosterd=loud=very").unwrap_err().to_string();
        assert!(error.contains("rosterd=loud=very"), "{error}");
    }
}
