//! The fields of traces: where they go, how, and where people look at them.

use std::path::PathBuf;
use std::time::Duration;

use super::reader::{ConfigReader, readable};
use super::value::is_loopback;

/// What a trace's page has in the place of the id.
const TRACE_ID: &str = "{trace_id}";
/// Where collectors take OTLP over HTTP, which is not spoken here.
const HTTP_PORT: &str = ":4318";

/// Where spans go, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Otlp {
    /// `http://host:port`, or https.
    pub endpoint: String,
    /// Lines of `name=value`.
    pub headers_file: Option<PathBuf>,
    /// Who vouches for the collector.
    pub ca: Option<PathBuf>,
    /// For one request.
    pub timeout: Duration,
    /// How long a span waits for others.
    pub interval: Duration,
    /// Spans that may wait.
    pub queue: usize,
    /// Part of all traces, 0 to 1.
    pub sampling: f64,
}

/// A ratio is never NaN.
impl Eq for Otlp {}

/// Types the fields; none without an endpoint, and then none of the others may be set to a file.
pub(super) fn otlp(reader: &mut ConfigReader) -> Option<Otlp> {
    let found = Otlp {
        endpoint: endpoint(reader).unwrap_or_default(),
        headers_file: readable(reader, "otlp_headers_file"),
        ca: readable(reader, "otlp_ca"),
        timeout: reader.duration("otlp_timeout", "100ms", "5m"),
        interval: reader.duration("otlp_interval", "10ms", "1m"),
        queue: reader.count("otlp_queue", 16, 10_000_000),
        sampling: reader.parsed("otlp_sampling", ratio, "write 0 to 1, for example 0.1").unwrap_or(1.0),
    };
    if reader.text("otlp_endpoint").is_none() {
        for name in ["otlp_headers_file", "otlp_ca"] {
            if reader.text(name).is_some() {
                reader.push(
                    name,
                    "otlp_endpoint is not set",
                    format!("set otlp_endpoint, or leave {name} out"),
                );
            }
        }
        return None;
    }
    if found.endpoint.starts_with("http://") {
        if found.ca.is_some() {
            let problem = "otlp_endpoint is plain HTTP: there is no certificate";
            reader.push("otlp_ca", problem, "write https:// in otlp_endpoint, or leave otlp_ca out");
        }
        if found.headers_file.is_some() && !is_loopback(found.endpoint.trim_start_matches("http://")) {
            let problem =
                "its headers could be read on their way: otlp_endpoint is plain HTTP to another machine";
            reader.push(
                "otlp_headers_file",
                problem,
                "write https:// in otlp_endpoint, or send to a collector on loopback",
            );
        }
    }
    Some(found)
}

/// The page of a trace.
pub(super) fn page(reader: &mut ConfigReader) -> Option<String> {
    let parse = |text: &str| {
        let is_url = text.starts_with("http://") || text.starts_with("https://");
        match (is_url, text.matches(TRACE_ID).count()) {
            (true, 1..) => Ok(text.to_owned()),
            (false, _) => Err("it is not a URL".to_owned()),
            (true, _) => Err(format!("nothing says where the id goes: there is no {TRACE_ID} in it")),
        }
    };
    reader.parsed("trace_url", parse, "write https://host/path with {trace_id} in it")
}

fn endpoint(reader: &mut ConfigReader) -> Option<String> {
    const REMEDY: &str = "write http://host:port or https://host:port; the port for gRPC is 4317 usually";
    const NO_HTTP: &str = "that is OTLP over HTTP, and here it is spoken over gRPC alone";
    let parse = |text: &str| {
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let rest = rest.ok_or("it is not a URL of http or https")?.trim_end_matches('/');
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path == "v1/traces" || host.ends_with(HTTP_PORT) {
            return Err(NO_HTTP.to_owned());
        }
        if !path.is_empty() || host.contains(['@', '?', '#']) {
            return Err("there is more in it than host and port".to_owned());
        }
        let name = host_of(host);
        if name.is_empty() {
            return Err("there is no host in it".to_owned());
        }
        let port = host[name.len()..].trim_start_matches(']');
        if !port.is_empty()
            && port.strip_prefix(':').and_then(|port| port.parse::<u16>().ok()).is_none_or(|port| port == 0)
        {
            return Err(format!("{port:?} is not a port"));
        }
        Ok(text.trim_end_matches('/').to_owned())
    };
    reader.parsed("otlp_endpoint", parse, REMEDY)
}

