//! What the process says about itself: logs by `tracing`, and the numbers behind `/metrics`.
//!
//! [`Metrics`] is made once by the composition root and handed to whoever counts; there is no global one, so
//! tests and several coordinators in one process do not see each other's numbers. Label values come from
//! closed sets (codes, outcomes, reasons, known methods), never from what a client sends; names of jobs alone are
//! others' to choose, and [`JobSeries`] bounds how many of them there are.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text;
pub use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use rosterd_domain::time::Time;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use self::process::Process;

mod described;
mod form;
mod jobs;
#[cfg(test)]
mod page;
mod process;
pub use described::Described;
pub use form::as_text_format;
pub use jobs::JobSeries;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// A log filter that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid log filter {value:?}: {reason}; write a level, for example info or warn,rosterd=debug")]
pub struct FilterError {
    /// The refused filter.
    pub value: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Logging was set up before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("logging was set up before")]
pub struct LoggingTwice;

/// Which log lines are written: a level for all, and levels for targets that begin with a name.
#[derive(Debug, Clone)]
pub struct LogFilter(Targets);

impl LogFilter {
    /// Reads `info`, `warn,rosterd=debug` and the like; a later level for the same target overrides an earlier one. An empty
    /// one lets errors through.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let wrong = |reason: String| FilterError { value: text.chars().take(200).collect(), reason };
        let directives = || text.split(',').map(str::trim).filter(|directive| !directive.is_empty());
        let mut targets = Targets::new();
        if directives().next().is_none() {
            targets = targets.with_default(LevelFilter::ERROR);
        }
        for directive in directives() {
            let (target, level) = match directive.split_once('=') {
                Some((target, level)) => (Some(target.trim()), level.trim()),
                None => (None, directive),
            };
            let Some(level) = level_of(level) else {
                return Err(wrong(format!(
                    "{level:?} is not a level (off, error, warn, info, debug or trace)"
                )));
            };
            targets = match target {
                None => targets.with_default(level),
                Some(target) if is_target(target) => targets.with_target(target, level),
                Some(target) => return Err(wrong(format!("{target:?} is not the name of a target"))),
            };
        }
        Ok(Self(targets))
    }
}

fn level_of(word: &str) -> Option<LevelFilter> {
    // `tracing` reads numbers as levels, too: nobody writes those.
    if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) { None } else { word.parse().ok() }
}

fn is_target(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_:-.".contains(c))
}

/// Sends the process's log to stderr: lines of `format`, those that `filter` lets through; those for people in color
/// where that is wanted. Once per process.
pub fn init(format: LogFormat, filter: LogFilter, color: bool) -> Result<(), LoggingTwice> {
    let lines = match format {
        LogFormat::Text => {
            fmt::layer().with_ansi(color).with_target(false).with_writer(|| OneLine(io::stderr())).boxed()
        }
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(io::stderr).boxed(),
    };
    let log = tracing_subscriber::registry().with(lines.with_filter(filter.0));
    log.try_init().map_err(|_| LoggingTwice)
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

/// Makes histograms of how long runs take, 10 ms to 12 hours.
#[derive(Debug, Clone, Copy)]
pub struct RunSeconds;

impl MetricConstructor<Histogram> for RunSeconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new([
            0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0,
            43_200.0,
        ])
    }
}

/// Makes histograms with the bounds that OpenTelemetry's conventions advise for requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestSeconds;

impl MetricConstructor<Histogram> for RequestSeconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new([0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0])
    }
}

/// With our own prefix, unless OpenTelemetry's conventions have a name for it.
fn full_name(field: &str, conventional: &[&str]) -> String {
    conventional.first().map_or_else(|| format!("rosterd_{field}"), |name| (*name).to_owned())
}

/// The encoder puts a unit behind a name, and tells scrapers of it.
fn register(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: impl prometheus_client::registry::Metric,
) {
    let units = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)];
    for (suffix, unit) in units {
        if let Some(stem) = name.strip_suffix(suffix) {
            return registry.register_with_unit(stem, help, unit, metric);
        }
    }
    registry.register(name, help, metric);
}

