//! Numbers of the process as a whole, under the names that every client library of Prometheus gives them. They are read from
//! the kernel when a scraper asks; where it does not tell (there is no `/proc`), the series is not there.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use rosterd_domain::time::Time;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::Described;
use crate::version::version;

/// This process.
#[derive(Debug)]
pub(super) struct Process {
    /// When it began.
    pub(super) started: Time,
}

const BUILD: (&str, &str) = ("rosterd_build", "Which version this is");
const STARTED: (&str, &str) = ("process_start_time_seconds", "When the process began, in seconds since 1970");
const CPU: (&str, &str) = ("process_cpu_seconds", "Processor time that the process has used");
const MEMORY: (&str, &str) = ("process_resident_memory_bytes", "Memory of the process that is in RAM");
const FILES: (&str, &str) = ("process_open_fds", "File descriptors that are open");
const MAX_FILES: (&str, &str) = ("process_max_fds", "Most file descriptors that may be open");

pub(super) fn described() -> impl Iterator<Item = Described> {
    let gauges = [STARTED, MEMORY, FILES, MAX_FILES].map(|what| (what, MetricType::Gauge, [].as_slice()));
    let counters = [(CPU, MetricType::Counter, [].as_slice())];
    let infos = [(BUILD, MetricType::Info, ["version"].as_slice())];
    let all = infos.into_iter().chain(gauges).chain(counters);
    all.map(|((name, help), kind, labels)| Described { name: name.to_owned(), kind, labels, help })
}

impl Collector for Process {
    #[allow(clippy::cast_precision_loss, reason = "there are not so many milliseconds")]
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let mut tell = |(name, help): (&str, &str), metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        tell(BUILD, &Info::new(vec![("version", version())]))?;
        tell(STARTED, &ConstGauge::new(self.started.0 as f64 / 1000.0))?;
        tell(CPU, &ConstCounter::new(processor_seconds()))?;
        if let Some(bytes) = resident_bytes() {
            tell(MEMORY, &ConstGauge::new(bytes))?;
        }
        if let Some(open) = open_files() {
            tell(FILES, &ConstGauge::new(open))?;
        }
        // No limit: nothing to hold what is open against.
        if let Some(most) = getrlimit(Resource::Nofile).current.and_then(|most| i64::try_from(most).ok()) {
            tell(MAX_FILES, &ConstGauge::new(most))?;
        }
        Ok(())
    }
}

#[allow(clippy::cast_precision_loss, reason = "a process uses fewer nanoseconds")]
fn processor_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Memory of this process that is in RAM; none where the system does not tell.
fn resident_bytes() -> Option<i64> {
    resident_in(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// `VmRSS:    12345 kB`
fn resident_in(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn open_files() -> Option<i64> {
    let files = std::fs::read_dir("/proc/self/fd").ok()?.count();
    // Without the one that this was read through.
    i64::try_from(files).ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    #[test]
    fn the_process_tells_what_it_uses() {
        let text = Metrics::of_process(Time(1_700_000_000_500)).encode();
        assert!(text.contains("\nprocess_start_time_seconds 1700000000.5\n"), "{text}");
        assert!(text.contains("\nrosterd_build_info{version=\""), "{text}");
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse::<f64>().unwrap()
        };
        assert!(value("process_cpu_seconds_total") > 0.0);
        if cfg!(target_os = "linux") {
            assert!(value("process_resident_memory_bytes") > 1e5);
            assert!(value("process_open_fds") >= 3.0 && value("process_open_fds") < value("process_max_fds"));
        }
    }

    #[test]
    fn memory_is_read_from_a_status_and_from_nothing_else() {
        assert_eq!(resident_in("VmPeak:\t 9 kB\nVmRSS:\t   12 kB\n"), Some(12 << 10));
        assert_eq!(resident_in("VmRSS:\t12\n"), None);
    }
}