/// `[::1` of `[::1]:4317`, `host` of `host:4317`.
fn host_of(authority: &str) -> &str {
    match authority.find(']') {
        Some(end) if authority.starts_with('[') => &authority[..end],
        _ => authority.split(':').next().unwrap_or_default(),
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let found: f64 = text.parse().map_err(|_| "invalid number".to_owned())?;
    if (0.0..=1.0).contains(&found) { Ok(found) } else { Err("out of range".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::super::{Loaded, Sources};
    use super::*;

    fn read(flags: &[(&str, &str)]) -> Result<(Option<Otlp>, Option<String>), String> {
        let flags = flags.iter().chain(&[("data_dir", "d")]);
        let flags = flags.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let loaded =
            Loaded::read(&Sources { flags, ..Sources::default() }).map_err(|defects| defects.to_string())?;
        Ok((loaded.config.otlp, loaded.config.trace_url))
    }

    #[test]
    fn without_an_endpoint_nothing_is_traced() {
        assert_eq!(read(&[]), Ok((None, None)));
        let refused = read(&[("otlp_ca", "Cargo.toml")]).unwrap_err();
        assert!(
            refused.contains("otlp_endpoint is not set; set otlp_endpoint, or leave otlp_ca out"),
            "{refused}"
        );
    }

    #[test]
    fn an_endpoint_is_a_host_that_speaks_grpc() {
        for good in
            ["http://127.0.0.1:4317", "https://otel.example.com", "http://[::1]:4317/", "http://localhost:1"]
        {
            let otlp = read(&[("otlp_endpoint", good)]).unwrap().0.unwrap();
            assert_eq!(otlp.endpoint, good.trim_end_matches('/'));
            assert!((otlp.sampling - 1.0).abs() < f64::EPSILON);
        }
        for (bad, why) in [
            (
                "http://localhost:4318",
                "that is OTLP over HTTP, and here it is spoken over gRPC alone; write http://host:port",
            ),
            ("https://otel/v1/traces", "that is OTLP over HTTP"),
            ("localhost:4317", "it is not a URL of http or https"),
            ("http://:4317", "there is no host in it"),
            ("http://a:b", "\":b\" is not a port"),
            ("http://a:0", "\":0\" is not a port"),
            ("http://user:word@a:4317", "there is more in it than host and port"),
            ("http://a/b", "there is more in it than host and port"),
        ] {
            let refused = read(&[("otlp_endpoint", bad)]).unwrap_err();
            assert!(
                refused.contains(&format!("otlp_endpoint = {bad:?}")) && refused.contains(why),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_secret_header_does_not_cross_a_network_in_plain_text() {
        let with = |endpoint| read(&[("otlp_endpoint", endpoint), ("otlp_headers_file", "Cargo.toml")]);
        assert!(with("http://10.0.0.1:4317").unwrap_err().contains("could be read on their way"));
        for endpoint in
            ["https://10.0.0.1:4317", "http://127.0.0.1:4317", "http://[::1]:4317", "http://localhost:4317"]
        {
            assert!(with(endpoint).unwrap().0.unwrap().headers_file.is_some(), "{endpoint}");
        }
        let refused = read(&[("otlp_endpoint", "http://a:4317"), ("otlp_ca", "Cargo.toml")]).unwrap_err();
        assert!(refused.contains("plain HTTP: there is no certificate"), "{refused}");
    }

    #[test]
    fn sampling_is_a_ratio_and_a_page_says_where_the_id_goes() {
        for bad in ["2", "-0.1", "NaN", "half"] {
            let refused = read(&[("otlp_endpoint", "http://a:4317"), ("otlp_sampling", bad)]).unwrap_err();
            assert!(refused.contains("write 0 to 1"), "{refused}");
        }
        let page = "https://jaeger.example.com/trace/{trace_id}";
        assert_eq!(read(&[("trace_url", page)]), Ok((None, Some(page.to_owned()))));
        assert!(
            read(&[("trace_url", "https://jaeger/")]).unwrap_err().contains("there is no {trace_id} in it")
        );
        assert!(read(&[("trace_url", "javascript:{trace_id}")]).unwrap_err().contains("it is not a URL"));
    }
}
