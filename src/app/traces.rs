//! Joins traces to the coordinator, where an endpoint is configured.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use super::AppError;
use super::supervisor::Tracers;
use crate::config::{Config, Otlp};
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};
use rosterd_runtime::telemetry::Metrics;
use rosterd_runtime::version::version;
use rosterd_traces::export::{Exporter, Queue, Settings, prepare};
use rosterd_traces::spans::{Sampling, Spans};

/// Traces that are made.
pub(super) struct Traces {
    queue: Queue,
    sampling: Sampling,
}

impl Traces {
    /// Makes a tracer for each coordinator of this process.
    pub(super) fn tracers(self) -> Tracers {
        Box::new(move |id| Box::new(Spans::new(self.queue.clone(), self.sampling, id.as_str().to_owned())))
    }
}

/// Whether the files that the configuration names can be used.
pub(super) fn check(config: &Config) -> Result<(), AppError> {
    config.otlp.as_ref().map(read_headers).transpose().map(drop)
}

/// Begins to send what is made; in the last phase, after everybody who makes any.
pub(super) fn start(
    config: &Config,
    address: SocketAddr,
    tasks: &Tasks,
    metrics: &Arc<Metrics>,
) -> Result<Option<Traces>, AppError> {
    prepare(metrics);
    let Some(otlp) = &config.otlp else { return Ok(None) };
    let scheme = config.scheme();
    let reached = config.advertise.clone().unwrap_or_else(|| format!("{scheme}://{address}"));
    let settings = Settings {
        endpoint: otlp.endpoint.clone(),
        headers: read_headers(otlp)?,
        ca: otlp.ca.as_deref().map(|ca| read("otlp_ca", ca)).transpose()?,
        timeout: otlp.timeout,
        interval: otlp.interval,
        queue: otlp.queue,
        resource: vec![
            ("service.name", "rosterd".to_owned()),
            ("service.namespace", config.namespace.to_string()),
            ("service.instance.id", reached),
            ("service.version", version()),
        ],
    };
    let (queue, exporter) = Exporter::new(settings, metrics.clone())?;
    tracing::info!(endpoint = %otlp.endpoint, sampling = otlp.sampling, "traces are sent");
    tasks.session(ShutdownPhase::Store, "traces", exporter.run(tasks.stop(ShutdownPhase::Store)));
    Ok(Some(Traces { queue, sampling: Sampling::of(otlp.sampling) }))
}

fn read(field: &'static str, path: &Path) -> Result<Vec<u8>, AppError> {
    let path_text = path.display().to_string();
    std::fs::read(path).map_err(|error| AppError::File { field, path: path_text, problem: error.to_string() })
}

/// `name=value` on each line; empty ones and those that begin with `#` say nothing.
fn read_headers(otlp: &Otlp) -> Result<Vec<(String, String)>, AppError> {
    let Some(path) = &otlp.headers_file else { return Ok(Vec::new()) };
    let text = read("otlp_headers_file", path)?;
    headers(&String::from_utf8_lossy(&text)).map_err(|line| AppError::File {
        field: "otlp_headers_file",
        path: path.display().to_string(),
        // What is in the line may be a secret.
        problem: format!("line {line} is not name=value of a header"),
    })
}

/// The headers, or the number of the first line that is not a header.
fn headers(text: &str) -> Result<Vec<(String, String)>, usize> {
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            let (name, value) = line.split_once('=').ok_or(number)?;
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            // What ends so carries bytes in gRPC.
            let named = !name.is_empty() && name.chars().all(is_name) && !name.ends_with("-bin");
            let printable = value.chars().all(|c| c.is_ascii_graphic() || c == ' ');
            if named && printable { Ok((name, value.to_owned())) } else { Err(number) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_line_by_line() {
        let read = headers("# the tenant\nX-Scope-OrgID = ops\n\nauthorization=Basic dTpw==\n").unwrap();
        let expected = [("x-scope-orgid", "ops"), ("authorization", "Basic dTpw==")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_not_a_header_is_refused_by_its_line_and_not_repeated() {
        for (text, line) in [("a=b\nsecret", 2), ("=b", 1), ("a b=c", 1), ("a=\u{e9}", 1), ("key-bin=x", 1)] {
            assert_eq!(headers(text), Err(line), "{text:?}");
        }
    }
}