/// `/// help`, the field, `{its labels}`, `as "another_name"` where a convention has one, its type, how it is made.
macro_rules! metrics {
    ($($(#[doc = $help:literal])+
        $name:ident $({$($label:literal),+})? $(as $conventional:literal)?: $type:ty = $made:expr;)*) => {
        /// Everything that is counted. Cheap to share: counters are atomics.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            $($(#[doc = $help])+ pub $name: $type,)*
        }

        impl Metrics {
            fn within(mut registry: Registry) -> Arc<Self> {
                $(
                    let $name: $type = $made;
                    let name = full_name(stringify!($name), &[$($conventional)?]);
                    register(&mut registry, &name, concat!($($help),+).trim(), $name.clone());
                )*
                Arc::new(Self { registry, $($name,)* })
            }

            /// Of what is above, in its order.
            fn own() -> Vec<Described> {
                vec![$(Described {
                    name: full_name(stringify!($name), &[$($conventional)?]),
                    kind: <$type as TypedMetric>::TYPE,
                    labels: &[$($($label),+)?],
                    help: concat!($($help),+).trim_ascii(),
                },)*]
            }
        }
    };
}

// The help texts end without a full stop: the encoder adds one. Counters get `_total`. `cargo xtask docs` writes the guide's
// page from this.
metrics! {
    /// 1 while this coordinator serves; 0 while it starts, stops, its clock is off or its store does not answer
    serving: Gauge = Gauge::default();
    /// Runs started, by source
    runs_started {"source"}: Family<Label, Counter> = Family::default();
    /// Runs that ended, by outcome
    runs {"outcome"}: Family<Label, Counter> = Family::default();
    /// How long runs took, by outcome: user code by its worker's clock, or from the start's commit to the end's where none told
    run_seconds {"outcome"}: Family<Label, Histogram, RunSeconds> = Family::new_with_constructor(RunSeconds);
    /// Runs of the job that ended here, by outcome
    job_runs {"job", "outcome"}: Family<Labels, Counter> = Family::default();
    /// When a run of the job last succeeded, whichever item's, as seconds since 1970; as far as this coordinator knows
    job_last_success_timestamp_seconds {"job"}: Family<Labels, Gauge<f64, AtomicU64>> = Family::default();
    /// 1 for the status that the job has, the same on every coordinator
    job_status {"job", "status"}: Family<Labels, Gauge> = Family::default();
    /// Jobs that have no series of their own, since metrics_jobs others have
    metrics_jobs_left_out: Gauge = Gauge::default();
    /// Scheduled times that were not run, by reason
    missed {"reason"}: Family<Label, Counter> = Family::default();
    /// Scheduled times merged into a later run
    misfired: Counter = Counter::default();
    /// Scheduled times skipped by policy
    skipped: Counter = Counter::default();
    /// Transactions of the store, by outcome
    commits {"outcome"}: Family<Label, Counter> = Family::default();
    /// From handing a transaction over to its answer
    commit_seconds: Histogram = Seconds.new_metric();
    /// From a scheduled time to the commit of its start
    fire_lag_seconds: Histogram = Seconds.new_metric();
    /// Workers whose lease expired
    workers_expired: Counter = Counter::default();
    /// Jobs known to this coordinator
    jobs: Gauge = Gauge::default();
    /// Jobs led by this coordinator
    jobs_led: Gauge = Gauge::default();
    /// Jobs led by this coordinator, enabled and not paused, that no enabled worker is there for
    jobs_without_workers: Gauge = Gauge::default();
    /// Enabled items of jobs led by this coordinator, enabled and not paused, that no enabled worker owns
    items_without_owner: Gauge = Gauge::default();
    /// Age of the oldest scheduled time that this coordinator knows to be neither run nor recorded
    oldest_waiting_seconds: Gauge<f64, AtomicU64> = Gauge::default();
    /// How far this machine's clock is ahead of the store's at least, below zero behind; 0 on the embedded store
    clock_ahead_seconds: Gauge<f64, AtomicU64> = Gauge::default();
    /// Workers attached to this coordinator, from their Welcome until they leave or their lease expires
    workers: Gauge = Gauge::default();
    /// Worker streams that are open
    streams: Gauge = Gauge::default();
    /// Frames of workers that wait to be taken in
    inbox_depth: Gauge = Gauge::default();
    /// Refused frames and requests, by code
    refused {"code"}: Family<Label, Counter> = Family::default();
    /// History entries dropped because the history could not keep up
    history_dropped: Counter = Counter::default();
    /// History entries that wait to be written, in memory or on the disk
    history_waiting: Gauge = Gauge::default();
    /// Bytes of history entries that wait on the disk for the database
    history_waiting_bytes: Gauge = Gauge::default();
    /// Whether the history takes what is written: 0 while its database does not
    history_reachable: Gauge = Gauge::default();
    /// Connections that are open
    connections: Gauge = Gauge::default();
    /// Connections that were closed at once or early, by reason
    connections_refused {"reason"}: Family<Label, Counter> = Family::default();
    /// Requests, by method and gRPC status or HTTP status
    requests {"method", "status"}: Family<Labels, Counter> = Family::default();
    /// Calls of gRPC, from their head to their answer's head, by method and status; OpenTelemetry's rpc.server.call.duration
    rpc_seconds {"rpc_system_name", "rpc_method", "rpc_response_status_code"} as "rpc_server_call_duration_seconds":
        Family<Labels, Histogram, RequestSeconds> = Family::new_with_constructor(RequestSeconds);
    /// Requests of pages and REST, from their head to their answer's head; OpenTelemetry's http.server.request.duration
    http_seconds {"http_request_method", "http_route", "http_response_status_code"} as "http_server_request_duration_seconds":
        Family<Labels, Histogram, RequestSeconds> = Family::new_with_constructor(RequestSeconds);
    /// Spans that the collector of traces has taken
    spans_exported: Counter = Counter::default();
    /// Spans dropped, by reason: no room in the queue, not taken by the collector, rejected by it, or left at the stop
    spans_dropped {"reason"}: Family<Label, Counter> = Family::default();
    /// Alarms that this coordinator raised and that are not over, by kind
    alarms {"kind"}: Family<Label, Gauge> = Family::default();
    /// Messages to receivers of alarms, by their form and by whether they were taken
    alarm_deliveries {"form", "outcome"}: Family<[(&'static str, &'static str); 2], Counter> = Family::default();
    /// Panics caught in request handlers
    handler_panics: Counter = Counter::default();
    /// Panics of any task or thread
    panics: Counter = Counter::default();
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Arc<Self> {
        Self::within(Registry::default())
    }

    /// The same, with numbers of this process beside them: for the one coordinator of a process, which began at `started`.
    pub fn of_process(started: Time) -> Arc<Self> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process { started }));
        Self::within(registry)
    }

    /// As OpenMetrics text. Each metric's head is there, also of those that have no series yet.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut out, &self.registry);
        form::with_heads(out, &Self::own())
    }

    /// What each metric is, those of the process last.
    pub fn described() -> Vec<Described> {
        let mut all = Self::own();
        all.extend(process::described());
        all
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
    fn an_invalid_filter_is_refused_with_its_text() {
        for (filter, wrong) in [
            ("loud", "\"loud\""),
            ("info,rosterd=loud", "\"loud\""),
            ("rosterd=loud=very", "\"loud=very\""),
            ("info,a b=debug", "\"a b\""),
            ("=debug", "\"\""),
            ("3", "\"3\""),
        ] {
            let error = LogFilter::parse(filter).unwrap_err().to_string();
            assert!(error.contains(filter) && error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_filter_lets_through_what_it_says() {
        use tracing::Level;

        let passes = |filter: &str, target: &str, level: Level| {
            LogFilter::parse(filter).unwrap().0.would_enable(target, &level)
        };
        assert!(passes("info", "h2", Level::INFO) && !passes("info", "h2", Level::DEBUG));
        let both = "WARN, rosterd=debug";
        assert!(
            passes(both, "rosterd_coordinator::driver", Level::DEBUG) && !passes(both, "h2", Level::INFO)
        );
        assert!(passes("info,h2=off", "rosterd", Level::INFO) && !passes("info,h2=off", "h2", Level::ERROR));
        assert!(passes("", "rosterd", Level::ERROR) && !passes("", "rosterd", Level::WARN));
    }
}
